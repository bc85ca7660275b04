// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Provisioning

extension GatewayStore {
    /// - Throws: `.exists(.login)`, `.exists(.address)`, `.creationConflict`.
    package func add(
        _ user: User, _ limits: DeviceLimits, _ creation: Creation?, _ audit: AuditRecord
    ) async throws(StoreError) -> Created<User> {
        try await database.write { db in
            try Self.made(db, creation, user.id, at: audit.at) {
                try Self.user(db, $0)
            } make: {
                try Self.insert(db, user, limits, audit)
                return user
            }
        }
    }

    /// The columns of a user that can change.
    private static let columns: SQL = "login, name, notes, enabled, expiry_noted, expires_at, device_limit, password"

    /// The values of ``columns``.
    private static func values(_ user: User) -> SQL {
        """
        \(user.login), \(user.name), \(user.notes), \(user.isEnabled), \(user.hasExpired), \(user.expiresAt),
        \(user.deviceLimit), \(user.password?.text)
        """
    }

    static func insert(_ db: any SQLSession, _ user: User, _ limits: DeviceLimits, _ audit: AuditRecord) throws {
        try db.execute(
            """
            INSERT INTO users (id, created_at, \(columns)) VALUES (\(user.id), \(user.createdAt), \(values(user)))
            """)
        try setAddresses(db, of: user.id, user.addresses, limits, at: audit.at)
        try recordChange(db, .user(user.id), at: audit.at)
        try log(db, audit)
    }

    /// Changes a user. If the fixed addresses change, removes devices of the user's logins that do not have the new
    /// addresses.
    /// - Throws: `.exists(.login)`, `.exists(.address)`.
    package func update(
        user id: UserID, _ update: UserUpdate, _ limits: DeviceLimits, _ audit: AuditRecord
    ) async throws(StoreError) -> User {
        try await database.write { db in
            guard var user = try Self.user(db, id) else { throw StoreError.notFound }
            let end = user.expiresAt
            update.apply(to: &user)
            // A changed expiry is recorded again when it is reached.
            if user.expiresAt?.milliseconds != end?.milliseconds { user.hasExpired = false }
            try db.execute(
                """
                UPDATE users SET (\(Self.columns)) = (\(Self.values(user))) WHERE id = \(id)
                """)
            if let addresses = update.addresses {
                try Self.setAddresses(db, of: id, addresses, limits, at: audit.at)
            }
            try Self.recordChange(db, .user(id), at: audit.at)
            try Self.log(db, audit)
            return user
        }
    }

    /// Removes the user with devices, tokens, invitations and rules. The cooldown of the devices' addresses starts. A
    /// fixed address without a device becomes available when the cooldown after its last use has ended.
    package func remove(user id: UserID, _ audit: AuditRecord) async throws(StoreError) {
        try await database.write { db in
            guard try Self.user(db, id) != nil else { throw StoreError.notFound }
            let devices = try db.rows("SELECT id FROM devices WHERE user_id = \(id)")
            for row in devices { try Self.removeDevice(db, row["id"], at: audit.at) }
            try db.execute("DELETE FROM users WHERE id = \(id)")
            try Self.recordChange(db, .user(id), at: audit.at)
            try Self.log(db, audit)
        }
    }

    package func user(_ id: UserID) async throws(StoreError) -> User? {
        try await database.read { db in try Self.user(db, id) }
    }

    /// The password of the first user who has one, in the order of IDs from this ID on, and then from the lowest ID.
    package func password(near id: UserID) async throws(StoreError) -> StoredPassword? {
        try await database.read { db in
            let query: SQL = "SELECT password FROM users WHERE password IS NOT NULL"
            let row =
                try db.row("\(query) AND id >= \(id) ORDER BY id LIMIT 1")
                ?? db.row("\(query) ORDER BY id LIMIT 1")
            return try row.map { StoredPassword(text: try $0["password"]) }
        }
    }

    static func user(_ db: any SQLSession, _ id: UserID) throws -> User? {
        try users(db, "WHERE id = \(id)").first
    }

    package func user(login: String) async throws(StoreError) -> User? {
        try await database.read { db in try Self.users(db, "WHERE login = \(login)").first }
    }

    /// Returns a page of users, ordered by login.
    package func users(_ page: PageRequest) async throws(StoreError) -> Page<User> {
        try await database.read { db in
            let users = try Self.users(
                db, "WHERE login > \(page.after ?? "") ORDER BY login LIMIT \(page.limit + 1)")
            return Page(users, page) { users[$0].login }
        }
    }
}

extension GatewayStore {
    /// The limits for changes that assign no address.
    var noLimits: DeviceLimits {
        DeviceLimits(servers: [], restSince: .distantPast, devicesPerUser: 0, devices: 0)
    }

    /// Adds a user without addresses.
    package func add(
        _ user: User, _ creation: Creation?, _ audit: AuditRecord
    ) async throws(StoreError) -> Created<User> {
        try await add(user, noLimits, creation, audit)
    }

    /// Changes a user, except for the addresses.
    package func update(
        user: UserID, _ update: UserUpdate, _ audit: AuditRecord
    ) async throws(StoreError) -> User {
        try await self.update(user: user, update, noLimits, audit)
    }
}

extension User {
    init(_ row: SQLRow) throws {
        try self.init(
            id: row["id"], login: row["login"], name: row["name"], notes: row["notes"], isEnabled: row["enabled"],
            expiresAt: row["expires_at"], deviceLimit: row["device_limit"],
            password: (row["password"] as String?).map(StoredPassword.init(text:)), createdAt: row["created_at"])
        hasExpired = try row["expiry_noted"]
    }
}
