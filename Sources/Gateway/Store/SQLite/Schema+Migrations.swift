// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import GRDB

// The migrations after the first one, in the order of their versions.

extension Schema {
    /// Separates the expiry that an administrator has set from the expiry that a device renews.
    static func addExpiryLimits(_ db: Database) throws {
        try db.execute(
            sql: """
                ALTER TABLE devices ADD COLUMN expiry_limit INTEGER;
                CREATE INDEX devices_expired ON devices (expires_at) WHERE expiry_noted = 1;
                CREATE INDEX users_expired ON users (expires_at) WHERE expiry_noted = 1;
                UPDATE devices SET expiry_limit = expires_at WHERE kind <> 'enrolled';
                """)
        // The audit log contains the last expiry that an administrator has set. This expiry is the limit unless the
        // device has renewed since.
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

    /// Adds the number of equal events to entries of the audit log.
    static let auditCounts = "ALTER TABLE audit ADD COLUMN count INTEGER NOT NULL DEFAULT 1"

    /// Adds the user whose device has released an address.
    ///
    /// `user_id` has no foreign key because the cooldown of an address continues if its user is removed.
    static let cooldowns = """
        ALTER TABLE addresses ADD COLUMN user_id TEXT;
        CREATE INDEX addresses_at_rest_by_user ON addresses (user_id, network, released_at) WHERE device_id IS NULL;
        """

    /// Adds the owner of a fixed address, which only logins of this user get. Adds an index of the users with a
    /// password.
    ///
    /// If the user is removed, the row stays, because without it the address would never be assigned again.
    ///
    /// `addresses_at_rest` omits fixed addresses, so that a search for an address whose cooldown has ended does not
    /// read them.
    static let userAddresses = """
        ALTER TABLE addresses ADD COLUMN owner_id TEXT REFERENCES users (id) ON DELETE SET NULL;
        CREATE UNIQUE INDEX addresses_of_users ON addresses (owner_id, family) WHERE owner_id IS NOT NULL;
        DROP INDEX addresses_at_rest;
        CREATE INDEX addresses_at_rest ON addresses (network, released_at) WHERE device_id IS NULL AND owner_id IS NULL;
        CREATE INDEX users_with_password ON users (id) WHERE password IS NOT NULL;
        """
}
