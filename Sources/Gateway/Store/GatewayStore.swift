// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning

/// Where a gateway keeps users, devices, secrets' hashes, rules and the log of what was done.
///
/// Each operation is one transaction: all of it lasts, also through a crash right after it has returned, or nothing of it is there.
/// Whatever has to be unique is so by constraint. Each that changes what the runtime follows notes a ``Change`` with the next sequence
/// number, and each that somebody asked for writes its ``AuditRecord``, in the same transaction. Times, ids and hashes are the
/// caller's. A store has neither clock nor randomness. It is independent of its database.
package struct GatewayStore: Sendable {
    let database: any SQLDatabase

    init(_ database: any SQLDatabase) { self.database = database }

    /// Opens or makes a file of SQLite.
    /// - Parameter path: An absolute path in a folder that only its owner can access.
    package init(path: String) throws(StoreError) { self.init(try SQLiteDatabase(path: path)) }

    /// A store in memory.
    package static func inMemory() throws(StoreError) -> GatewayStore { GatewayStore(try SQLiteDatabase(path: nil)) }

    /// Copies the database as it is at one moment, while it is in use.
    package func copy(to path: String) throws(StoreError) { try database.copy(to: path) }
    /// Checks that the database is sound.
    package func check() async throws(StoreError) { try await database.check() }
    /// Closes the database, for which it waits for operations that run. Later operations fail.
    /// - Throws: ``StoreError/unavailable(_:)`` if a statement is still in use. The database is then open.
    package func close() throws(StoreError) { try database.close() }

    // MARK: - Common operations

    /// Notes a change.
    static func note(_ db: any SQLSession, _ subject: Change.Subject, at time: Date) throws {
        let (kind, id) = subject.text
        try db.execute("INSERT INTO changes (at, kind, subject) VALUES (\(time), \(kind), \(id))")
    }

    /// Writes an entry of the log.
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
    ///   - next: Returns what asks for the items after the one with this index.
    init(_ found: [Element], _ request: PageRequest, next: (Int) throws -> String) rethrows {
        let hasMore = found.count > request.limit
        self.init(
            items: hasMore ? Array(found.prefix(request.limit)) : found,
            next: hasMore ? try next(request.limit - 1) : nil)
    }
}
