// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import GRDB

extension Schema {
    /// Separates the expiry that an administrator has set from the one that a device renews.
    static func addExpiryLimits(_ db: Database) throws {
        try db.execute(
            sql: """
                ALTER TABLE devices ADD COLUMN expiry_limit INTEGER;
                CREATE INDEX devices_expired ON devices (expires_at) WHERE expiry_noted = 1;
                CREATE INDEX users_expired ON users (expires_at) WHERE expiry_noted = 1;
                UPDATE devices SET expiry_limit = expires_at WHERE kind <> 'enrolled';
                """)
        // The audit log has the last expiry that an administrator set. It is in effect unless the device has renewed since.
        var set: [String: String] = [:]
        for row in try Row.fetchAll(
            db, sql: "SELECT subject, details FROM audit WHERE action = 'deviceChanged' ORDER BY number")
        {
            let fields = Fields(row)
            let details = try? JSONDecoder().decode([String: String].self, from: Data(try fields.text("details").utf8))
            if let end = details?["expiresAt"] { set[try fields.text("subject")] = end }
        }
        for row in try Row.fetchAll(
            db, sql: "SELECT id, expires_at FROM devices WHERE kind = 'enrolled' AND expires_at IS NOT NULL")
        {
            let fields = Fields(row)
            let (id, end) = (try fields.text("id"), try fields.time("expires_at"))
            guard set["device:\(id)"] == end.formatted(.iso8601) else { continue }
            try db.execute(sql: "UPDATE devices SET expiry_limit = expires_at WHERE id = ?", arguments: [id])
        }
    }
}
