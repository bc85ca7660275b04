// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import GRDB
import Provisioning

extension SQLiteStore {
    /// Corrects records that a wrong clock has made too early.
    static func correct(_ db: Database, _ sweep: Sweep, _ outcome: inout SweepOutcome) throws {
        let now = sweep.now.milliseconds
        if sweep.isTimeCertain {
            outcome.readmitted += try readmit(db, "device", .deviceChanged, at: sweep.now) { .device($0) }
            outcome.readmitted += try readmit(db, "user", .userChanged, at: sweep.now) { .user($0) }
        }
        if sweep.correctsTimes {
            // Otherwise an idle key would never end, and an address would rest for as long as the clock had jumped.
            for (table, column) in [
                ("devices", "last_seen_at"), ("devices", "key_at"), ("tokens", "last_used_at"),
                ("addresses", "released_at"),
            ] {
                try db.execute(
                    literal: """
                        UPDATE \(sql: table) SET \(sql: column) = \(now)
                        WHERE \(sql: column) > \(now + ClockWatch.tolerance)
                        """)
            }
        }
        // A transaction that changes no byte also succeeds on a full disk.
        if sweep.isProbe {
            for change in ["+ 1", "- 1"] {
                try db.execute(sql: "UPDATE totals SET value = value \(change) WHERE name = 'sent'")
            }
        }
    }

    /// Admits devices or users whose expiry was noted too early.
    /// - Returns: The number of these.
    private static func readmit(
        _ db: Database, _ kind: String, _ action: AuditRecord.Action, at now: Date,
        _ change: (RandomID) -> Change.Subject
    ) throws -> Int {
        let rows = try Row.fetchAll(
            db, literal: "SELECT id FROM \(sql: kind)s WHERE expiry_noted = 1 AND expires_at > \(now.milliseconds)")
        for row in rows {
            let id = try Fields(row).id("id")
            try db.execute(literal: "UPDATE \(sql: kind)s SET expiry_noted = 0 WHERE id = \(id.description)")
            try note(db, change(id), at: now)
            try log(
                db,
                AuditRecord(
                    at: now, actor: Caller.gateway.name, source: nil, action: action, subject: "\(kind):\(id)",
                    details: ["expired": "false"]))
        }
        return rows.count
    }
}
