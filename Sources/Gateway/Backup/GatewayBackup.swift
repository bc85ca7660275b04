// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
import Provisioning
import TunnelSystem

/// A backup of a gateway's whole folder in one encrypted file: database, keys and settings.
///
/// With the file and its passphrase, anyone can act as the gateway. The backup key of the device API is not included.
/// A restored gateway does not know later changes: invitations that were used since are open again, and devices that
/// were removed since exist again.
package enum GatewayBackup {
    /// The shortest passphrase, in bytes.
    package static let shortestPassphrase = 12

    /// Makes a backup, even while the gateway runs.
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
            throw GatewayDirectoryError("the passphrase must have at least \(shortestPassphrase) bytes")
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

    /// Restores a gateway's folder from a backup. Everything is checked before anything is written.
    /// - Parameter path: The path of an empty folder, or of one that does not exist yet.
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
                "the backup contains a file '\(name)' that this version does not know", kind: .newer,
                fix: "update the program")
        }
        let directory = try GatewayDirectory(made: path)
        guard try directory.files.names().isEmpty else {
            throw GatewayDirectoryError("\(path) is not empty", kind: .exists, fix: "select another folder")
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
        // The key is written last: a folder without it does not contain a gateway.
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
