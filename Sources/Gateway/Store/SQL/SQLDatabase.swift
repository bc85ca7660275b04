// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The database of a ``GatewayStore``. It has the tables of `Schema`, and implements no rule of the gateway.
///
/// A violated uniqueness constraint throws `.exists(.login)`, `.exists(.key)`, `.exists(.credential)` or
/// `.exists(.secret)`. A reference to a missing row throws `.notFound`. Other errors are `.unavailable`.
protocol SQLDatabase: Sendable {
    /// Runs `body` on a snapshot of all tables.
    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any SQLSession) throws -> Result
    ) async throws(StoreError) -> Result
    /// Runs `body` atomically. Its changes are durable when this returns; if it throws, it has no effect. Only one writer
    /// runs at a time, so that no other writer changes the rows that `body` has read. `body` may run twice, so it must
    /// have no other effects.
    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any SQLSession) throws -> Result
    ) async throws(StoreError) -> Result
    /// Copies the state of the whole database at one moment into a new file, even while the database is in use.
    func copy(to path: String) throws(StoreError)
    /// Checks the integrity of the database.
    func check() async throws(StoreError)
    /// Closes the database after running operations have ended. Later operations fail.
    func close() throws(StoreError)
}

/// The statements of a transaction.
protocol SQLSession {
    func rows(_ sql: SQL) throws -> [SQLRow]
    /// - Returns: The number of rows that were inserted, changed or removed.
    @discardableResult func execute(_ sql: SQL) throws -> Int
}

extension SQLSession {
    /// The first row. All rows are read, so a statement that can find several rows must have `LIMIT 1`.
    func row(_ sql: SQL) throws -> SQLRow? { try rows(sql).first }

    /// The row of a statement that always returns exactly one.
    func figures(_ sql: SQL) throws -> SQLRow {
        guard let row = try row(sql) else { throw StoreError.unavailable("the database has returned no row") }
        return row
    }
}
