// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import GRDB
import NetworkAddresses
import PacketTunnelTesting
import Provisioning
import Testing
import TunnelSystem
import WireGuardCore

@testable import Gateway

@Suite struct GatewayBackupTests {
    private static let cheap = BackupFormat.Cost(log2N: 4, r: 8, p: 1)
    private static let passphrase = GatewayBackup.testPassphrase

    @Test(
        "A backup of a running gateway restores it with users, devices, keys, pins and settings")
    func restore() async throws {
        try await TestFolder.use { folder in
            let directory = try GatewayDirectory.make(
                "\(folder)/gateway", try GatewayDirectoryTests.settings(), backupKey: "\(folder)/backup.pem")
            let store = try directory.openStore()
            let fixture = StoreFixture(store)
            let user = try await fixture.user()
            let device = try await fixture.device(of: user)
            let writes = Task {
                for number in 0..<200 { _ = try await fixture.user("more\(number)") }
            }
            let file = try await GatewayBackup.file(directory, store, at: fixture.start)
            try await writes.value
            #expect(
                try FileManager.default.contentsOfDirectory(atPath: directory.path).allSatisfy { !$0.hasPrefix("copy") }
            )
            let result = try await GatewayBackup.restore(file, to: "\(folder)/restored", now: fixture.start)
            #expect(result.lastEntry?.record.action == .backupMade && result.lastEntry?.record.at == fixture.start)
            #expect(result.counts.users > 0 && result.counts.devices == 1 && result.later == nil)
            let restored = result.directory
            #expect(try restored.settings() == directory.settings())
            #expect(try restored.serverKeys() == directory.serverKeys())
            #expect(try restored.presharedMaster() == directory.presharedMaster())
            #expect(try restored.pins() == directory.pins())
            #expect(try restored.apiCertificate().key == directory.apiCertificate().key)
            let again = try restored.openStore()
            #expect(try await again.device(device.id) == DeviceOfUser(device: device, user: user))
            let entry = try #require(try await again.audit(AuditFilter(), PageRequest()).items.first)
            #expect(entry.record.action == .restored)
            for name in try FileManager.default.contentsOfDirectory(atPath: restored.path) {
                #expect(FileStatus(of: "\(restored.path)/\(name)")?.mode == 0o600, "\(name)")
            }
            try again.close()
            try store.close()
            // A restore never replaces a gateway.
            await #expect(throws: GatewayDirectoryError.self) {
                _ = try await GatewayBackup.restore(file, to: "\(folder)/restored")
            }
        }
    }

    @Test("A wrong passphrase is distinguished from a damaged file")
    func passphrase() throws {
        let random = RandomSource(SeededGenerator(seed: 1))
        let file = try BackupFormat.encrypt([1, 2, 3], passphrase: Self.passphrase, cost: Self.cheap, random: random)
        #expect(try BackupFormat.decrypt(file, passphrase: Self.passphrase) == [1, 2, 3])
        for wrong in ["", "correct horse batterY", "correct horse battery "] {
            do {
                _ = try BackupFormat.decrypt(file, passphrase: Array(wrong.utf8))
                Issue.record("a wrong passphrase was accepted")
            } catch { #expect(error.kind == .wrongPassphrase) }
        }
        // The format does not depend on the parts in which a file arrives.
        for size in [1, 7, 116, 117, 1000] {
            #expect(try BackupFormat.decrypt(file, passphrase: Self.passphrase, parts: size) == [1, 2, 3])
        }
        var newer = file
        newer[15] = UInt8(ascii: "2")
        do { _ = try BackupFormat.decrypt(newer, passphrase: Self.passphrase) } catch { #expect(error.kind == .newer) }
    }

    @Test("A file that is truncated anywhere, or changed in any byte, is refused", arguments: [0, 1, 5000])
    func damage(_ size: Int) throws {
        let random = RandomSource(SeededGenerator(seed: 2))
        let payload = random.bytes(size)
        let file = try BackupFormat.encrypt(payload, passphrase: Self.passphrase, cost: Self.cheap, random: random)
        #expect(try BackupFormat.decrypt(file, passphrase: Self.passphrase) == payload)
        let step = max(file.count / 600, 1)
        for length in stride(from: 0, to: file.count, by: step) {
            #expect(throws: GatewayDirectoryError.self, "\(length)") {
                _ = try BackupFormat.decrypt(Array(file[..<length]), passphrase: Self.passphrase)
            }
        }
        for index in stride(from: 0, to: file.count, by: step) {
            var changed = file
            changed[index] ^= 1
            #expect(throws: GatewayDirectoryError.self, "\(index)") {
                _ = try BackupFormat.decrypt(changed, passphrase: Self.passphrase)
            }
        }
        #expect(throws: GatewayDirectoryError.self) {
            _ = try BackupFormat.decrypt(file + [0], passphrase: Self.passphrase)
        }
    }

    @Test("Missing, moved and repeated chunks are refused")
    func chunks() throws {
        let random = RandomSource(SeededGenerator(seed: 3))
        let payload = [UInt8](repeating: 7, count: 3 * BackupFormat.chunk)
        let file = try BackupFormat.encrypt(payload, passphrase: Self.passphrase, cost: Self.cheap, random: random)
        #expect(try BackupFormat.decrypt(file, passphrase: Self.passphrase) == payload)
        let header = Array(file[..<BackupFormat.headerLength])
        let size = BackupFormat.chunk + 16
        let chunks = (0..<3).map { Array(file[(header.count + $0 * size)..<(header.count + ($0 + 1) * size)]) }
        for order in [[0], [0, 1], [1, 2], [0, 2], [0, 2, 1], [0, 1, 2, 2], [0, 1, 1, 2], [2]] {
            #expect(throws: GatewayDirectoryError.self, "\(order)") {
                _ = try BackupFormat.decrypt(header + order.flatMap { chunks[$0] }, passphrase: Self.passphrase)
            }
        }
    }

    @Test("The content is checked too: names, lengths, and missing or unknown files")
    func payload() async throws {
        let random = RandomSource(SeededGenerator(seed: 4))
        let good = BackupPayload.encode([("a", [1, 2]), ("b", [])])
        #expect(try BackupPayload.decode(good).map(\.name) == ["a", "b"])
        for length in 1..<good.count where length != 12 {
            #expect(throws: GatewayDirectoryError.self, "\(length)") {
                _ = try BackupPayload.decode(Array(good[..<length]))
            }
        }
        for names in [["a", "a"], ["../a"], [".a"], ["a/b"], [""]] {
            #expect(throws: GatewayDirectoryError.self) {
                _ = try BackupPayload.decode(BackupPayload.encode(names.map { ($0, []) }))
            }
        }
        #expect(throws: GatewayDirectoryError.self) {
            _ = try BackupPayload.decode([1, UInt8(ascii: "a")] + [UInt8](repeating: 255, count: 8))
        }
        try await TestFolder.use { folder in
            let file = try BackupFormat.encrypt(
                good, passphrase: Self.passphrase, cost: Self.cheap, random: random)
            await #expect(throws: GatewayDirectoryError.self) {
                _ = try await GatewayBackup.restore(file, to: "\(folder)/x")
            }
            #expect(FileStatus(of: "\(folder)/x") == nil)
        }
    }

    @Test("No secret of the gateway is readable in a backup, and a passphrase of 11 bytes is too short")
    func secrecy() async throws {
        try await TestFolder.use { folder in
            let directory = try GatewayDirectory.make(
                "\(folder)/gateway", try GatewayDirectoryTests.settings(), backupKey: "\(folder)/backup.pem")
            let store = try directory.openStore()
            let file = Data(try await GatewayBackup.file(directory, store))
            for secret in [
                try directory.serverKeys().current.exportedBase64, try directory.presharedMaster().exportedBase64,
                "PRIVATE KEY", "SQLite format", "vpn.example.com", String(decoding: Self.passphrase, as: UTF8.self),
            ] {
                #expect(file.firstRange(of: Data(secret.utf8)) == nil)
            }
            await #expect(throws: GatewayDirectoryError.self) {
                _ = try await GatewayBackup.file(directory, store, passphrase: Array("short passp".utf8))
            }
            try store.close()
        }
    }

    @Test("A truncated backup leaves neither a folder nor files in an existing folder")
    func truncated() async throws {
        try await TestFolder.use { folder in
            let directory = try GatewayDirectory.make(
                "\(folder)/gateway", try GatewayDirectoryTests.settings(), backupKey: "\(folder)/backup.pem")
            let store = try directory.openStore()
            try await store.connections.write { db in
                try db.execute(
                    sql: """
                        INSERT INTO audit (at, actor, action, subject, details)
                        VALUES (0, 'test', 'userAdded', 'test', hex(randomblob(1500000)))
                        """)
            }
            let file = try await GatewayBackup.file(directory, store)
            try store.close()
            #expect(file.count > 2 * BackupFormat.chunk)
            try FileManager.default.createDirectory(
                atPath: "\(folder)/old", withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
            for length in [50, 1000, BackupFormat.chunk + 5000, file.count - 1] {
                for name in ["new", "old"] {
                    await #expect(throws: GatewayDirectoryError.self, "\(length)") {
                        _ = try await GatewayBackup.restore(Array(file[..<length]), to: "\(folder)/\(name)")
                    }
                }
                #expect(FileStatus(of: "\(folder)/new") == nil)
                #expect(try FileManager.default.contentsOfDirectory(atPath: "\(folder)/old") == [])
            }
            _ = try await GatewayBackup.restore(file, to: "\(folder)/old")
        }
    }
}
