// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import GRDB

/// The tables and their migrations. A released migration must never be changed: add a later migration that changes its
/// result.
enum Schema {
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { database in try database.execute(sql: first) }
        migrator.registerMigration("2") { database in try database.execute(sql: logins) }
        migrator.registerMigration("3", migrate: addExpiryLimits)
        migrator.registerMigration("4") { database in try database.execute(sql: auditCounts) }
        migrator.registerMigration("5") { database in try database.execute(sql: cooldowns) }
        migrator.registerMigration("6") { database in try database.execute(sql: userAddresses) }
        return migrator
    }

    // Times are milliseconds since 1970 in UTC. IDs are text; keys, hashes and addresses are bytes. No row number is
    // visible to a client: the numbers of changes and of audit entries give an order, and identify nothing else.
    private static let first = """
        CREATE TABLE users (
            id TEXT NOT NULL PRIMARY KEY,
            login TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL,
            notes TEXT NOT NULL,
            enabled INTEGER NOT NULL,
            expires_at INTEGER,
            expiry_noted INTEGER NOT NULL DEFAULT 0,
            device_limit INTEGER,
            password TEXT,
            created_at INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE devices (
            id TEXT NOT NULL PRIMARY KEY,
            user_id TEXT NOT NULL REFERENCES users (id),
            kind TEXT NOT NULL,
            name TEXT NOT NULL,
            notes TEXT NOT NULL,
            platform TEXT,
            public_key BLOB UNIQUE,
            key_at INTEGER,
            credential_hash BLOB UNIQUE,
            rotation_hash BLOB,
            made_by TEXT,
            request_hash BLOB,
            enabled INTEGER NOT NULL,
            expires_at INTEGER,
            expiry_noted INTEGER NOT NULL DEFAULT 0,
            created_at INTEGER NOT NULL,
            last_seen_at INTEGER,
            last_endpoint TEXT,
            received INTEGER NOT NULL DEFAULT 0,
            sent INTEGER NOT NULL DEFAULT 0
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX devices_by_user ON devices (user_id);
        CREATE INDEX devices_by_time ON devices (created_at, id);
        CREATE INDEX devices_by_expiry ON devices (expires_at) WHERE expires_at IS NOT NULL;

        CREATE TABLE addresses (
            address BLOB NOT NULL PRIMARY KEY,
            network TEXT NOT NULL,
            family INTEGER NOT NULL,
            device_id TEXT REFERENCES devices (id),
            released_at INTEGER,
            UNIQUE (device_id, family),
            CHECK ((device_id IS NULL) = (released_at IS NOT NULL))
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX addresses_at_rest ON addresses (network, released_at) WHERE device_id IS NULL;

        CREATE TABLE pools (
            network TEXT NOT NULL PRIMARY KEY,
            next BLOB
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE subnets (
            network TEXT NOT NULL PRIMARY KEY,
            family INTEGER NOT NULL,
            first BLOB NOT NULL,
            last BLOB NOT NULL,
            device_id TEXT NOT NULL REFERENCES devices (id) ON DELETE CASCADE
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX subnets_by_device ON subnets (device_id);

        CREATE TABLE tokens (
            id TEXT NOT NULL PRIMARY KEY,
            scope TEXT NOT NULL,
            user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
            device_id TEXT REFERENCES devices (id) ON DELETE SET NULL,
            name TEXT NOT NULL,
            hash BLOB NOT NULL UNIQUE,
            hint TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            expires_at INTEGER,
            last_used_at INTEGER,
            revoked_at INTEGER
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX tokens_by_time ON tokens (created_at, id);
        CREATE INDEX tokens_by_user ON tokens (user_id);
        CREATE INDEX tokens_by_device ON tokens (device_id);

        CREATE TABLE invitations (
            id TEXT NOT NULL PRIMARY KEY,
            user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
            device_name TEXT NOT NULL,
            hash BLOB NOT NULL UNIQUE,
            hint TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL,
            used_at INTEGER,
            request_hash BLOB,
            device_id TEXT REFERENCES devices (id) ON DELETE SET NULL,
            revoked_at INTEGER,
            misuses INTEGER NOT NULL DEFAULT 0
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX invitations_by_time ON invitations (created_at, id);
        CREATE INDEX invitations_by_user ON invitations (user_id);
        CREATE INDEX invitations_by_device ON invitations (device_id);

        CREATE TABLE rules (
            id TEXT NOT NULL PRIMARY KEY,
            user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
            device_id TEXT REFERENCES devices (id) ON DELETE CASCADE,
            position INTEGER NOT NULL,
            action TEXT NOT NULL,
            direction TEXT NOT NULL,
            networks TEXT NOT NULL,
            transport TEXT NOT NULL,
            ports TEXT NOT NULL,
            notes TEXT NOT NULL,
            CHECK ((user_id IS NULL) <> (device_id IS NULL)),
            UNIQUE (user_id, position),
            UNIQUE (device_id, position)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE changes (
            sequence INTEGER PRIMARY KEY AUTOINCREMENT,
            at INTEGER NOT NULL,
            kind TEXT NOT NULL,
            subject TEXT NOT NULL
        ) STRICT;

        CREATE TABLE audit (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            at INTEGER NOT NULL,
            actor TEXT NOT NULL,
            source TEXT,
            action TEXT NOT NULL,
            subject TEXT NOT NULL,
            details TEXT NOT NULL
        ) STRICT;
        CREATE INDEX audit_by_subject ON audit (subject, number);
        CREATE INDEX audit_by_action ON audit (action, number);
        CREATE INDEX audit_by_actor ON audit (actor, number);
        CREATE INDEX audit_by_time ON audit (at);

        CREATE TABLE creations (
            key_hash BLOB NOT NULL PRIMARY KEY,
            request_hash BLOB NOT NULL,
            subject TEXT NOT NULL,
            at INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;

        -- What devices that are gone have sent and received.
        CREATE TABLE totals (
            name TEXT NOT NULL PRIMARY KEY,
            value INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        INSERT INTO totals VALUES ('received', 0), ('sent', 0);
        """

    // An index for devices of the kind `login`. The migration also makes earlier versions, which do not know this kind,
    // refuse the file.
    private static let logins = "CREATE INDEX devices_by_kind ON devices (kind, user_id)"
}
