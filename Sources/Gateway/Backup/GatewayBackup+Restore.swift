// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
package import FoundationEssentials
import Provisioning
import TunnelSystem

/// A gateway that was restored from a backup, with the facts for the administrator's next steps.
package struct RestoredGateway: Sendable {
    package let directory: GatewayDirectory
    /// The latest entry of the audit log in the backup; `nil` if the log is empty. A backup ends with the entry
    /// `backupMade`, with the time when it was made, unless an earlier version has made it.
    package var lastEntry: AuditEntry?
    /// The users, devices, tokens and open invitations that the gateway has now.
    package var counts: StoreCounts
    /// The changes after the backup, if the folder of the earlier gateway was given.
    package var later: LaterChanges?
}

extension GatewayBackup {
    /// Files in a backup other than the database have at most this number of bytes.
    private static let fileLimit = 1 << 20
    private static let readSize = 1 << 18

    /// Restores a gateway's folder from a backup. If this throws, nothing is left of it.
    /// - Parameters:
    ///   - file: A descriptor for reading, of a file or a pipe.
    ///   - path: The path of an empty folder, or of one that does not exist yet.
    ///   - old: The folder of the earlier gateway. Access that ended after the backup, by its audit log, is ended again.
    package static func restore(
        reading file: Int32, to path: String, passphrase: [UInt8], revokingSince old: String? = nil, now: Date = Date()
    ) async throws(GatewayDirectoryError) -> RestoredGateway {
        var reader = BackupReader(passphrase: passphrase)
        // The folder is not made for a file that is not a backup or for a wrong passphrase.
        var first: [UInt8] = []
        var isAtEnd = false
        while first.isEmpty, !isAtEnd { (first, isAtEnd) = try next(file, &reader) }
        let isNew = FileStatus(of: path, followsLinks: false) == nil
        let directory = try GatewayDirectory(made: path)
        guard try directory.files.names().isEmpty else {
            throw GatewayDirectoryError("\(path) is not empty", kind: .exists, fix: "select another folder")
        }
        do throws(GatewayDirectoryError) {
            var files = try RestoredFiles(directory)
            try files.write(first)
            while !isAtEnd {
                let (bytes, isEnd) = try next(file, &reader)
                try files.write(bytes)
                isAtEnd = isEnd
            }
            return try await finish(try files.finish(), in: directory, old, now: now)
        } catch {
            for name in (try? directory.files.names()) ?? [] { try? directory.files.remove(name) }
            if isNew { unsafe _ = rmdir(path) }
            throw error
        }
    }

    /// Decrypts the next bytes of the file.
    private static func next(
        _ file: Int32, _ reader: inout BackupReader
    ) throws(GatewayDirectoryError) -> (bytes: [UInt8], isEnd: Bool) {
        var bytes = [UInt8](repeating: 0, count: readSize)
        let count = unsafe bytes.withUnsafeMutableBytes { unsafe SystemCall.read(file, into: $0) }
        guard count >= 0 else { throw GatewayDirectoryError("cannot read the backup: \(SystemError.words(errno))") }
        guard count > 0 else { return (try reader.finish(), true) }
        return (try reader.read(Array(bytes.prefix(count))), false)
    }

    /// The files of a backup on their way to the folder. The database is written as it arrives, the other files when
    /// all of them are known.
    private struct RestoredFiles: ~Copyable {
        private let database: OwnedDescriptor
        private var payload = BackupPayload.Reader()
        private var current = ""
        private var others: [String: [UInt8]] = [:]

        init(_ directory: borrowing GatewayDirectory) throws(GatewayDirectoryError) {
            let path = directory.database
            database = OwnedDescriptor(SystemCall.open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW))
            guard database.number >= 0 else {
                throw GatewayDirectoryError("cannot write '\(path)': \(SystemError.words(errno))")
            }
        }

        mutating func write(_ bytes: [UInt8]) throws(GatewayDirectoryError) {
            var pieces: [BackupPayload.Piece] = []
            try payload.read(bytes) { pieces.append($0) }
            for piece in pieces {
                switch piece {
                case .file(let name, let size):
                    current = name
                    guard name != GatewayDirectory.Name.database else { continue }
                    guard size <= GatewayBackup.fileLimit else { throw BackupFormat.damaged("\(name) is too large") }
                    others[name] = []
                case .bytes(let bytes):
                    guard current == GatewayDirectory.Name.database else {
                        others[current, default: []] += bytes
                        continue
                    }
                    guard SystemCall.writeAll(database.number, Array(bytes)) else {
                        throw GatewayDirectoryError("cannot write the database: \(SystemError.words(errno))")
                    }
                }
            }
        }

