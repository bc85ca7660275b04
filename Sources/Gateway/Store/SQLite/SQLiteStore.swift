// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import FoundationEssentials
import GRDB
import NetworkAddresses
import Provisioning
import TunnelSystem

/// The store of one gateway: a file of SQLite in the gateway's folder, or memory.
///
/// One writer and several readers (WAL). What a function has returned from is on disk (`synchronous = FULL`). The file is its owner's
/// alone, is copied before a migration, and is refused where a later version of the program has migrated it.
package final class SQLiteStore: GatewayStore {
    let database: any DatabaseWriter
    /// Where it is; nil for one in memory.
    package let path: String?

    /// A store that is gone with this object.
    package static func inMemory() throws(StoreError) -> SQLiteStore {
        try SQLiteStore(path: nil, migrator: Schema.migrator)
    }

    /// Opens or makes the file.
    /// - Parameter path: an absolute path in a folder that is its owner's alone.
    package convenience init(path: String) throws(StoreError) {
        try self.init(path: path, migrator: Schema.migrator)
    }

    init(path: String?, migrator: DatabaseMigrator) throws(StoreError) {
        self.path = path
        if let path { try Self.checkFile(path, makingIt: true) }
        do {
            if let path {
                database = try DatabasePool(path: path, configuration: Self.configuration)
            } else {
                database = try DatabaseQueue(configuration: Self.configuration)
            }
            try Self.migrate(database, path, migrator)
            // The pool sets it to NORMAL, with which a commit may be lost when the machine fails.
            try database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = FULL") }
        } catch {
            throw Self.problem(error)
        }
    }

    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.label = "culvert-gateway"
        configuration.maximumReaderCount = 3
        configuration.busyMode = .timeout(5)
        configuration.prepareDatabase { database in
            try database.execute(sql: "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON")
        }
        return configuration
    }

    /// Closes the database, for which it waits for operations that run. Later operations fail.
    ///
    /// The connection that SQLite closes last moves the write-ahead log into the database and removes it. Connections for reading may
    /// not do so, and a pool closes them after the connection for writing: they are closed before.
    /// - Throws: ``StoreError/unavailable(_:)`` if a statement is still in use. The database is then open.
    package func close() throws(StoreError) {
        (database as? DatabasePool)?.invalidateReadOnlyConnections()
        do { try database.close() } catch { throw Self.problem(error) }
    }

    // MARK: - The file

    /// SQLite gives the files beside the database the database's mode.
    private static func checkFile(_ path: String, makingIt: Bool) throws(StoreError) {
        if makingIt {
            let made = SystemCall.open(path, O_RDWR | O_CREAT | O_NOFOLLOW)
            guard made >= 0 else { throw .unavailable("'\(path)' cannot be opened: \(SystemError.words(errno))") }
            SystemCall.close(made)
        }
        guard let status = FileStatus(of: path, followsLinks: false), status.kind == .file else {
            throw .unavailable("'\(path)' is not a file")
        }
        guard status.owner == geteuid() || status.owner == 0 else {
            throw .unavailable("'\(path)' belongs to user \(status.owner)")
        }
        guard status.mode & 0o077 == 0 else {
            throw .unavailable(
                "'\(path)' is open to others: its mode is \(String(status.mode, radix: 8)), and should be 600")
        }
    }

    private static func migrate(
        _ database: any DatabaseWriter, _ path: String?, _ migrator: DatabaseMigrator
    ) throws {
        let (isNewer, applied, version, isComplete) = try database.read { db in
            (
                try migrator.hasBeenSuperseded(db), try migrator.appliedIdentifiers(db),
                try migrator.appliedMigrations(db).last, try migrator.hasCompletedMigrations(db)
            )
        }
        guard !isNewer else {
            throw StoreError.newerVersion(
                "\(path ?? "the database") was written by a later version of this program (its version is "
                    + "\(applied.sorted().last ?? "unknown")); update the program, or restore a backup")
        }
        guard !isComplete else { return }
        if let path, let version { try keepCopy(of: database, path, version) }
        try migrator.migrate(database)
    }

    /// Keeps a copy of the file before a migration. A migration may fail when a part of it is applied: the copy has the name of the
    /// version that the file has, and replaces no earlier copy. If there is an identical one, no other is kept.
    private static func keepCopy(of database: any DatabaseReader, _ path: String, _ version: String) throws {
        let new = "\(path).copy"
        do {
            try copy(database, to: new)
            var (kept, number) = ("\(path).version-\(version)", 1)
            while FileStatus(of: kept, followsLinks: false) != nil {
                if FileManager.default.contentsEqual(atPath: new, andPath: kept) {
                    _ = unsafe unlink(new)
                    return
                }
                number += 1
                kept = "\(path).version-\(version).\(number)"
            }
            guard unsafe rename(new, kept) == 0 else {
                throw StoreError.unavailable("'\(kept)' cannot be made: \(SystemError.words(errno))")
            }
        } catch {
            _ = unsafe unlink(new)
            throw error
        }
    }

    /// Copies the database as it is at one moment, while it is in use.
    package func copy(to path: String) throws(StoreError) {
        do { try Self.copy(database, to: path) } catch { throw Self.problem(error) }
    }

    private static func copy(_ database: any DatabaseReader, to path: String) throws {
        guard unsafe unlink(path) == 0 || errno == ENOENT else {
            throw StoreError.unavailable("'\(path)' cannot be replaced: \(SystemError.words(errno))")
        }
        try checkFile(path, makingIt: true)
        let copy = try DatabaseQueue(path: path)
        try database.backup(to: copy)
        // One file, without the others of WAL.
        try copy.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = DELETE") }
        try copy.close()
    }

    /// Whether the file is sound: SQLite's own check, and that of references.
    package func check() async throws(StoreError) {
        let problems = try await read { db in
            try String.fetchAll(db, sql: "PRAGMA integrity_check").filter { $0 != "ok" }
                + Row.fetchAll(db, sql: "PRAGMA foreign_key_check").map { "a reference is broken: \($0.description)" }
        }
        guard let problem = problems.first else { return }
        throw .unavailable("the database is damaged: \(problem)")
    }

    // MARK: - Transactions

    func read<Result: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws(StoreError) -> Result {
        do { return try await database.read(body) } catch { throw Self.problem(error) }
    }

    func write<Result: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws(StoreError) -> Result {
        do { return try await database.write(body) } catch { throw Self.problem(error) }
    }

    private static func problem(_ error: any Error) -> StoreError {
        if let error = error as? StoreError { return error }
        guard let error = error as? DatabaseError else { return .unavailable("\(error)") }
        switch error.extendedResultCode {
        case .SQLITE_CONSTRAINT_UNIQUE, .SQLITE_CONSTRAINT_PRIMARYKEY:
            let message = error.message ?? ""
            if message.contains("users.login") { return .exists(.login) }
            if message.contains("devices.public_key") { return .exists(.key) }
            if message.contains("devices.credential_hash") { return .exists(.credential) }
            return .exists(.secret)
        case .SQLITE_CONSTRAINT_FOREIGNKEY: return .notFound
        default: return .unavailable("the database: \(error.message ?? "error \(error.extendedResultCode)")")
        }
    }

    // MARK: - What all have in common

    /// Notes a change.
    static func note(_ db: Database, _ subject: Change.Subject, at time: Date) throws {
        let (kind, id) = subject.text
        try db.execute(
            literal: "INSERT INTO changes (at, kind, subject) VALUES (\(time.milliseconds), \(kind), \(id))")
    }

    /// Writes an entry of the log.
    static func log(_ db: Database, _ audit: AuditRecord) throws {
        if try countRepetition(db, audit) { return }
        let details = try detailsText(audit.details)
        try db.execute(
            literal: """
                INSERT INTO audit (at, actor, source, action, subject, details) VALUES (
                    \(audit.at.milliseconds), \(audit.actor), \(audit.source?.description), \(audit.action.rawValue),
                    \(audit.subject), \(details))
                """)
    }

    /// The id of what was made by this creation before; nil where it is new, and noted now.
    static func repeated(_ db: Database, _ creation: Creation?, _ id: RandomID, at time: Date) throws -> RandomID? {
        guard let creation else { return nil }
        if let row = try Row.fetchOne(
            db, literal: "SELECT request_hash, subject FROM creations WHERE key_hash = \(creation.key.data)")
        {
            let fields = Fields(row)
            let subject = try fields.id("subject")
            guard try fields.hash("request_hash") == creation.request else {
                throw StoreError.creationConflict(subject: subject.description)
            }
            return subject
        }
        try db.execute(
            literal: """
                INSERT INTO creations (key_hash, request_hash, subject, at) VALUES (
                    \(creation.key.data), \(creation.request.data), \(id.description), \(time.milliseconds))
                """)
        return nil
    }

    /// A part of what is in the order in which it was made.
    static func page<Item: Sendable>(
        _ db: Database, _ table: String, where condition: SQL = "TRUE", _ page: PageRequest,
        _ item: (Row) throws -> (Item, Date, RandomID)
    ) throws -> Page<Item> {
        var condition = condition
        if let after = page.after {
            let parts = after.split(separator: ".", maxSplits: 1)
            guard parts.count == 2, let time = Int64(parts[0]), let id = RandomID(parts[1]) else {
                return Page(items: [], next: nil)
            }
            condition = "\(condition) AND (created_at, id) > (\(time), \(id.description))"
        }
        let query: SQL =
            "SELECT * FROM \(sql: table) WHERE \(condition) ORDER BY created_at, id LIMIT \(page.limit + 1)"
        let rows = try SQLRequest<Row>(literal: query).fetchAll(db).map(item)
        let items = rows.prefix(page.limit)
        let next = rows.count > page.limit ? items.last.map { "\($0.1.milliseconds).\($0.2)" } : nil
        return Page(items: items.map(\.0), next: next)
    }
}

extension Row {
    static func fetchOne(_ db: Database, literal: SQL) throws -> Row? {
        try SQLRequest<Row>(literal: literal).fetchOne(db)
    }

    static func fetchAll(_ db: Database, literal: SQL) throws -> [Row] {
        try SQLRequest<Row>(literal: literal).fetchAll(db)
    }
}
