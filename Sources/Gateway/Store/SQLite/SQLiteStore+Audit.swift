// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
import GRDB
import Provisioning

extension SQLiteStore {
    // MARK: - The log

    package func audit(
        _ filter: AuditFilter, _ page: PageRequest
    ) async throws(StoreError) -> Page<AuditEntry> {
        try await read { db in
            guard let before = page.after.map({ Int64($0) }) ?? .max else { return Page(items: [], next: nil) }
            var condition: SQL = "number < \(before)"
            if let action = filter.action { condition = "\(condition) AND action = \(action.rawValue)" }
            if let subject = filter.subject { condition = "\(condition) AND subject = \(subject)" }
            if let actor = filter.actor { condition = "\(condition) AND actor = \(actor)" }
            let entries = try Row.fetchAll(
                db, literal: "SELECT * FROM audit WHERE \(condition) ORDER BY number DESC LIMIT \(page.limit + 1)"
            ).map { try AuditEntry($0) }
            let items = Array(entries.prefix(page.limit))
            return Page(items: items, next: entries.count > page.limit ? items.last.map { "\($0.number)" } : nil)
        }
    }

    package func append(_ audit: AuditRecord, change: Change.Subject?) async throws(StoreError) {
        try await write { db in
            if let change { try Self.note(db, change, at: audit.at) }
            try Self.log(db, audit)
        }
    }

    package func counts(at now: Date) async throws(StoreError) -> StoreCounts {
        let time = now.milliseconds
        return try await read { db in
            let row = try Row.fetchOne(
                db,
                literal: """
                    SELECT (SELECT COUNT(*) FROM users) AS users, (SELECT COUNT(*) FROM devices) AS devices,
                        (SELECT COUNT(*) FROM devices JOIN users ON users.id = devices.user_id
                            WHERE devices.public_key IS NOT NULL AND devices.enabled AND users.enabled
                                AND COALESCE(devices.expires_at > \(time), TRUE)
                                AND COALESCE(users.expires_at > \(time), TRUE)
                                AND NOT devices.expiry_noted AND NOT users.expiry_noted) AS active,
                        (SELECT COUNT(*) FROM devices WHERE kind = \(Device.Kind.login.rawValue)) AS logins,
                        (SELECT COUNT(*) FROM invitations
                            WHERE used_at IS NULL AND revoked_at IS NULL AND expires_at > \(time)) AS open,
                        (SELECT COUNT(*) FROM tokens
                            WHERE revoked_at IS NULL AND COALESCE(expires_at > \(time), TRUE)) AS tokens,
                        (SELECT COALESCE(MAX(sequence), 0) FROM changes) AS sequence,
                        (SELECT COALESCE(SUM(received), 0) FROM devices)
                            + (SELECT value FROM totals WHERE name = 'received') AS received,
                        (SELECT COALESCE(SUM(sent), 0) FROM devices)
                            + (SELECT value FROM totals WHERE name = 'sent') AS sent
                    """)
            guard let fields = row.map(Fields.init) else { return StoreCounts() }
            var counts = StoreCounts()
            counts.users = Int(clamping: try fields.count("users"))
            counts.devices = Int(clamping: try fields.count("devices"))
            counts.activeDevices = Int(clamping: try fields.count("active"))
            counts.logins = Int(clamping: try fields.count("logins"))
            counts.openInvitations = Int(clamping: try fields.count("open"))
            counts.tokens = Int(clamping: try fields.count("tokens"))
            counts.sequence = try fields.value("sequence")
            counts.traffic = Device.Traffic(received: try fields.count("received"), sent: try fields.count("sent"))
            return counts
        }
    }

    // MARK: - What time brings

    package func sweep(_ sweep: Sweep) async throws(StoreError) -> SweepOutcome {
        try await write { db in
            var outcome = SweepOutcome()
            let now = sweep.now.milliseconds
            for row in try Row.fetchAll(
                db, literal: "SELECT id FROM devices WHERE expires_at <= \(now) AND expiry_noted = 0")
            {
                let id = try Fields(row).id("id")
                try db.execute(literal: "UPDATE devices SET expiry_noted = 1 WHERE id = \(id.description)")
                try Self.ended(db, .device(id), .deviceExpired, "device:\(id)", at: sweep.now)
                outcome.devices.append(id)
            }
            for row in try Row.fetchAll(
                db, literal: "SELECT id FROM users WHERE expires_at <= \(now) AND expiry_noted = 0")
            {
                let id = try Fields(row).id("id")
                try db.execute(literal: "UPDATE users SET expiry_noted = 1 WHERE id = \(id.description)")
                try Self.ended(db, .user(id), .userExpired, "user:\(id)", at: sweep.now)
                outcome.users.append(id)
            }
            for row in try Row.fetchAll(
                db,
                literal: """
                    SELECT id FROM devices WHERE kind = \(Device.Kind.addKey.rawValue) AND public_key IS NOT NULL
                        AND MAX(COALESCE(last_seen_at, 0), COALESCE(key_at, 0)) < \(sweep.idleKeysBefore.milliseconds)
                    """)
            {
                let id = try Fields(row).id("id")
                try db.execute(
                    literal: "UPDATE devices SET public_key = NULL, key_at = NULL WHERE id = \(id.description)")
                try Self.ended(db, .device(id), .keyExpired, "device:\(id)", at: sweep.now)
                outcome.keys.append(id)
            }
            try Self.correct(db, sweep, &outcome)
            let busy = Set(sweep.busy)
            for row in try Row.fetchAll(
                db,
                literal: """
                    SELECT id FROM devices WHERE kind = \(Device.Kind.login.rawValue)
                        AND COALESCE(last_seen_at, created_at) < \(sweep.idleLeasesBefore.milliseconds)
                    """)
            {
                let id: DeviceID = try Fields(row).id("id")
                guard !busy.contains(id) else { continue }
                try Self.removeDevice(db, id, at: sweep.now)
                try Self.log(
                    db,
                    AuditRecord(
                        at: sweep.now, actor: Caller.gateway.name, source: nil, action: .loginEnded,
                        subject: "device:\(id)"))
                outcome.leases.append(id)
            }
            if let before = sweep.auditBefore {
                try db.execute(literal: "DELETE FROM audit WHERE at < \(before.milliseconds)")
            }
            try db.execute(literal: "DELETE FROM creations WHERE at < \(sweep.creationsBefore.milliseconds)")
            try db.execute(
                literal: """
                    DELETE FROM changes
                    WHERE sequence <= (SELECT COALESCE(MAX(sequence), 0) FROM changes) - \(sweep.changesKept)
                    """)
            return outcome
        }
    }

    private static func ended(
        _ db: Database, _ change: Change.Subject, _ action: AuditRecord.Action, _ subject: String, at now: Date
    ) throws {
        try note(db, change, at: now)
        try log(
            db, AuditRecord(at: now, actor: Caller.gateway.name, source: nil, action: action, subject: subject))
    }
}
