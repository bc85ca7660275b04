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
            for row in try Row.fetchAll(
                db, literal: "SELECT id FROM devices WHERE expiry_noted = 1 AND expires_at > \(now)")
            {
                let id = try Fields(row).id("id")
                try db.execute(literal: "UPDATE devices SET expiry_noted = 0 WHERE id = \(id.description)")
                try readmit(db, .device(id), .deviceChanged, "device:\(id)", at: sweep.now)
                outcome.readmitted += 1
            }
            for row in try Row.fetchAll(
                db, literal: "SELECT id FROM users WHERE expiry_noted = 1 AND expires_at > \(now)")
            {
                let id = try Fields(row).id("id")
                try db.execute(literal: "UPDATE users SET expiry_noted = 0 WHERE id = \(id.description)")
                try readmit(db, .user(id), .userChanged, "user:\(id)", at: sweep.now)
                outcome.readmitted += 1
            }
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
        // A transaction that changes no row also succeeds on a full disk.
        if sweep.isProbe { try db.execute(sql: "UPDATE totals SET value = value WHERE name = 'sent'") }
    }

    private static func readmit(
        _ db: Database, _ change: Change.Subject, _ action: AuditRecord.Action, _ subject: String, at now: Date
    ) throws {
        try note(db, change, at: now)
        try log(
            db,
            AuditRecord(
                at: now, actor: Caller.gateway.name, source: nil, action: action, subject: subject,
                details: ["expired": "false"]))
    }
}
