// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import FoundationEssentials
import Provisioning
import TunnelSystem

/// A backup of a gateway's whole folder in one encrypted file: database, keys and settings.
///
/// Anyone who has the file and its passphrase can act as the gateway. The backup key of the device API is not included.
/// A restored gateway does not know changes that were made after the backup: an invitation that was used since is open
/// again, and a device that was removed since exists again.
package enum GatewayBackup {
    /// The shortest passphrase, in bytes.
    package static let shortestPassphrase = 12

    /// Prepares a backup, even while the gateway runs.
    /// - Parameter audit: The entry that the database in the backup gets, so that a restore can report when the backup
    ///   was made. The gateway's own database does not get it.
    package static func make(
        _ directory: GatewayDirectory, _ store: GatewayStore, passphrase: [UInt8], audit: AuditRecord,
        random: RandomSource = RandomSource()
    ) async throws(GatewayDirectoryError) -> BackupContent {
        try await make(
            directory, store, passphrase: passphrase, audit: audit, cost: BackupFormat.Cost(), random: random)
    }

    static func make(
        _ directory: GatewayDirectory, _ store: GatewayStore, passphrase: [UInt8], audit: AuditRecord,
        cost: BackupFormat.Cost, random: RandomSource
    ) async throws(GatewayDirectoryError) -> BackupContent {
        guard passphrase.count >= shortestPassphrase else {
            throw GatewayDirectoryError("the passphrase must have at least \(shortestPassphrase) bytes")
        }
        var files: [UInt8] = []
        for name in GatewayDirectory.Name.kept {
            if let bytes = try directory.files.read(name) {
                files += BackupPayload.head(name, size: bytes.count) + bytes
            }
        }
        let database = try await copy(store, in: directory, audit)
        guard let size = FileStatus(of: database.number)?.size else {
            throw GatewayDirectoryError("cannot read the copy of the database: \(SystemError.words(errno))")
        }
        files += BackupPayload.head(GatewayDirectory.Name.database, size: size)
        return BackupContent(
            encryptor: try BackupEncryptor(passphrase: passphrase, cost: cost, random: random), files: files,
            database: database, size: size)
    }

    /// Copies the database into a file without a name, and adds an audit entry to the copy.
    private static func copy(
        _ store: GatewayStore, in directory: GatewayDirectory, _ audit: AuditRecord
    ) async throws(GatewayDirectoryError) -> SharedDescriptor {
        let name = "copy-\(String(UInt64.random(in: 0...UInt64.max), radix: 16)).db"
        let path = "\(directory.path)/\(name)"
        defer { for end in ["", "-wal", "-shm"] { try? directory.files.remove(name + end) } }
        do throws(StoreError) {
            try store.copy(to: path)
            let copy = try GatewayStore(path: path)
            try await copy.append(audit, change: nil)
            try copy.close()
        } catch {
            throw GatewayDirectoryError(error)
        }
        let opened = SystemCall.open(path, O_RDONLY | O_NOFOLLOW)
        guard opened >= 0 else {
            throw GatewayDirectoryError("cannot open '\(path)': \(SystemError.words(errno))")
        }
        return SharedDescriptor(OwnedDescriptor(opened))
    }
}

/// A backup that is encrypted while it is sent, so that memory holds no more than a chunk of the database.
package struct BackupContent: Sendable {
    fileprivate let encryptor: BackupEncryptor
    /// The payload up to the content of the database, which is the last file.
    fileprivate let files: [UInt8]
    /// A copy of the database without a name, and its size.
    fileprivate let database: SharedDescriptor
    fileprivate let size: Int

    /// Writes the file of the backup, in parts. It can be written once.
    @concurrent
    package func write(_ send: ReplyStream.Send) async throws {
        var encryptor = encryptor
        try await send(encryptor.header)
        var (pending, missing) = (files, size)
        var isLast = false
        repeat {
            while pending.count < BackupFormat.chunk, missing > 0 {
                let part = try read(min(BackupFormat.chunk - pending.count, missing))
                missing -= part.count
                pending += part
            }
            let part = pending.prefix(BackupFormat.chunk)
            isLast = missing == 0 && part.count == pending.count
            try await send(try encryptor.seal(part, isLast: isLast))
            pending.removeFirst(part.count)
        } while !isLast
    }

    private func read(_ most: Int) throws(GatewayDirectoryError) -> ArraySlice<UInt8> {
        var bytes = [UInt8](repeating: 0, count: most)
        let count = unsafe bytes.withUnsafeMutableBytes { unsafe SystemCall.read(database.number, into: $0) }
        guard count > 0 else {
            let reason = count == 0 ? "the file is truncated" : SystemError.words(errno)
            throw GatewayDirectoryError("cannot read the copy of the database: \(reason)")
        }
        return bytes.prefix(count)
    }
}
