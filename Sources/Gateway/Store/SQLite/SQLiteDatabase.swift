// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import FoundationEssentials
import GRDB
import NetworkAddresses
import Provisioning
import Synchronization
import TunnelSystem

/// An SQLite database: a file in the gateway's folder, or memory.
///
/// It has one writer and several readers (WAL). A write is on disk when its function returns (`synchronous = FULL`).
/// Only the owner can access the file. Before a migration, the file is copied. A file that a later version of the
/// program has migrated is refused.
final class SQLiteDatabase: SQLDatabase {
    let connections: any DatabaseWriter
    let writes = GroupCommit()
    /// The database and its write-ahead log, which are open; `nil` for a database in memory.
    private let files: (database: OpenFile, log: OpenFile)?
    private let isReadOnly: Bool
    /// True from the start of ``close()``, which removes the log, unless it fails.
    private let isClosed = Atomic(false)

    private struct OpenFile {
        let path: String
        private let identity: FileIdentity?

        init(_ path: String) { (self.path, identity) = (path, FileIdentity(of: path)) }

        /// Whether the path still leads to the file that was opened.
        var isPresent: Bool { FileIdentity(of: path) == identity }
    }

    /// Opens the file, or makes it if it does not exist.
    /// - Parameters:
    ///   - path: An absolute path in a folder that only its owner can access, or `nil` for an in-memory database.
    ///   - isReadOnly: Whether nothing is written, because the file system is read-only. The file must exist, with the
    ///     write-ahead log that a killed process leaves, and have the present version.
    init(
        path: String?, isReadOnly: Bool = false, migrator: DatabaseMigrator = Schema.migrator
    ) throws(StoreError) {
        self.isReadOnly = isReadOnly
        if let path { try Self.checkFile(path, makingIt: !isReadOnly) }
        do {
            var configuration = Self.configuration
            configuration.readonly = isReadOnly
            if let path {
                connections = try DatabasePool(path: path, configuration: configuration)
            } else {
                connections = try DatabaseQueue(configuration: configuration)
            }
            try Self.migrate(connections, path, migrator, isReadOnly: isReadOnly)
            guard !isReadOnly else {
                files = nil
                return
            }
            // The pool sets NORMAL, which may lose a commit when the machine fails.
            try connections.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = FULL") }
            // The pool has written, so the log exists.
            files = path.map { (OpenFile($0), OpenFile($0 + "-wal")) }
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

    /// Closes the connections for reading before the connection for writing. The connection that is closed last must
    /// move the write-ahead log into the database and remove it, which connections for reading may not do. By default,
    /// a pool closes them last.
    /// - Throws: ``StoreError/unavailable(_:)`` if a statement is still in use. The database then stays open.
    func close() throws(StoreError) {
        (connections as? DatabasePool)?.invalidateReadOnlyConnections()
        let wasClosed = isClosed.exchange(true, ordering: .sequentiallyConsistent)
        do { try connections.close() } catch {
            isClosed.store(wasClosed, ordering: .sequentiallyConsistent)
            throw Self.problem(error)
        }
    }

    // MARK: - The file

    /// Checks type, owner and mode of the file. SQLite gives the files of the write-ahead log the mode of the
    /// database.
    private static func checkFile(_ path: String, makingIt: Bool) throws(StoreError) {
        if makingIt {
            let made = SystemCall.open(path, O_RDWR | O_CREAT | O_NOFOLLOW)
            guard made >= 0 else { throw .unavailable("cannot open '\(path)': \(SystemError.words(errno))") }
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
                "other users can access '\(path)': its mode is \(String(status.mode, radix: 8)), and must be 600")
        }
    }

    private static func migrate(
        _ database: any DatabaseWriter, _ path: String?, _ migrator: DatabaseMigrator, isReadOnly: Bool
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
        guard !isReadOnly else {
            throw StoreError.unavailable("the database has an earlier version, and cannot be migrated")
        }
        if let path, let version { try keepCopy(of: database, path, version) }
        try migrator.migrate(database)
        // Connections that read before the migration have cached the old columns.
        (database as? DatabasePool)?.invalidateReadOnlyConnections()
    }

    /// Keeps a copy of the file before a migration, because a migration may fail after a part of it was applied. The
    /// name of the copy contains the version of the file. A copy never replaces an earlier one, and is removed if an
    /// identical copy exists.
    private static func keepCopy(of database: any DatabaseReader, _ path: String, _ version: String) throws {
        let new = "\(path).copy"
        try copy(database, to: new)
        do {
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
                throw StoreError.unavailable("cannot make '\(kept)': \(SystemError.words(errno))")
            }
        } catch {
            _ = unsafe unlink(new)
            throw error
        }
    }

