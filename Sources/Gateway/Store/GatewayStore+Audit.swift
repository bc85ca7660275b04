// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
import NetworkAddresses
import Provisioning

extension GatewayStore {
    // MARK: - The log

    /// Returns a page of the audit log, the latest entry first.
    package func audit(
        _ filter: AuditFilter, _ page: PageRequest
    ) async throws(StoreError) -> Page<AuditEntry> {
        try await database.read { db in
            guard let before = page.after.map({ Int64($0) }) ?? .max else { return Page(items: [], next: nil) }
            var condition: SQL = "number < \(before)"
            if let action = filter.action { condition = "\(condition) AND action = \(action)" }
            if let subject = filter.subject { condition = "\(condition) AND subject = \(subject)" }
            if let actor = filter.actor { condition = "\(condition) AND actor = \(actor)" }
            let entries = try db.rows(
                "SELECT * FROM audit WHERE \(condition) ORDER BY number DESC LIMIT \(page.limit + 1)"
            ).map { try AuditEntry($0) }
            return Page(entries, page) { "\(entries[$0].number)" }
        }
    }

    /// Adds an audit entry for an event outside the store, and records a change if there is one.
    package func append(_ audit: AuditRecord, change: Change.Subject?) async throws(StoreError) {
        try await database.write { db in
            if let change { try Self.recordChange(db, change, at: audit.at) }
            try Self.log(db, audit)
        }
    }

    package func counts(at now: Date) async throws(StoreError) -> StoreCounts {
        let time = now.milliseconds
        return try await database.read { db in
            let row = try db.figures(
                """
                SELECT (SELECT COUNT(*) FROM users) AS users, (SELECT COUNT(*) FROM devices) AS devices,
                    (SELECT COUNT(*) FROM devices JOIN users ON users.id = devices.user_id
                        WHERE devices.public_key IS NOT NULL AND devices.enabled = 1 AND users.enabled = 1
                            AND COALESCE(devices.expires_at > \(time), TRUE)
                            AND COALESCE(users.expires_at > \(time), TRUE)
                            AND devices.expiry_noted = 0 AND users.expiry_noted = 0) AS active,
                    (SELECT COUNT(*) FROM devices WHERE kind = \(Device.Kind.login)) AS logins,
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
            var counts = StoreCounts()
            counts.users = try row["users"]
            counts.devices = try row["devices"]
            counts.activeDevices = try row["active"]
            counts.logins = try row["logins"]
            counts.openInvitations = try row["open"]
            counts.tokens = try row["tokens"]
            counts.sequence = try row["sequence"]
            counts.traffic = try Device.Traffic(received: row["received"], sent: row["sent"])
            return counts
        }
    }
}

extension AuditEntry {
    init(_ row: SQLRow) throws {
        let details = try? JSONDecoder().decode([String: String].self, from: Data((row["details"] as String).utf8))
        try self.init(
            number: row["number"],
            record: AuditRecord(
                at: row["at"], actor: row["actor"],
                source: (row["source"] as String?).flatMap { try? IPAddress($0) }, action: row["action"],
                subject: row["subject"], details: details ?? [:]),
            count: row["count"])
    }
}
