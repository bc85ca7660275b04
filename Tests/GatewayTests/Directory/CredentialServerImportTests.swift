// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CompatibilityFixtures
import FoundationEssentials
import Logging
import NetworkAddresses
import PacketTunnel
import PasswordHashing
import Provisioning
import Testing
import TunnelServer
import TunnelSystem
import WireGuardCore

@testable import Gateway

@Suite("The import of a credential server") struct CredentialServerImportTests {
    private let admin = Caller.local(0)

    /// A gateway and the fixture's credential server, whose files a test may replace.
    private struct Made {
        let folder: String
        let gateway: GatewayDirectory
        var server: String { "\(folder)/server" }

        func write(_ text: String, _ name: String) throws {
            try Data(text.utf8).write(to: URL(filePath: "\(server)/\(name)"))
            try TestFolder.setMode("\(server)/\(name)", 0o600)
        }

        func replace(_ text: String, by other: String, in name: String) throws {
            let old = String(decoding: try Data(contentsOf: URL(filePath: "\(server)/\(name)")), as: UTF8.self)
            #expect(old.contains(text))
            try write(old.replacing(text, with: other), name)
        }

        @discardableResult
        func run() async throws -> CredentialServerImport.Outcome {
            // The lock is released together with the value of the folder.
            try await CredentialServerImport.run(
                CredentialServerFolder(server), into: GatewayDirectory(existing: gateway.path))
        }

        /// The gateway's files, and the users and addresses of its database.
        func contents() async throws -> [String: [UInt8]] {
            var contents: [String: [UInt8]] = [:]
            for name in try gateway.files.names() where !name.hasPrefix("gateway.db") {
                contents[name] = try gateway.files.read(name)
            }
            let store = try gateway.openStore()
            let users = try await store.users(PageRequest()).items.map(\.login)
            let leases = try await store.leases().map(\.address.description)
            try store.close()
            contents["users"] = Array(users.joined(separator: " ").utf8)
            contents["leases"] = Array(leases.joined(separator: " ").utf8)
            return contents
        }

        /// Works with the gateway's service.
        func use<Result>(_ body: (GatewayService, GatewayStore) async throws -> Result) async throws -> Result {
            let store = try gateway.openStore()
            let service = try GatewayService(
                store: store, keys: gateway, settings: gateway.settings(),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            let result = try await body(service, store)
            try store.close()
            return result
        }
    }

    private func with(_ body: (Made) async throws -> Void) async throws {
        try await TestFolder.use { folder in
            var settings = try GatewayDirectoryTests.settings()
            (settings.servesWireGuard, settings.loginTunnel.isEnabled) = (false, true)
            _ = try GatewayDirectory.make("\(folder)/gateway", settings, backupKey: "\(folder)/backup.key")
            try Fixtures.copy("credential-server", to: "\(folder)/server")
            try await body(
                Made(folder: folder, gateway: try GatewayDirectory(existing: "\(folder)/gateway")))
        }
    }

    @Test(
        "Users of the fixture log in with their passwords and addresses, to the same keys; a second import adds nothing"
    )
    func fixture() async throws {
        try await with { made in
            let outcome = try await made.run()
            #expect(outcome.added == ["anna", "ben"] && outcome.present.isEmpty && outcome.differences.isEmpty)
            let settings = try made.gateway.settings()
            #expect(settings == outcome.settings && !settings.servesWireGuard && settings.host == "vpn.example.com")
            #expect(settings.addresses.map(\.description) == ["10.66.0.1/24", "fd66::1/64"])
            #expect(settings.loginTunnel.interface == "cred0" && settings.dns == [.v4(9, 9, 9, 9)])
            let keys = try made.gateway.loginKeys()
            #expect(keys.privateKey.exportedBase64 == (try Fixtures.line("credential-server/private.key")))
            #expect(keys.presharedKey.exportedBase64 == (try Fixtures.line("credential-server/preshared.key")))
            let password = Array(try Fixtures.line("credential-server-admin/anna.password").utf8)
            try await made.use { service, _ in
                let anna = try await service.user(login: "anna", admin)
                #expect(anna.addresses == [.v4(10, 66, 0, 77)])
                #expect(anna.createdAt == (try Date("2026-11-24T10:27:02Z", strategy: .iso8601)))
                for (typed, isRight) in [(password, true), (password + [1], false)] {
                    let judgement = try await service.logIn(
                        LoginRequest(
                            login: "anna", password: SecretBytes(typed), source: try Endpoint("192.0.2.7:4000"),
                            busy: []), .gateway)
                    if case .accepted(_, _, let addresses) = judgement {
                        #expect(isRight && addresses.first == .v4(10, 66, 0, 77))
                    } else {
                        #expect(!isRight && judgement == .refused(.wrong))
                    }
                }
            }
            let before = try await made.contents()
            let again = try await made.run()
            #expect(again.added.isEmpty && again.present == ["anna", "ben"] && again.differences.isEmpty)
            #expect(try await made.contents() == before)
        }
    }