        /// Returns the files other than the database, after the whole database was written.
        consuming func finish() throws(GatewayDirectoryError) -> [String: [UInt8]] {
            try payload.finish()
            let needed = [
                GatewaySettings.fileName, GatewayDirectory.Name.serverKey, GatewayDirectory.Name.presharedMaster,
                GatewayDirectory.Name.apiKey, GatewayDirectory.Name.apiCertificate, GatewayDirectory.Name.pins,
                GatewayDirectory.Name.database,
            ]
            if let name = needed.first(where: { !payload.names.contains($0) }) {
                throw BackupFormat.damaged("\(name) is missing")
            }
            let known = GatewayDirectory.Name.kept + [GatewayDirectory.Name.database]
            if let name = payload.names.subtracting(known).min() {
                throw GatewayDirectoryError(
                    "the backup contains a file '\(name)' that this version does not know", kind: .newer,
                    fix: "update the program")
            }
            guard fsync(database.number) == 0 else {
                throw GatewayDirectoryError("cannot write the database: \(SystemError.words(errno))")
            }
            return others
        }
    }

    private static func finish(
        _ files: [String: [UInt8]], in directory: GatewayDirectory, _ old: String?, now: Date
    ) async throws(GatewayDirectoryError) -> RestoredGateway {
        // The key is written last: a folder without it does not contain a gateway.
        let key = GatewayDirectory.Name.serverKey
        for (name, bytes) in files where name != key { try directory.files.write(bytes, to: name) }
        let store = try directory.openStore()
        let restored: RestoredGateway
        do {
            try await store.check()
            let lastEntry = try await store.audit(AuditFilter(), PageRequest(limit: 1)).items.first
            try await store.append(
                AuditRecord(at: now, actor: "local", source: nil, action: .restored, subject: "gateway"),
                change: .serverKeys)
            var later: LaterChanges?
            if let old { later = try await revoke(in: store, of: directory, from: old, after: lastEntry, now: now) }
            restored = RestoredGateway(
                directory: directory, lastEntry: lastEntry, counts: try await store.counts(at: now), later: later)
            try store.close()
        } catch let error as GatewayDirectoryError {
            throw error
        } catch let error as StoreError {
            throw GatewayDirectoryError(error)
        } catch {
            throw GatewayDirectoryError("\(error)")
        }
        for (name, bytes) in files where name == key { try directory.files.write(bytes, to: name) }
        _ = try directory.settings()
        return restored
    }

    // MARK: - The earlier gateway

    /// The folder in which the earlier database is read, inside the new one.
    private static let earlierFolder = "earlier"

    /// Ends the access that ended after the backup, by a copy of the earlier database, which stays unchanged.
    private static func revoke(
        in store: GatewayStore, of directory: GatewayDirectory, from old: String, after last: AuditEntry?, now: Date
    ) async throws(GatewayDirectoryError) -> LaterChanges {
        defer { try? directory.files.removeDirectory(earlierFolder) }
        _ = try directory.files.directory(earlierFolder, makingIt: true)
        let copy = "\(directory.path)/\(earlierFolder)/\(GatewayDirectory.Name.database)"
        try copyDatabase(of: old, to: copy)
        let changes: LaterChanges?
        do throws(StoreError) {
            let earlier = try GatewayStore(path: copy)
            try await earlier.check()
            changes = try await store.revoke(from: earlier, after: last, at: now)
            try earlier.close()
        } catch {
            var problem = GatewayDirectoryError(error)
            problem.reason = "cannot revoke by the audit log of \(old): \(problem.reason)"
            throw problem
        }
        guard let changes else {
            throw GatewayDirectoryError(
                "the audit log of \(old) is not that of the gateway in the backup", kind: .unusable,
                fix: "select the folder that this gateway used when its backup was made")
        }
        return changes
    }

    /// Copies a database and its write-ahead log, if no gateway uses them.
    private static func copyDatabase(of folder: String, to copy: String) throws(GatewayDirectoryError) {
        let opened = OwnedDescriptor(SystemCall.open(folder, O_RDONLY | O_DIRECTORY))
        guard opened.number >= 0 else {
            throw GatewayDirectoryError("cannot open '\(folder)': \(SystemError.words(errno))", kind: .missing)
        }
        let error = FileLock.acquire(opened.number, within: .zero)
        guard error == 0 else {
            throw GatewayDirectoryError(
                error == EWOULDBLOCK
                    ? "a gateway uses the folder \(folder)" : "cannot lock '\(folder)': \(SystemError.words(error))",
                kind: .inUse, fix: "stop it first")
        }
        for end in ["", "-wal"] {
            let name = GatewayDirectory.Name.database + end
            let source = OwnedDescriptor(
                unsafe openat(opened.number, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK))
            guard source.number >= 0 else {
                let error = errno
                if error == ENOENT, end != "" { continue }
                throw GatewayDirectoryError(
                    "cannot open '\(folder)/\(name)': \(SystemError.words(error))",
                    kind: error == ENOENT ? .missing : .other)
            }
            let target = OwnedDescriptor(SystemCall.open(copy + end, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW))
            guard target.number >= 0, copyBytes(source.number, target.number) else {
                throw GatewayDirectoryError("cannot copy '\(folder)/\(name)': \(SystemError.words(errno))")
            }
        }
    }

    private static func copyBytes(_ source: Int32, _ target: Int32) -> Bool {
        var bytes = [UInt8](repeating: 0, count: readSize)
        while true {
            let count = unsafe bytes.withUnsafeMutableBytes { unsafe SystemCall.read(source, into: $0) }
            guard count > 0 else { return count == 0 }
            guard SystemCall.writeAll(target, Array(bytes[..<count])) else { return false }
        }
    }
}
