// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Provisioning

extension GatewayStore {
    /// Records each expiry once, and deletes old records.
    package func sweep(_ sweep: Sweep) async throws(StoreError) -> SweepOutcome {
        try await database.write { db in
            var outcome = SweepOutcome()
            let hasEnded: SQL = "expires_at <= \(sweep.now) AND expiry_noted = 0"
            outcome.devices = try Self.mark(
                db, .devices, where: hasEnded, "expiry_noted = 1", .deviceExpired, at: sweep.now)
            outcome.users = try Self.mark(db, .users, where: hasEnded, "expiry_noted = 1", .userExpired, at: sweep.now)
            let isIdle: SQL = """
                kind = \(Device.Kind.addKey) AND public_key IS NOT NULL
                    AND COALESCE(last_seen_at, 0) < \(sweep.idleKeysBefore) AND COALESCE(key_at, 0) < \(sweep.idleKeysBefore)
                """
            outcome.keys = try Self.mark(
                db, .devices, where: isIdle, "public_key = NULL, key_at = NULL", .keyExpired, at: sweep.now)
            try Self.correct(db, sweep, &outcome)
            try Self.endLogins(db, sweep, &outcome)
            if let before = sweep.auditBefore { try db.execute("DELETE FROM audit WHERE at < \(before)") }
            try db.execute("DELETE FROM creations WHERE at < \(sweep.creationsBefore)")
            try db.execute(
                """
                DELETE FROM changes
                WHERE sequence <= (SELECT COALESCE(MAX(sequence), 0) FROM changes) - \(sweep.changesKept)
                """)
            return outcome
        }
    }

    /// The tables whose rows a sweep marks.
    private enum Marked: String {
        case devices, users
    }

    /// Changes devices or users, records each change, and adds an audit entry for each.
    /// - Returns: The devices or users that meet the condition.
    private static func mark(
        _ db: any SQLSession, _ marked: Marked, where condition: SQL, _ change: SQL, _ action: AuditRecord.Action,
        _ details: [String: String] = [:], at now: Date
    ) throws -> [RandomID] {
        try db.rows("SELECT id FROM \(sql: marked.rawValue) WHERE \(condition)").map { row in
            let id: RandomID = try row["id"]
            try db.execute("UPDATE \(sql: marked.rawValue) SET \(change) WHERE id = \(id)")
            let subject: Change.Subject = marked == .devices ? .device(id) : .user(id)
            try recordChange(db, subject, at: now)
            try log(
                db,
                AuditRecord(
                    at: now, actor: Caller.gateway.name, source: nil, action: action,
                    subject: "\(subject.text.kind):\(id)", details: details))
            return id
        }
    }

    /// Removes devices of logins that have had no session for some time.
    private static func endLogins(_ db: any SQLSession, _ sweep: Sweep, _ outcome: inout SweepOutcome) throws {
        let rows = try db.rows(
            """
            SELECT id FROM devices WHERE kind = \(Device.Kind.login)
                AND COALESCE(last_seen_at, created_at) < \(sweep.idleLeasesBefore)
            """)
        let busy = Set(sweep.busy)
        for id in try rows.map({ try $0["id"] as DeviceID }) where !busy.contains(id) {
            try removeDevice(db, id, at: sweep.now)
            try log(
                db,
                AuditRecord(
                    at: sweep.now, actor: Caller.gateway.name, source: nil, action: .loginEnded, subject: "device:\(id)"
                ))
            outcome.leases.append(id)
        }
    }

    /// Corrects expiries and times that were recorded while the clock was wrong.
    private static func correct(_ db: any SQLSession, _ sweep: Sweep, _ outcome: inout SweepOutcome) throws {
        if sweep.isTimeCertain {
            let isTooEarly: SQL = "expiry_noted = 1 AND expires_at > \(sweep.now)"
            for (marked, action) in [(Marked.devices, AuditRecord.Action.deviceChanged), (.users, .userChanged)] {
                outcome.readmitted += try mark(
                    db, marked, where: isTooEarly, "expiry_noted = 0", action, ["expired": "false"], at: sweep.now
                ).count
            }
        }
        if sweep.correctsTimes {
            // Without the correction, an idle key would never expire, and the cooldown of an address would last longer
            // by the size of the clock's jump.
            for (table, column) in [
                ("devices", "last_seen_at"), ("devices", "key_at"), ("tokens", "last_used_at"),
                ("addresses", "released_at"),
            ] {
                try db.execute(
                    """
                    UPDATE \(sql: table) SET \(sql: column) = \(sweep.now)
                    WHERE \(sql: column) > \(sweep.now.milliseconds + ClockWatch.tolerance)
                    """)
            }
        }
        // Change a value and restore it, because a transaction that changes nothing succeeds even on a full disk.
        if sweep.isProbe {
            for change in ["+ 1", "- 1"] {
                try db.execute("UPDATE totals SET value = value \(sql: change) WHERE name = 'sent'")
            }
        }
    }
}
