// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import GRDB
import Provisioning

extension SQLiteStore {
    package func add(
        _ user: User, _ limits: DeviceLimits, _ creation: Creation?, _ audit: AuditRecord
    ) async throws(StoreError) -> Created<User> {
        try await write { db in
            if let id = try Self.repeated(db, creation, user.id, at: audit.at) {
                guard let before = try Self.user(db, id) else {
                    throw StoreError.creationConflict(subject: id.description)
                }
                return Created(item: before, isRepetition: true)
            }
            try Self.insert(db, user, limits, audit)
            return Created(item: user, isRepetition: false)
        }
    }

    static func insert(_ db: Database, _ user: User, _ limits: DeviceLimits, _ audit: AuditRecord) throws {
        try db.execute(
            literal: """
                INSERT INTO users (
                    id, login, name, notes, enabled, expires_at, device_limit, password, created_at
                ) VALUES (
                    \(user.id.description), \(user.login), \(user.name), \(user.notes), \(user.isEnabled),
                    \(user.expiresAt?.milliseconds), \(user.deviceLimit), \(user.password?.text),
                    \(user.createdAt.milliseconds))
                """)
        try setAddresses(db, of: user.id, user.addresses, limits, at: audit.at)
        try note(db, .user(user.id), at: audit.at)
        try log(db, audit)
    }

    package func update(
        user id: UserID, _ update: UserUpdate, _ limits: DeviceLimits, _ audit: AuditRecord
    ) async throws(StoreError) -> User {
        try await write { db in
            guard var user = try Self.user(db, id) else { throw StoreError.notFound }
            update.apply(to: &user)
            // An end that is another one is noted again when it comes.
            try db.execute(
                literal: """
                    UPDATE users SET login = \(user.login), name = \(user.name), notes = \(user.notes),
                        enabled = \(user.isEnabled),
                        expiry_noted = expiry_noted AND expires_at IS \(user.expiresAt?.milliseconds),
                        expires_at = \(user.expiresAt?.milliseconds), device_limit = \(user.deviceLimit),
                        password = \(user.password?.text)
                    WHERE id = \(id.description)
                    """)
            if let addresses = update.addresses {
                try Self.setAddresses(db, of: id, addresses, limits, at: audit.at)
            }
            try Self.note(db, .user(id), at: audit.at)
            try Self.log(db, audit)
            return user
        }
    }

    package func remove(user id: UserID, _ audit: AuditRecord) async throws(StoreError) {
        try await write { db in
            guard try Self.user(db, id) != nil else { throw StoreError.notFound }
            let devices = try Row.fetchAll(db, literal: "SELECT id FROM devices WHERE user_id = \(id.description)")
            for row in devices { try Self.removeDevice(db, try Fields(row).id("id"), at: audit.at) }
            try db.execute(literal: "DELETE FROM users WHERE id = \(id.description)")
            try Self.note(db, .user(id), at: audit.at)
            try Self.log(db, audit)
        }
    }

    package func user(_ id: UserID) async throws(StoreError) -> User? {
        try await read { db in try Self.user(db, id) }
    }

    package func password(near id: UserID) async throws(StoreError) -> StoredPassword? {
        try await read { db in
            let query: SQL = "SELECT password FROM users WHERE password IS NOT NULL"
            let row =
                try Row.fetchOne(db, literal: "\(query) AND id >= \(id.description) ORDER BY id LIMIT 1")
                ?? Row.fetchOne(db, literal: "\(query) ORDER BY id LIMIT 1")
            return try row.map { StoredPassword(text: try Fields($0).text("password")) }
        }
    }

    static func user(_ db: Database, _ id: UserID) throws -> User? {
        try users(db, "WHERE id = \(id.description)").first
    }

    package func user(login: String) async throws(StoreError) -> User? {
        try await read { db in try Self.users(db, "WHERE login = \(login)").first }
    }

    package func users(_ page: PageRequest) async throws(StoreError) -> Page<User> {
        try await read { db in
            let found = try Self.users(
                db, "WHERE login > \(page.after ?? "") ORDER BY login LIMIT \(page.limit + 1)")
            let users = Array(found.prefix(page.limit))
            return Page(items: users, next: found.count > page.limit ? users.last?.login : nil)
        }
    }
}