    func copy(to path: String) throws(StoreError) {
        do { try Self.copy(connections, to: path) } catch { throw Self.problem(error) }
    }

    /// Makes a copy. A copy that fails is removed.
    private static func copy(_ database: any DatabaseReader, to path: String) throws {
        do { try makeCopy(database, at: path) } catch {
            for file in [path, "\(path)-journal"] { _ = unsafe unlink(file) }
            throw error
        }
    }

    private static func makeCopy(_ database: any DatabaseReader, at path: String) throws {
        guard unsafe unlink(path) == 0 || errno == ENOENT else {
            throw StoreError.unavailable("cannot replace '\(path)': \(SystemError.words(errno))")
        }
        try checkFile(path, makingIt: true)
        let copy = try DatabaseQueue(path: path)
        try database.backup(to: copy)
        // Turn WAL off, so that the copy is a single file without WAL's additional files.
        try copy.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = DELETE") }
        try copy.close()
    }

    /// Runs SQLite's check of integrity and its check of foreign keys.
    func check() async throws(StoreError) {
        let problems = try await read { session in
            try session.rows("PRAGMA integrity_check").map { try $0["integrity_check"] as String }.filter { $0 != "ok" }
                + session.rows("PRAGMA foreign_key_check").map { row in
                    "a row of '\(try row["table"] as String)' refers to a missing row of '\(try row["parent"] as String)'"
                }
        }
        guard let problem = problems.first else { return }
        throw .unavailable("the database is damaged: \(problem)")
    }

    // MARK: - Transactions

    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any SQLSession) throws -> Result
    ) async throws(StoreError) -> Result {
        do { return try await connections.read { try body(SQLiteSession(connection: $0)) } } catch {
            throw Self.problem(error)
        }
    }

    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any SQLSession) throws -> Result
    ) async throws(StoreError) -> Result {
        guard !isReadOnly else { throw .readOnly }
        try await checkPresence()
        let result: Result
        do { result = try await writes.write(to: connections, body) } catch { throw Self.problem(error) }
        // The log may have been removed after the first check. This write is committed, and its caller must not repeat it.
        try? await checkPresence()
        return result
    }

    /// Checks that the paths still lead to the open files. Without its log, the database gets the log's content, as far as it
    /// can still be read.
    /// - Throws: `.unavailable` if the database is closed, or if another process has removed or replaced the database or its
    ///   log. SQLite would succeed, but the next start would not find the change.
    private func checkPresence() async throws(StoreError) {
        guard let files else { return }
        guard !isClosed.load(ordering: .sequentiallyConsistent) else { throw .unavailable("the database is closed") }
        guard files.database.isPresent else {
            throw .unavailable("'\(files.database.path)' was removed or replaced while it was in use")
        }
        guard !files.log.isPresent else { return }
        let what = "'\(files.log.path)' was removed or replaced while it was in use"
        do {
            _ = try await connections.writeWithoutTransaction { db in
                // This throws if the connection was closed after the check above. SQLite's checkpoint would crash.
                try db.execute(sql: "SELECT 1")
                return try db.checkpoint(.truncate)
            }
        } catch {
            throw .unavailable(
                "\(what); a restart loses the changes that are not in '\(files.database.path)', which cannot be moved there: "
                    + "\(Self.problem(error))")
        }
        let moved = "\(what); all changes are in '\(files.database.path)' now"
        // SQLite applies a log that it finds at its start, even that of another database. At a normal end it removes the log.
        guard FileIdentity(of: files.log.path) == nil else {
            throw .unavailable(
                "\(moved); stop the gateway normally, or remove '\(files.log.path)' before the next start, which would apply it"
            )
        }
        throw .unavailable("\(moved), so that nothing is lost; restart the gateway")
    }

    static func problem(_ error: any Error) -> StoreError {
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
        default:
            // A failed copy has the message of a connection without an error.
            let message = error.message.flatMap { $0 == "not an error" ? nil : $0 }
            return .unavailable("the database has failed: \(message ?? "error \(error.extendedResultCode)")")
        }
    }
}