    /// A folder with a value other than the default for each setting.
    private static let settings = """
        {"addressRest": 7200, "addresses": ["10.7.0.1/24"], "allowedNetworks": ["10.8.0.0/24"], "answersPings": false,
        "clients": 77, "failures": {"free": 6, "longestLoginWait": 16, "longestSourceWait": 301, "memory": 901},
        "interface": "cred7", "ipv4": "routed", "ipv6": "routed", "keepalive": 26, "mtu": 1400, "nameServers": [],
        "otherInterfaces": ["eth1"], "passwordCost": {"n": 16384, "p": 2, "r": 4}, "port": 51841,
        "routes": ["0.0.0.0/0"], "services": ["tcp/80"], "sessionLifetime": 3601, "sessionsPerUser": 2000}
        """

    @Test("The gateway gets each setting and the users' former addresses, and names a value that it cannot have")
    func everySetting() async throws {
        try await with { made in
            try made.write(Self.settings, "server.json")
            try made.replace("10.66.0.77", by: "10.7.0.77", in: "users.json")
            try made.write(
                """
                {"version": 1, "isRunning": true, "boot": "x", "bootedAt": 5, "addresses": [
                {"address": "10.7.0.2", "login": "ben", "since": 5}, {"address": "10.7.0.3"},
                {"address": "10.7.0.77", "login": "anna"}, {"address": "10.7.0.4", "login": "gone"}]}
                """, "addresses.json")
            let outcome = try await made.run()
            #expect(outcome.differences.count == 1 && outcome.differences[0].hasPrefix("loginTunnel.sessionsPerUser"))
            #expect(outcome.resting == 3)
            let settings = try made.gateway.settings()
            var wanted = try GatewayDirectoryTests.settings()
            wanted.servesWireGuard = false
            wanted.addressRestSeconds = 7200
            wanted.addresses = [try InterfaceAddress("10.7.0.1/24")]
            wanted.allowedNetworks = [try IPPrefix("10.8.0.0/24")]
            wanted.answersPings = false
            (wanted.devices, wanted.devicesPerUser) = (77, 1000)
            wanted.failures = LoginLimiter.Limits()
            (wanted.failures.free, wanted.failures.memory) = (6, 901)
            (wanted.failures.longestLoginWait, wanted.failures.longestSourceWait) = (16, 301)
            (wanted.ipv4, wanted.ipv6) = (.routed, .routed)
            (wanted.keepaliveSeconds, wanted.mtu) = (26, 1400)
            wanted.otherInterfaces = ["eth1"]
            wanted.routes = [.allIPv4]
            wanted.services = ["tcp/80"]
            wanted.loginTunnel.isEnabled = true
            (wanted.loginTunnel.interface, wanted.loginTunnel.port) = ("cred7", 51_841)
            wanted.loginTunnel.passwordCost = PasswordHash.Cost(n: 16_384, r: 4, p: 2)
            wanted.loginTunnel.sessionLifetimeSeconds = 3601
            wanted.loginTunnel.sessionsPerUser = 1000
            #expect(settings == wanted)
            // A session may have had 10.7.0.3 until the server stopped. The user "gone" was removed.
            try await made.use { service, _ in
                let cooldowns = try await service.cooldowns(CooldownFilter(), PageRequest(), admin).items
                #expect(cooldowns.map(\.login) == ["ben", nil, nil])
                #expect(cooldowns.map(\.address) == [.v4(10, 7, 0, 2), .v4(10, 7, 0, 3), .v4(10, 7, 0, 4)])
            }
        }
    }

