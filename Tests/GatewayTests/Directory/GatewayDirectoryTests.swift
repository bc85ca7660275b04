// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Crypto
import FoundationEssentials
import NetworkAddresses
import PacketTunnelTesting
import PasswordHashing
import Provisioning
import SwiftASN1
import Testing
import TunnelSystem
import WireGuardCore
import X509

@testable import Gateway

@Suite struct GatewayDirectoryTests {
    static func settings(_ host: String = "vpn.example.com") throws -> GatewaySettings {
        var settings = GatewaySettings()
        settings.host = host
        settings.addresses = [try InterfaceAddress("10.66.0.1/16"), try InterfaceAddress("fd66::1/64")]
        return settings
    }

    @Test("Init makes a folder that opens again and that only its owner can access, with the backup key elsewhere")
    func make() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway"
            var settings = try Self.settings()
            settings.addKey.isEnabled = true
            settings.endpoints = [try EndpointAddress("vpn.example.com:443")]
            let made = try GatewayDirectory.make(path, settings, backupKey: "\(folder)/backup.pem")
            let directory = try GatewayDirectory(existing: path)
            #expect(try directory.settings() == settings)
            #expect(try directory.serverKeys() == made.serverKeys())
            #expect(try directory.presharedMaster() == made.presharedMaster())
            try directory.openStore().close()
            #expect(FileStatus(of: path)?.mode == 0o700)
            for name in try FileManager.default.contentsOfDirectory(atPath: path) {
                #expect(FileStatus(of: "\(path)/\(name)")?.mode == 0o600, "\(name)")
            }
            #expect(FileStatus(of: "\(folder)/backup.pem")?.mode == 0o600)
            let backup = try P256.Signing.PrivateKey(
                pemRepresentation: String(contentsOf: URL(filePath: "\(folder)/backup.pem"), encoding: .utf8))
            let pins = try directory.pins()
            #expect(pins.backup == (try GatewayCertificate.pin(backup)) && pins.backup != pins.active)
            // No file of the folder contains the backup key.
            for name in try FileManager.default.contentsOfDirectory(atPath: path) {
                let bytes = try Data(contentsOf: URL(filePath: "\(path)/\(name)"))
                #expect(bytes.firstRange(of: backup.rawRepresentation) == nil, "\(name)")
                let text = backup.pemRepresentation.split(separator: "\n")[1]
                #expect(bytes.firstRange(of: Data(text.utf8)) == nil, "\(name)")
            }
        }
    }

    @Test("Init refuses a folder with a gateway, and a file for the backup key that is in the folder or exists")
    func refused() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway"
            let settings = try Self.settings()
            for backup in ["\(path)/backup.pem", "backup.pem", "\(folder)/none/backup.pem"] {
                #expect(throws: GatewayDirectoryError.self) {
                    _ = try GatewayDirectory.make(path, settings, backupKey: backup)
                }
            }
            let made = try GatewayDirectory.make(path, settings, backupKey: "\(folder)/backup.pem")
            let key = try made.serverKeys()
            #expect(throws: GatewayDirectoryError.self) {
                _ = try GatewayDirectory.make(path, settings, backupKey: "\(folder)/other.pem")
            }
            #expect(throws: GatewayDirectoryError.self) {
                _ = try GatewayDirectory.make("\(folder)/second", settings, backupKey: "\(folder)/backup.pem")
            }
            #expect(try GatewayDirectory(existing: path).serverKeys() == key)
            #expect(throws: GatewayDirectoryError.self) { _ = try GatewayDirectory(existing: "\(folder)/none") }
            try TestFolder.setMode("\(path)/server.key", 0o644)
            #expect(throws: GatewayDirectoryError.self) { _ = try GatewayDirectory(existing: path) }
            try TestFolder.setMode("\(path)/server.key", 0o600)
            try TestFolder.setMode(path, 0o755)
            #expect(throws: GatewayDirectoryError.self) { _ = try GatewayDirectory(existing: path) }
        }
    }

    @Test("A database that is missing from a folder that had one is an error, and a new folder gets one")
    func missingDatabase() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway"
            _ = try GatewayDirectory.make(path, try Self.settings(), backupKey: "\(folder)/backup.pem")
            let directory = try GatewayDirectory(existing: path)
            try directory.openStore().close()
            // A folder of an earlier version has no mark yet.
            try FileManager.default.removeItem(atPath: "\(path)/gateway.db.made")
            try directory.openStore().close()
            try FileManager.default.removeItem(atPath: directory.database)
            let error = #expect(throws: GatewayDirectoryError.self) { try directory.openStore().close() }
            #expect(error?.kind == .missing && error?.reason == "\(path)/gateway.db is missing")
            #expect(error?.fix.contains("\(path)/gateway.db.made") == true)
            #expect(FileStatus(of: directory.database) == nil)
            try FileManager.default.removeItem(atPath: "\(path)/gateway.db.made")
            try directory.openStore().close()
            #expect(FileStatus(of: directory.database) != nil)
        }
    }

    @Test("The error of a database on a read-only file system names the folder and the remedy")
    func readOnlyFileSystem() {
        let failure = StoreError.unavailable("cannot open '/var/lib/gateway/gateway.db': Read-only file system")
        let error = GatewayDirectoryError(failure, folder: "/var/lib/gateway", isReadOnly: true)
        #expect(error.description.contains("gateway.db': Read-only file system: the file system of /var/lib/gateway"))
        #expect(error.fix.hasSuffix("mount it writable"))
        #expect(GatewayDirectoryError(failure, folder: "/var/lib/gateway", isReadOnly: false).fix.isEmpty)
    }

    @Test("A start waits for the folder's lock while another gateway ends, but no longer than its limit")
    func waitsForLock() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway"
            var held: GatewayDirectory? = try GatewayDirectory.make(
                path, Self.settings(), backupKey: "\(folder)/backup.pem")
            let next = try GatewayDirectory(existing: path)
            let began = ContinuousClock.now
            let error = #expect(throws: GatewayDirectoryError.self) { try next.lock(within: .milliseconds(50)) }
            #expect(error?.kind == .inUse && error?.reason == "another gateway uses the folder \(path)")
            #expect(held != nil && ContinuousClock.now - began >= .milliseconds(50))
            let (started, starting) = AsyncStream.makeStream(of: Void.self)
            let waiting = Task.detached {
                starting.finish()
                return Result { try next.lock(within: .seconds(60)) }
            }
            for await _ in started {}
            held = nil
            try await waiting.value.get()
        }
    }

    @Test("The copies of a killed backup or migration are removed, and kept copies stay")
    func abandonedCopies() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway"
            let directory = try GatewayDirectory.make(path, try Self.settings(), backupKey: "\(folder)/backup.pem")
            let abandoned = ["copy-1f.db", "copy-1f.db-journal", "gateway.db.copy", "gateway.db.copy-journal"]
            for name in abandoned + ["gateway.db.version-9"] { try directory.files.write([1], to: name) }
            try directory.openStore().close()
            let names = try directory.files.names()
            #expect(names.contains("gateway.db.version-9") && names.allSatisfy { !abandoned.contains($0) }, "\(names)")
        }
    }

    @Test(
        "The certificate names the host, is valid from 2000 to 2120, and has the pinned key",
        arguments: ["vpn.example.com", "192.0.2.1", "2001:db8::1"])
    func certificate(_ host: String) async throws {
        try await TestFolder.use { folder in
            let directory = try GatewayDirectory.make(
                "\(folder)/gateway", try Self.settings(host), backupKey: "\(folder)/backup.pem")
            let api = try directory.apiCertificate()
            let certificate = try Certificate(pemEncoded: api.certificate)
            #expect(certificate.notValidBefore == Date(timeIntervalSince1970: 946_684_800))
            #expect(certificate.notValidAfter == Date(timeIntervalSince1970: 4_733_510_400))
            let names = try #require(try certificate.extensions.subjectAlternativeNames)
            let expected: GeneralName =
                (try? IPAddress(host)).map { .ipAddress(ASN1OctetString(contentBytes: $0.bytes[...])) }
                ?? .dnsName(host)
            #expect(Array(names) == [expected])
            #expect(certificate.publicKey.isValidSignature(certificate.signature, for: certificate))
            let key = try P256.Signing.PrivateKey(pemRepresentation: api.key)
            #expect(certificate.publicKey == Certificate.PublicKey(key.publicKey))
            var serializer = DER.Serializer()
            try certificate.publicKey.serialize(into: &serializer)
            #expect(Array(SHA256.hash(data: serializer.serializedBytes)) == (try directory.pins().active.bytes))
        }
    }

    @Test("The addKey authority signs its listener's certificate, whose common name is the host")
    func authority() throws {
        let (authority, leaf) = try GatewayCertificate.authority(host: "vpn.example.com")
        let (issuer, subject) = (
            try Certificate(pemEncoded: authority.certificate), try Certificate(pemEncoded: leaf.certificate)
        )
        #expect(issuer.publicKey.isValidSignature(subject.signature, for: subject))
        #expect(subject.issuer == issuer.subject && subject.issuer != subject.subject)
        #expect("\(subject.subject)".contains("vpn.example.com"))
        #expect(try issuer.extensions.basicConstraints == .isCertificateAuthority(maxPathLength: 0))
        #expect(try subject.extensions.basicConstraints == .notCertificateAuthority)
    }

    @Test("Only the backup key can replace the active key, and a new backup key is made")
    func backupKey() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway"
            let directory = try GatewayDirectory.make(path, try Self.settings(), backupKey: "\(folder)/backup.pem")
            let before = try directory.pins()
            let other = try GatewayDirectory.make(
                "\(folder)/other", try Self.settings(), backupKey: "\(folder)/foreign.pem")
            _ = other
            for file in ["\(folder)/foreign.pem", "\(path)/api.key", "/dev/null", "\(folder)/none"] {
                #expect(throws: GatewayDirectoryError.self) {
                    try directory.activateBackupKey(file, newBackupKey: "\(folder)/new.pem")
                }
                #expect(try directory.pins() == before)
            }
            try directory.activateBackupKey("\(folder)/backup.pem", newBackupKey: "\(folder)/new.pem")
            let after = try directory.pins()
            #expect(after.active == before.backup && after.backup != before.active && after.backup != after.active)
            let key = try P256.Signing.PrivateKey(pemRepresentation: try directory.apiCertificate().key)
            #expect(try GatewayCertificate.pin(key) == after.active)
        }
    }

    @Test("The text of a key is zero after it was read, in both forms of PEM and with either line ending")
    func wipedKey() throws {
        let key = P256.Signing.PrivateKey()
        let text = key.pemRepresentation
        // RFC 5915: the private key, the curve's OID, and the public key.
        let fields: [UInt8] =
            [0x02, 1, 1, 0x04, 32] + key.rawRepresentation + [0xa0, 10, 0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]
            + [0xa1, 68, 0x03, 66, 0] + key.publicKey.x963Representation
        let older = Data([0x30, UInt8(fields.count)] + fields).base64EncodedString()
        for pem in [
            text, text + "\n", text.replacing("\n", with: "\r\n"), "Made for vpn.example.com\n" + text,
            "-----BEGIN EC PRIVATE KEY-----\n\(older)\n-----END EC PRIVATE KEY-----\n",
        ] {
            var bytes = Array(pem.utf8)
            #expect(GatewayDirectory.key(wiping: &bytes)?.rawRepresentation == key.rawRepresentation, "\(pem.count)")
            #expect(bytes == Array(repeating: 0, count: pem.utf8.count))
        }
        for pem in ["", "-----BEGIN PRIVATE KEY-----", key.publicKey.pemRepresentation, String(text.prefix(90))] {
            var bytes = Array(pem.utf8)
            #expect(GatewayDirectory.key(wiping: &bytes) == nil)
            #expect(bytes.allSatisfy { $0 == 0 })
        }
    }

    @Test("An interrupted activation of the backup key leaves a usable folder, and can be repeated", arguments: 0...3)
    func interruptedActivation(written: Int) async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway"
            let directory = try GatewayDirectory.make(path, try Self.settings(), backupKey: "\(folder)/backup.pem")
            let before = try directory.pins()
            let old = try directory.apiCertificate()
            // Another folder shows the complete change.
            try FileManager.default.copyItem(atPath: path, toPath: "\(folder)/other")
            let other = try GatewayDirectory(existing: "\(folder)/other")
            let pins = try other.activateBackupKey("\(folder)/backup.pem", newBackupKey: "\(folder)/new.pem")
            for name in ["api.key", "api.crt", "pins.json"].prefix(written) {
                let text = try other.text(name)
                try directory.write(text: text.hasSuffix("\n") ? String(text.dropLast()) : text, name)
            }
            // Devices have the pins from before. The gateway presents one of them, and announces the one that it presents.
            let presented = try directory.apiCertificate()
            let key = try P256.Signing.PrivateKey(pemRepresentation: presented.key)
            let pin = try GatewayCertificate.pin(key)
            #expect(GatewayCertificate.isCertificate(presented.certificate, of: key))
            #expect((presented.key == old.key) == (written == 0))
            #expect([before.active, before.backup].contains(pin))
            #expect([try directory.pins().active, try directory.pins().backup].contains(pin))
            guard written < 3 else {
                #expect(try directory.pins() == pins)
                let error = #expect(throws: GatewayDirectoryError.self) {
                    try directory.activateBackupKey("\(folder)/backup.pem", newBackupKey: "\(folder)/third.pem")
                }
                #expect(error?.reason.contains("already the active key") == true)
                return
            }
            // The interrupted command has made its file for the new key.
            let exists = #expect(throws: GatewayDirectoryError.self) {
                try directory.activateBackupKey("\(folder)/backup.pem", newBackupKey: "\(folder)/new.pem")
            }
            #expect(exists?.kind == .exists)
            let repeated = try directory.activateBackupKey(
                "\(folder)/backup.pem", newBackupKey: "\(folder)/third.pem")
            #expect(repeated.active == before.backup && repeated.backup != pins.backup)
            #expect(try directory.pins() == repeated)
        }
    }

    @Test("A failed activation of the backup key leaves no file for the new one, and the pins unchanged")
    func failedActivation() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway"
            let directory = try GatewayDirectory.make(path, try Self.settings(), backupKey: "\(folder)/backup.pem")
            let before = try directory.pins()
            // A folder in the place of the certificate.
            try FileManager.default.removeItem(atPath: "\(path)/api.crt")
            try FileManager.default.createDirectory(atPath: "\(path)/api.crt", withIntermediateDirectories: false)
            #expect(throws: GatewayDirectoryError.self) {
                try directory.activateBackupKey("\(folder)/backup.pem", newBackupKey: "\(folder)/new.pem")
            }
            #expect(FileStatus(of: "\(folder)/new.pem") == nil)
            #expect(try directory.pins() == before)
        }
    }

    @Test(
        "The next key is stored with its time, an interrupted switch is completed, and damage is reported"
    )
    func serverKeys() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway"
            let directory = try GatewayDirectory.make(path, try Self.settings(), backupKey: "\(folder)/backup.pem")
            let first = try directory.serverKeys()
            var random = RandomSource(SeededGenerator(seed: 3))
            let next = ServerKeys.Next(
                key: PrivateKey(using: &random), switchAt: Date(timeIntervalSince1970: 1_800_000_000))
            let announced = ServerKeys(current: first.current, next: next)
            try directory.write(announced)
            #expect(try GatewayDirectory(existing: path).serverKeys() == announced)
            // Write what the first half of a switch writes.
            try directory.write(text: next.key.exportedBase64, "server.key")
            #expect(try directory.serverKeys() == ServerKeys(current: next.key))
            try directory.write(ServerKeys(current: next.key))
            #expect(FileStatus(of: "\(path)/server.next.key") == nil)
            try directory.write(text: "nonsense", "server.next.key")
            #expect(throws: GatewayError.self) { _ = try directory.serverKeys() }
            try directory.write(ServerKeys(current: next.key))
            try directory.write(text: "nonsense", "preshared.key")
            #expect(throws: GatewayError.self) { _ = try directory.presharedMaster() }
        }
    }

    @Test("The login tunnel's keys are made once, only their owner can access them, and damage is reported")
    func loginKeys() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway"
            let directory = try GatewayDirectory.make(path, try Self.settings(), backupKey: "\(folder)/backup.pem")
            #expect(FileStatus(of: "\(path)/login.key") == nil)
            let keys = try directory.loginKeys()
            #expect(try GatewayDirectory(existing: path).loginKeys() == keys)
            for name in ["login.key", "login.preshared.key"] {
                #expect(FileStatus(of: "\(path)/\(name)")?.mode == 0o600)
                let before = try directory.text(name)
                try directory.write(text: "nonsense", name)
                #expect(throws: GatewayDirectoryError.self) { _ = try directory.loginKeys() }
                try directory.write(text: String(before.dropLast()), name)
            }
            #expect(try directory.loginKeys() == keys)
        }
    }

    @Test(
        "A lost key of the login tunnel is named and not replaced",
        arguments: ["login.key", "login.preshared.key"])
    func lostLoginKey(name: String) async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway"
            let directory = try GatewayDirectory.make(path, try Self.settings(), backupKey: "\(folder)/backup.pem")
            let keys = try directory.loginKeys()
            let text = try directory.text(name)
            try FileManager.default.removeItem(atPath: "\(path)/\(name)")
            let error = #expect(throws: GatewayDirectoryError.self) { _ = try directory.loginKeys() }
            #expect(error?.kind == .missing)
            #expect(error.map { "\($0)" }?.contains("\(path)/\(name) is missing") == true)
            try directory.write(text: String(text.dropLast()), name)
            #expect(try directory.loginKeys() == keys)
        }
    }

    @Test("The login tunnel's keys are made again if a crash interrupted their creation at any file")
    func interruptedLoginKeys() async throws {
        for names in [[], ["login.key"], ["login.key", "login.preshared.key"]] {
            try await TestFolder.use { folder in
                let path = "\(folder)/gateway"
                let directory = try GatewayDirectory.make(path, try Self.settings(), backupKey: "\(folder)/backup.pem")
                let keys = try directory.loginKeys()
                for name in ["login.key", "login.preshared.key"] where !names.contains(name) {
                    try FileManager.default.removeItem(atPath: "\(path)/\(name)")
                }
                try directory.write(text: keys.presharedKey.exportedBase64, "login.preshared.key.new")
                let made = try directory.loginKeys()
                #expect((made == keys) == (names.count == 2))
                #expect(try GatewayDirectory(existing: path).loginKeys() == made)
                #expect(FileStatus(of: "\(path)/login.preshared.key.new") == nil)
            }
        }
    }

    @Test("Invalid settings are refused with the field's name, in the file and when they are written")
    func settings() async throws {
        let good = try Self.settings()
        #expect(try GatewaySettings(json: good.text) == good)
        let changes: [(String, (inout GatewaySettings) -> Void)] = [
            ("host", { $0.host = "" }), ("host", { $0.host = "a b" }), ("addresses", { $0.addresses = [] }),
            ("mtu", { $0.mtu = 1200 }), ("services[0]", { $0.services = ["tcp/0"] }),
            ("dns", { $0.dns = [.v4(127, 0, 0, 1)] }),
            ("devices", { $0.devices = 0 }), ("wireGuardPort", { $0.wireGuardPort = 0 }),
            ("api.port", { $0.api.port = 0 }),
            ("addressRestSeconds", { $0.addressRestSeconds = -1 }), ("interface", { $0.interface = "" }),
            ("loginTunnel.port", { $0.loginTunnel.port = 0 }),
            ("loginTunnel.port", { ($0.loginTunnel.isEnabled, $0.loginTunnel.port) = (true, $0.wireGuardPort) }),
            ("loginTunnel.interface", { ($0.loginTunnel.isEnabled, $0.loginTunnel.interface) = (true, $0.interface) }),
            ("servesWireGuard", { $0.servesWireGuard = false }),
            (
                "addKey.isEnabled",
                { ($0.servesWireGuard, $0.loginTunnel.isEnabled, $0.addKey.isEnabled) = (false, true, true) }
            ),
            ("loginTunnel.sessionsPerUser", { $0.loginTunnel.sessionsPerUser = 0 }),
            ("loginTunnel.sessionLifetimeSeconds", { $0.loginTunnel.sessionLifetimeSeconds = -1 }),
            ("loginTunnel.passwordCost", { $0.loginTunnel.passwordCost.n = 3 }),
            ("loginTunnel.leaseSeconds", { $0.loginTunnel.leaseSeconds = 60 }),
            ("keepaliveSeconds", { ($0.loginTunnel.isEnabled, $0.keepaliveSeconds) = (true, 3601) }),
        ]
        for (field, change) in changes {
            var settings = good
            change(&settings)
            #expect(settings.problem?.field == field)
        }
        for json in [
            "{", "[]", #"{"hots": "x"}"#, #"{"host": 5}"#, #"{"host": "a.example", "addresses": ["10.0.0.1"]}"#,
            #"{"host": "a.example", "addresses": ["10.0.0.1/24"], "endpoints": ["nowhere"]}"#,
            #"{"host": "a.example", "addresses": ["10.0.0.1/24"], "loginTunnel": {"prot": 1}}"#,
        ] {
            #expect(throws: GatewayError.self) { _ = try GatewaySettings(json: Array(json.utf8)) }
        }
        // Missing members of a group have their defaults too.
        let short =
            #"{"host": "a.example", "addresses": ["10.0.0.1/24"], "loginTunnel": {"isEnabled": true, "port": 5}}"#
        #expect(try GatewaySettings(json: Array(short.utf8)).servesWireGuard)
        let read = try GatewaySettings(json: Array(short.utf8)).loginTunnel
        #expect(read.isEnabled && read.port == 5 && read.sessionsPerUser == 5)
    }
}
