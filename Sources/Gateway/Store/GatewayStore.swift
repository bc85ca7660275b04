// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning

/// Stores a gateway's users, devices, hashes of secrets, rules and audit log.
///
/// Each operation is atomic. When it returns, all of it is durable, even through a crash; if it throws, nothing is
/// changed. Operations that wait at the same time may share a commit. Constraints of the database enforce uniqueness. An
/// operation that the runtime must follow also records a ``Change`` with the next sequence number, and an operation that
/// was requested adds its ``AuditRecord``. The caller supplies times, IDs and hashes, because a store has neither a clock
/// nor randomness. It does not depend on the kind of database.
package struct GatewayStore: Sendable {
    let database: any SQLDatabase
    /// Whether the store refuses all writes, because its file system is read-only.
    let isReadOnly: Bool

    init(_ database: any SQLDatabase, isReadOnly: Bool = false) {
        (self.database, self.isReadOnly) = (database, isReadOnly)
    }

    /// Opens or makes an SQLite file.
    /// - Parameters:
    ///   - path: An absolute path in a folder that only its owner can access.
    ///   - isReadOnly: Whether the file system is read-only. The file must exist, with the log that a killed process leaves.
    package init(path: String, isReadOnly: Bool = false) throws(StoreError) {
        self.init(try SQLiteDatabase(path: path, isReadOnly: isReadOnly), isReadOnly: isReadOnly)
    }

    /// A store in memory.
    package static func inMemory() throws(StoreError) -> GatewayStore { GatewayStore(try SQLiteDatabase(path: nil)) }

    /// Copies the state of the database at one moment, even while the database is in use.
    package func copy(to path: String) throws(StoreError) { try database.copy(to: path) }
    /// Checks the integrity of the database.
    package func check() async throws(StoreError) { try await database.check() }
    /// Closes the database after running operations have ended. Later operations fail.
    /// - Throws: ``StoreError/unavailable(_:)`` if a statement is still in use. The database then stays open.
    package func close() throws(StoreError) { try database.close() }

    // MARK: - Common operations

    /// Records a change for the runtime.
    static func recordChange(_ db: any SQLSession, _ subject: Change.Subject, at time: Date) throws {
        let (kind, id) = subject.text
        try db.execute("INSERT INTO changes (at, kind, subject) VALUES (\(time), \(kind), \(id))")
    }

    /// Adds an entry to the audit log, or counts it in an equal recent entry.
    static func log(_ db: any SQLSession, _ audit: AuditRecord) throws {
        if try countRepetition(db, audit) { return }
        let details = try detailsText(audit.details)
        try db.execute(
            """
            INSERT INTO audit (at, actor, source, action, subject, details) VALUES (
                \(audit.at), \(audit.actor), \(audit.source?.description), \(audit.action), \(audit.subject),
                \(details))
            """)
    }

    /// Makes an item, or finds the item of an earlier request with the same creation key.
    /// - Parameters:
    ///   - id: The ID of the new item.
    ///   - find: Returns the earlier item, or `nil` if it was removed.
    /// - Throws: `.creationConflict`.
    static func made<Item>(
        _ db: any SQLSession, _ creation: Creation?, _ id: RandomID, at time: Date,
        find: (RandomID) throws -> Item?, make: () throws -> Item
    ) throws -> Created<Item> {
        guard let creation else { return Created(item: try make(), isRepetition: false) }
        guard let row = try db.row("SELECT request_hash, subject FROM creations WHERE key_hash = \(creation.key)")
        else {
            try db.execute(
                """
                INSERT INTO creations (key_hash, request_hash, subject, at)
                VALUES (\(creation.key), \(creation.request), \(id), \(time))
                """)
            return Created(item: try make(), isRepetition: false)
        }
        let (request, subject): (SecretHash, RandomID) = try (row["request_hash"], row["subject"])
        guard request == creation.request, let item = try find(subject) else {
            throw StoreError.creationConflict(subject: subject.description)
        }
        return Created(item: item, isRepetition: true)
    }

    /// A page of the rows of a table, ordered by the time of their creation.
    static func page<Item: Sendable>(
        _ db: any SQLSession, _ table: String, where condition: SQL = "TRUE", _ page: PageRequest,
        _ item: (SQLRow) throws -> Item
    ) throws -> Page<Item> {
        var condition = condition
        if let after = page.after {
            let parts = after.split(separator: ".", maxSplits: 1)
            guard parts.count == 2, let time = Int64(parts[0]), let id = RandomID(parts[1]) else {
                return Page(items: [], next: nil)
            }
            condition = "\(condition) AND (created_at, id) > (\(time), \(id))"
        }
        let rows = try db.rows(
            "SELECT * FROM \(sql: table) WHERE \(condition) ORDER BY created_at, id LIMIT \(page.limit + 1)")
        return try Page(rows.map(item), page) { last in
            let (time, id): (Int64, RandomID) = try (rows[last]["created_at"], rows[last]["id"])
            return "\(time).\(id)"
        }
    }
}

extension Page {
    /// - Parameters:
    ///   - found: The items of the page, and one more if it is not the last page.
    ///   - next: Returns the text that requests the items after the item at this index.
    init(_ found: [Element], _ request: PageRequest, next: (Int) throws -> String) rethrows {
        let hasMore = found.count > request.limit
        self.init(
            items: hasMore ? Array(found.prefix(request.limit)) : found,
            next: hasMore ? try next(request.limit - 1) : nil)
    }
}
