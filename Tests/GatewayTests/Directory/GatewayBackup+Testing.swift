// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import FoundationEssentials
import PacketTunnelTesting
import Synchronization
import Testing
import TunnelSystem

@testable import Gateway

extension GatewayBackup {
    static let testPassphrase = Array("correct horse battery".utf8)

    /// Makes a backup with a cheap passphrase, and returns its file.
    static func file(
        _ directory: GatewayDirectory, _ store: GatewayStore, passphrase: [UInt8] = testPassphrase,
        at time: Date = Date(), random: RandomSource = RandomSource(SeededGenerator(seed: 9))
    ) async throws -> [UInt8] {
        let audit = AuditRecord(at: time, actor: "local:0", source: nil, action: .backupMade, subject: "gateway")
        let content = try await make(
            directory, store, passphrase: passphrase, audit: audit, cost: .init(log2N: 4, r: 8, p: 1), random: random)
        let file = Mutex<[UInt8]>([])
        try await content.write { part in file.withLock { $0 += part } }
        return file.withLock { $0 }
    }

    /// Restores the bytes of a file.
    static func restore(
        _ bytes: [UInt8], to path: String, passphrase: [UInt8] = testPassphrase, revokingSince old: String? = nil,
        now: Date = Date()
    ) async throws -> RestoredGateway {
        let file = "\(path).backup"
        try Data(bytes).write(to: URL(filePath: file))
        defer { try? FileManager.default.removeItem(atPath: file) }
        let descriptor = SharedDescriptor(OwnedDescriptor(SystemCall.open(file, O_RDONLY)))
        return try await restore(
            reading: descriptor.number, to: path, passphrase: passphrase, revokingSince: old, now: now)
    }
}

extension BackupFormat {
    /// Encrypts a whole payload.
    static func encrypt(
        _ payload: [UInt8], passphrase: [UInt8], cost: Cost, random: RandomSource
    ) throws(GatewayDirectoryError) -> [UInt8] {
        var encryptor = try BackupEncryptor(passphrase: passphrase, cost: cost, random: random)
        var (file, rest) = (encryptor.header, payload[...])
        repeat {
            let part = rest.prefix(chunk)
            rest = rest.dropFirst(part.count)
            file += try encryptor.seal(part, isLast: rest.isEmpty)
        } while !rest.isEmpty
        return file
    }

    /// Decrypts a whole file that arrives in parts of this size.
    static func decrypt(
        _ file: [UInt8], passphrase: [UInt8], parts size: Int = 100_000
    ) throws(GatewayDirectoryError) -> [UInt8] {
        var reader = BackupReader(passphrase: passphrase)
        var payload: [UInt8] = []
        for start in stride(from: 0, to: file.count, by: size) {
            payload += try reader.read(Array(file[start..<min(start + size, file.count)]))
        }
        return payload + (try reader.finish())
    }
}

extension BackupPayload {
    static func encode(_ files: [(name: String, bytes: [UInt8])]) -> [UInt8] {
        files.flatMap { head($0.name, size: $0.bytes.count) + $0.bytes }
    }

    /// Reads a whole payload that arrives in parts of this size.
    static func decode(
        _ payload: [UInt8], parts size: Int = 5
    ) throws(GatewayDirectoryError) -> [(name: String, bytes: [UInt8])] {
        var reader = Reader()
        var files: [(name: String, bytes: [UInt8])] = []
        for start in stride(from: 0, to: payload.count, by: size) {
            try reader.read(Array(payload[start..<min(start + size, payload.count)])) { piece in
                switch piece {
                case .file(let name, _): files.append((name, []))
                case .bytes(let bytes): files[files.count - 1].bytes += bytes
                }
            }
        }
        try reader.finish()
        return files
    }
}
