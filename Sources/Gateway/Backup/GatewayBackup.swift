// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
import Provisioning
import TunnelSystem

/// A gateway's whole folder in one encrypted file: database, keys and settings.
///
/// Whoever has it and the passphrase is the gateway. The backup key of the device API is not in it. What was done since is not in it
/// either: invitations that were used since are open again, and devices that were removed are back.
package enum GatewayBackup {
    /// The shortest passphrase, in bytes.
    package static let shortestPassphrase = 12

    /// Makes a backup, while the gateway runs.
    package static func make(
        _ directory: GatewayDirectory, _ store: GatewayStore, passphrase: [UInt8], random: RandomSource = RandomSource()
    ) throws(GatewayDirectoryError) -> [UInt8] {
        try make(directory, store, passphrase: passphrase, cost: BackupFormat.Cost(), random: random)
    }

    static func make(
        _ directory: GatewayDirectory, _ store: GatewayStore, passphrase: [UInt8], cost: BackupFormat.Cost,
        random: RandomSource
    ) throws(GatewayDirectoryError) -> [UInt8] {
        guard passphrase.count >= shortestPassphrase else {
            throw GatewayDirectoryError("a passphrase has \(shortestPassphrase) bytes at least")
        }
        var files: [(name: String, bytes: [UInt8])] = []
        for name in GatewayDirectory.Name.kept {
            if let bytes = try directory.files.read(name) { files.append((name, bytes)) }
        }
        let copy = "copy-\(String(UInt64.random(in: 0...UInt64.max), radix: 16)).db"
        do throws(StoreError) { try store.copy(to: "\(directory.path)/\(copy)") } catch {
            throw GatewayDirectoryError(error)
        }
        defer { try? directory.files.remove(copy) }
        guard let database = try directory.files.read(copy) else { throw directory.missing(copy) }
        files.append((GatewayDirectory.Name.database, database))
        return try BackupFormat.encrypt(
            BackupPayload.encode(files), passphrase: passphrase, cost: cost, random: random)
    }

    /// Makes a gateway's folder out of a backup. Everything is checked before anything is written.
    /// - Parameter path: a folder that is empty, or not there yet.
    package static func restore(
        _ file: [UInt8], to path: String, passphrase: [UInt8], now: Date = Date()
    ) async throws(GatewayDirectoryError) -> GatewayDirectory {
        let files = try BackupPayload.decode(try BackupFormat.decrypt(file, passphrase: passphrase))
        let names = Set(files.map(\.name))
        let needed = [
            GatewaySettings.fileName, GatewayDirectory.Name.serverKey, GatewayDirectory.Name.presharedMaster,
            GatewayDirectory.Name.apiKey, GatewayDirectory.Name.apiCertificate, GatewayDirectory.Name.pins,
            GatewayDirectory.Name.database,
        ]
        if let name = needed.first(where: { !names.contains($0) }) { throw BackupFormat.damaged("\(name) is missing") }
        let known = Set(GatewayDirectory.Name.kept + [GatewayDirectory.Name.database])
        if let name = names.subtracting(known).min() {
            throw GatewayDirectoryError(
                "the backup has a file '\(name)', which this version does not know", kind: .newer,
                fix: "update the program")
        }
        let directory = try GatewayDirectory(made: path)
        guard try directory.files.names().isEmpty else {
            throw GatewayDirectoryError("\(path) is not empty", kind: .exists, fix: "name another folder")
        }
        do throws(GatewayDirectoryError) {
            try await fill(directory, files, now: now)
        } catch {
            for name in (try? directory.files.names()) ?? [] { try? directory.files.remove(name) }
            throw error
        }
        return directory
    }

    private static func fill(
        _ directory: GatewayDirectory, _ files: [(name: String, bytes: [UInt8])], now: Date
    ) async throws(GatewayDirectoryError) {
        // The key comes last: a folder without it is no gateway's yet.
        for (name, bytes) in files where name != GatewayDirectory.Name.serverKey {
            try directory.files.write(bytes, to: name)
        }
        let store = try directory.openStore()
        do throws(StoreError) {
            try await store.check()
            try await store.append(
                AuditRecord(at: now, actor: "local", source: nil, action: .restored, subject: "gateway"),
                change: .serverKeys)
            try store.close()
        } catch {
            throw GatewayDirectoryError(error)
        }
        for (name, bytes) in files where name == GatewayDirectory.Name.serverKey {
            try directory.files.write(bytes, to: name)
        }
        _ = try directory.settings()
    }
}
