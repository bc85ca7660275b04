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
        let session = SQLiteSession(connection: db)
        var set: [String: String] = [:]
        for row in try session.rows(
            "SELECT subject, details FROM audit WHERE action = 'deviceChanged' ORDER BY number")
        {
            let details = try? JSONDecoder().decode([String: String].self, from: Data((row["details"] as String).utf8))
            if let end = details?["expiresAt"] { set[try row["subject"]] = end }
        }
        for row in try session.rows(
            "SELECT id, expires_at FROM devices WHERE kind = 'enrolled' AND expires_at IS NOT NULL")
        {
            let (id, end): (String, Date) = try (row["id"], row["expires_at"])
            guard set["device:\(id)"] == end.formatted(.iso8601) else { continue }
            try session.execute("UPDATE devices SET expiry_limit = expires_at WHERE id = \(id)")
        }
    }
}