    @Test("After the import, an address without a user is in cooldown unless the server has recorded its end")
    func stoppedServer() async throws {
        for (isRunning, count) in [(#""isRunning": false, "#, 1), ("", 1), (#""isRunning": true, "#, 2)] {
            try await with { made in
                try made.write(
                    """
                    {"version": 1, \(isRunning)"addresses": [{"address": "10.66.0.2", "login": "ben", "since": 5},
                    {"address": "10.66.0.3"}]}
                    """, "addresses.json")
                #expect(try await made.run().resting == count, "\(isRunning)")
            }
        }
    }

    @Test("A damaged or unsuitable file is refused with the place of the problem, and the gateway is unchanged")
    func refused() async throws {
        let damages: [(String, (Made) throws -> Void)] = [
            ("server.json: prot", { try $0.write(#"{"prot": 5, "addresses": ["10.66.0.1/24"]}"#, "server.json") }),
            ("server.json", { try $0.write("{", "server.json") }),
            (
                "server.json: port must not occur twice",
                { try $0.write(#"{"port": 5, "port": 6, "addresses": ["10.66.0.1/24"]}"#, "server.json") }
            ),
            ("addresses", { try $0.write("{}", "server.json") }),
            ("loginTunnel.port", { try $0.replace("51840", by: "0", in: "server.json") }),
            ("users.json", { try $0.write("[]", "users.json") }),
            ("version 2", { try $0.replace(#""version" : 1"#, by: #""version" : 2"#, in: "users.json") }),
            ("user 'anna': two users", { try $0.replace(#""ben""#, by: #""anna""#, in: "users.json") }),
            ("cannot have 10.67.0.77", { try $0.replace("10.66.0.77", by: "10.67.0.77", in: "users.json") }),
            ("cannot have 10.66.0.1 ", { try $0.replace("10.66.0.77", by: "10.66.0.1", in: "users.json") }),
            ("password is damaged", { try $0.replace(#""n" : 32768"#, by: #""n" : 32769"#, in: "users.json") }),
            (
                "1 to 64 characters",
                { try $0.replace(#""ben""#, by: "\"\(String(repeating: "b", count: 65))\"", in: "users.json") }
            ),
            (
                "users.json: users[1]: ",
                { try $0.replace(#""ben""#, by: #""\u001b[2Jben""#, in: "users.json") }
            ),
            ("private.key: cannot", { try $0.write("no key\n", "private.key") }),
            ("preshared.key", { try $0.write("\n", "preshared.key") }),
            ("addresses.json", { try $0.write("?", "addresses.json") }),
        ]
        for (words, damage) in damages {
            try await with { made in
                let before = try await made.contents()
                try damage(made)
                let error = await #expect(throws: GatewayDirectoryError.self, "\(words)") { try await made.run() }
                #expect(error?.kind == .unusable && error?.reason.contains(words) == true, "\(words): \(error as Any)")
                #expect(error?.reason.contains("\u{1b}") == false, "\(words)")
                #expect(try await made.contents() == before, "\(words)")
            }
        }
    }

    @Test(
        "An import fails without files, into a running gateway, and with another user or other keys, and changes nothing"
    )
    func conflicts() async throws {
        try await with { made in
            let empty = try await made.contents()
            for name in ["server.json", "private.key"] {
                let bytes = try Data(contentsOf: URL(filePath: "\(made.server)/\(name)"))
                try FileManager.default.removeItem(atPath: "\(made.server)/\(name)")
                let error = await #expect(throws: GatewayDirectoryError.self) { try await made.run() }
                #expect(error?.kind == .missing)
                try made.write(String(decoding: bytes, as: UTF8.self), name)
            }
            try TestFolder.setMode(made.server, 0o755)
            await #expect(throws: GatewayDirectoryError.self) { try await made.run() }
            try TestFolder.setMode(made.server, 0o700)
            try await lockedOut(made)
            #expect(try await made.contents() == empty)

            _ = try await made.use { service, _ in try await service.addUser(UserDraft(login: "ben"), admin) }
            let before = try await made.contents()
            let other = await #expect(throws: GatewayDirectoryError.self) { try await made.run() }
            #expect(other?.kind == .exists && other?.reason.contains("'ben'") == true)
            #expect(try await made.contents() == before)
        }
        try await with { made in
            _ = try made.gateway.loginKeys()
            let before = try await made.contents()
            let error = await #expect(throws: GatewayDirectoryError.self) { try await made.run() }
            #expect(error?.kind == .exists)
            #expect(try await made.contents() == before)
        }
    }

    /// Expects that the import fails while a running gateway has the lock.
    private func lockedOut(_ made: Made) async throws {
        let running = try GatewayDirectory(existing: made.gateway.path)
        try running.lock()
        let error = await #expect(throws: GatewayDirectoryError.self) { try await made.run() }
        #expect(error?.kind == .inUse)
        withExtendedLifetime(running) {}
    }

    @Test(
        "A gateway with devices or fixed addresses keeps its networks, and the import names the settings that differ",
        arguments: [true, false])
    func usedGateway(hasDevice: Bool) async throws {
        try await with { made in
            var settings = try made.gateway.settings()
            settings.servesWireGuard = true
            settings.loginTunnel.isEnabled = false
            try made.gateway.write(settings)
            try await made.use { service, _ in
                let addresses: [IPAddress] = hasDevice ? [] : [.v4(10, 66, 9, 9)]
                let eva = try await service.addUser(UserDraft(login: "eva", addresses: addresses), admin).item
                guard hasDevice else { return }
                var random = SystemRandomNumberGenerator()
                let key = PrivateKey(using: &random).publicKey
                _ = try await service.addDevice(DeviceDraft(userID: eva.id, name: "laptop", publicKey: key), admin)
            }
            let outcome = try await made.run()
            let names = outcome.differences.compactMap { $0.split(separator: ":").first.map(String.init) }
            #expect(names == ["addresses", "dns", "addressRestSeconds"])
            let new = try made.gateway.settings()
            #expect(new.servesWireGuard && new.loginTunnel.isEnabled && new.loginTunnel.interface == "cred0")
            #expect(new.addresses == settings.addresses && new.dns == settings.dns)
        }
    }

    @Test("Repeating an import that was interrupted before it wrote the settings completes it")
    func interrupted() async throws {
        try await with { made in
            let settings = try made.gateway.settings()
            let wanted = try await made.run().settings
            try made.gateway.write(settings)
            let again = try await made.run()
            #expect(again.present == ["anna", "ben"] && again.differences.isEmpty)
            #expect(try made.gateway.settings() == wanted && wanted != settings)
        }
    }
}
