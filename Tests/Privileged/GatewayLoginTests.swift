// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CompatibilityFixtures
    import Foundation
    import Logging
    import NetworkAddresses
    import PacketTunnelTesting
    import PasswordHashing
    import Provisioning
    import Testing
    import TunnelServer
    import WireGuardCore

    @testable import CredentialTunnel
    @testable import Gateway

    @Suite(
        "The login tunnel beside WireGuard in a gateway", .enabled(if: Privileged.isAvailable), .serialized,
        .timeLimit(.minutes(5)))
    struct GatewayLoginTests {
        private let admin = Caller.local(0)
        private static let password = "correct horse battery"

        /// A gateway with both tunnels, its store in a file; anna has a device of WireGuard, and ben logs in.
        private struct Made {
            let scene: GatewayTunnelScene
            let folder: TemporaryFolder
            let service: GatewayService
            let wireGuard: GatewayClient
            let login: LoginClient
            let keys: LoginTunnelKeys
            let anna: User
            let ben: User

            init() async throws {
                scene = try GatewayTunnelScene { settings in
                    settings.host = CredentialServerScene.address
                    settings.loginTunnel.isEnabled = true
                    settings.loginTunnel.interface = "login0"
                }
                folder = try TemporaryFolder()
                service = try GatewayService(
                    store: try GatewayStore(path: "\(folder.path)/gateway.db"), keys: MemoryKeys(),
                    settings: scene.source.settings, passwordCost: PasswordHash.Cost(n: 16, r: 8, p: 1),
                    logger: Logger(label: "gateway"))
                let admin = Caller.local(0)
                anna = try await service.addUser(UserDraft(login: "anna"), admin).item
                ben = try await service.addUser(UserDraft(login: "ben"), admin).item
                _ = try await service.setPassword(of: ben.id, Array(password.utf8), admin)
                var generator = SystemRandomNumberGenerator()
                let key = PrivateKey(using: &generator)
                let draft = DeviceDraft(userID: anna.id, name: "laptop", publicKey: key.publicKey)
                let grant = try await service.addDevice(draft, admin).item
                wireGuard = try GatewayClient(
                    in: scene.anna, key: key, addresses: grant.addresses.map(\.description),
                    presharedKey: grant.presharedKey)
                try wireGuard.use(grant.servers[0].publicKey)
                keys = LoginTunnelKeys(
                    privateKey: PrivateKey(using: &generator), presharedKey: PresharedKey(using: &generator))
                login = try LoginClient(
                    in: scene.ben, "cli0",
                    keys: SharedKeys(server: keys.privateKey.publicKey, presharedKey: keys.presharedKey))
            }

            func start() async throws { try await scene.start(service, loginKeys: keys) }

            /// Logs in, and gives the client's interface what the gateway says.
            @discardableResult
            func logIn() throws -> Body.Assignment {
                let assignment = try login.logIn("ben", password).get()
                try login.configure(assignment)
                return assignment
            }

            /// Whether pings of ben are answered once what was changed is in force.
            func pings(_ address: String) throws -> Bool {
                try waitUntil(timeout: Privileged.patience, pollEvery: .milliseconds(50)) {
                    try login.pings(address, patience: 1)
                }
            }
        }

        @Test(
            "A client of each tunnel reaches a server behind the gateway; rules hold for both, and a source that is another's is dropped"
        )
        func beside() async throws {
            let made = try await Made()
            let (scene, service) = (made.scene, made.service)
            let before = try scene.world.snapshot()
            try await made.start()
            #expect(try made.wireGuard.pings("203.0.113.7", patience: 9))
            let assignment = try made.logIn()
            // The first addresses are the device's, of the same pool.
            #expect(assignment.addresses.map(\.description) == ["10.66.0.3/32", "fd66::3/128"])
            for address in ["10.66.0.1", "fd66::1", "203.0.113.7", "2001:db8:7::7"] {
                #expect(try made.pings(address), "\(address)")
            }
            #expect(try made.wireGuard.pings("203.0.113.7", patience: 9))
            #expect(try !made.login.pings("10.55.1.1", patience: 1), "a private network behind the gateway")

            // Neither reaches the other, unless both say so.
            #expect(try !made.login.pings("10.66.0.2", patience: 1))
            _ = try await service.setRules(
                of: .user(made.ben.id), [RuleDraft(AccessRule(.allow, networks: [try IPPrefix("10.66.0.2/32")]))], admin
            )
            _ = try await service.setRules(
                of: .user(made.anna.id),
                [RuleDraft(AccessRule(.allow, direction: .in, networks: [try IPPrefix("10.66.0.3/32")]))], admin)
            #expect(try made.pings("10.66.0.2"))

            // A rule of the user blocks the login as it would a device, within a second.
            let deny = RuleDraft(AccessRule(.deny, networks: [try IPPrefix("203.0.113.0/24")]))
            let blocked = try await scene.cutOff(scene.ben) {
                _ = try await service.setRules(of: .user(made.ben.id), [deny], admin)
            }
            #expect(blocked < .seconds(1))
            #expect(try !made.login.pings("203.0.113.7", patience: 1))
            #expect(try made.wireGuard.pings("203.0.113.7", patience: 9))
            _ = try await service.setRules(of: .user(made.ben.id), [], admin)
            #expect(try made.pings("203.0.113.7"))

            // Anna's address inside ben's tunnel.
            try scene.ben.run("ip", "address", "add", "10.66.0.2/32", "dev", "cli0")
            #expect(
                try scene.ben.runAllowingFailure(
                    "ping", "-n", "-q", "-c", "1", "-W", "1", "-I", "10.66.0.2", "203.0.113.7"
                ).status != 0)
            let spoofed = try #require(scene.figures.login).drops.first { $0.cause == "disallowed_source" }
            #expect((spoofed?.count ?? 0) > 0)
            #expect(try made.wireGuard.pings("203.0.113.7", patience: 9))
            print(
                "gateway: a rule of its user cut a login off within \(blocked); \(spoofed?.count ?? 0) spoofed packets dropped"
            )

            try await scene.stop()
            let devices = try await service.devices(of: made.ben.id, PageRequest(), admin).items
            #expect(devices.map(\.kind) == [.login])
            #expect(devices[0].traffic.received > 0 && devices[0].traffic.sent > 0)
            #expect(devices[0].lastEndpoint?.address == .v4(198, 51, 101, 2) && devices[0].lastSeenAt != nil)
            try scene.world.expectUnchanged(since: before)
        }

        @Test("A login is cut off within a second when its user is disabled, gets another password, or is removed")
        func cutsOff() async throws {
            let made = try await Made()
            let (scene, service) = (made.scene, made.service)
            try await made.start()
            let first = try made.logIn()
            var update = UserUpdate()
            update.isEnabled = false
            let disabled = try await scene.cutOff(scene.ben) {
                _ = try await service.updateUser(made.ben.id, update, admin)
            }
            try eventually("the client hears that its session is over") { made.login.events.contains(.ended(.removed)) }
            #expect(try made.login.logIn("ben", Self.password) != .success(first))
            update.isEnabled = true
            _ = try await service.updateUser(made.ben.id, update, admin)
            #expect(try made.logIn().addresses == first.addresses)
            let changed = try await scene.cutOff(scene.ben) {
                _ = try await service.setPassword(of: made.ben.id, Array("battery staple".utf8), admin)
            }
            #expect(try made.login.logIn("ben", Self.password) == .failure(.refused(Body.Refusal(.credentials))))
            try made.login.configure(made.login.logIn("ben", "battery staple").get())
            let removed = try await scene.cutOff(scene.ben) { try await service.removeUser(made.ben.id, admin) }
            for time in [disabled, changed, removed] { #expect(time < .seconds(1)) }
            print(
                "gateway: the last datagram of a login passed \(disabled) after its user was disabled, \(changed) after "
                    + "another password, \(removed) after it was removed")
            try await scene.stop()
        }

        @Test("After a restart a login comes back by itself, with the addresses of before, and routes are made again")
        func restart() async throws {
            let made = try await Made()
            let scene = made.scene
            try await made.start()
            let first = try made.logIn()
            #expect(try made.pings("203.0.113.7"))
            // What others delete is made again.
            try scene.world.host.run("ip", "route", "delete", "10.66.0.3/32", "dev", "login0")
            try eventually("packets pass again") { try made.login.pings("203.0.113.7", patience: 1) }
            try await scene.stop()
            #expect(try !made.login.pings("203.0.113.7", patience: 1))
            try await made.start()
            try eventually("packets pass after the restart", within: .seconds(60)) {
                try made.login.pings("203.0.113.7", patience: 1)
            }
            guard case .established(let second)? = made.login.events.last else {
                Issue.record("there is no session: \(made.login.events)")
                return
            }
            #expect(second.addresses == first.addresses)
            try await scene.stop()
        }

        /// Beside this test bundle; `CULVERT_GATEWAY` names another build of it.
        private static let program: String = {
            let named = ProcessInfo.processInfo.environment["CULVERT_GATEWAY"] ?? ""
            if !named.isEmpty { return named }
            let bundle = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
            return URL(fileURLWithPath: bundle).deletingLastPathComponent().appendingPathComponent("culvert-gateway")
                .path
        }()

        @Test(
            "A client of a credential server logs in to the gateway that took it over, with the same keys and password")
        func imported() throws {
            let scene = try CredentialServerScene()
            let folder = "\(scene.folder.path)/gateway"
            let server = try Fixtures.copy("credential-server", to: "\(scene.folder.path)/server")
            func command(_ arguments: String...) throws -> CommandResult {
                try runAllowingFailure(
                    ["ip", "netns", "exec", scene.world.host.name, Self.program] + arguments
                        + ["--directory", folder])
            }
            let made = try command(
                "init", CredentialServerScene.address, "--login-tunnel-only", "--backup-key",
                "\(scene.folder.path)/backup.key")
            #expect(made.status == 0, "\(made)")
            let file = URL(fileURLWithPath: "\(folder)/gateway.json")
            var settings = try #require(
                try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any])
            settings["socket"] = "\(scene.folder.path)/admin.sock"
            try JSONSerialization.data(withJSONObject: settings).write(to: file)
            for words in ["new users: 2", "existing users: 2"] {
                let result = try command("import-credential-server", server)
                #expect(result.status == 0 && result.output.contains(words), "\(result)")
            }
            let process = try scene.world.host.start(
                Self.program, "run", "--directory", folder, "--journal", scene.world.folder)
            defer { process.kill() }
            try process.waitForOutput(containing: "login tunnel on UDP port 51840")
            #expect(try command("import-credential-server", server).status == 5)
            let key = try #require(PrivateKey(base64: try Fixtures.line("credential-server/private.key")))
            let shared = try Fixtures.line("credential-server/preshared.key")
            let client = try LoginClient(
                in: scene.outside, "cli0",
                keys: SharedKeys(
                    server: key.publicKey, presharedKey: try #require(PresharedKey(base64: shared))))
            let password = try Fixtures.line("credential-server-admin/anna.password")
            let assignment = try client.logIn("anna", password).get()
            #expect(assignment.addresses.first?.description == "10.66.0.77/32")
            try client.configure(assignment)
            #expect(try client.pings("203.0.113.7"))
            process.signal(SIGTERM)
            let end = try process.wait()
            #expect(end.status == 0, "\(end)")
        }

        @Test(
            "The program serves the login tunnel, with or without WireGuard, with passwords and keys from its commands",
            arguments: [false, true])
        func program(_ isAlone: Bool) throws {
            let scene = try CredentialServerScene()
            let folder = "\(scene.folder.path)/gateway"
            let socket = "\(scene.folder.path)/admin.sock"
            func command(_ arguments: String...) throws -> CommandResult {
                try runAllowingFailure(["ip", "netns", "exec", scene.world.host.name, Self.program] + arguments)
            }
            func initialize(_ options: String...) throws -> CommandResult {
                try runAllowingFailure(
                    [
                        "ip", "netns", "exec", scene.world.host.name, Self.program, "init",
                        CredentialServerScene.address, "--directory", folder, "--backup-key",
                        "\(scene.folder.path)/backup.key", "--address4", "10.66.0.1/24", "--address6", "fd66::1/64",
                    ] + options)
            }
            let made = isAlone ? try initialize("--login-tunnel-only") : try initialize()
            #expect(made.status == 0, "\(made)")
            let file = URL(fileURLWithPath: "\(folder)/gateway.json")
            var settings = try #require(
                try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any])
            settings["loginTunnel"] = ["isEnabled": true]
            settings["socket"] = socket
            try JSONSerialization.data(withJSONObject: settings).write(to: file)
            let process = try scene.world.host.start(
                Self.program, "run", "--directory", folder, "--journal", scene.world.folder)
            defer { process.kill() }
            try process.waitForOutput(containing: "login tunnel on UDP port 51840")
            for key in ["login.key", "login.preshared.key"] {
                #expect(try run(["stat", "-c", "%a", "\(folder)/\(key)"]).output.hasPrefix("600"))
            }
            #expect(try command("user", "add", "ben", "--socket", socket).status == 0)
            let password = try scene.folder.write(Self.password + "\n", to: "password")
            let set = try command("user", "password", "ben", "--password-file", password, "--socket", socket)
            #expect(set.status == 0, "\(set)")
            struct Place: Decodable {
                var server: String
                var serverKey: String
                var presharedKey: String
            }
            let shown = try command("login-tunnel", "--json", "--socket", socket)
            let place = try JSONDecoder().decode(Place.self, from: Data(shown.output.utf8))
            #expect(place.server == "192.0.2.2:51840")
            let client = try LoginClient(
                in: scene.outside, "cli0",
                keys: SharedKeys(
                    server: try #require(PublicKey(base64: place.serverKey)),
                    presharedKey: try #require(PresharedKey(base64: place.presharedKey))))
            try client.configure(client.logIn("ben", Self.password).get())
            #expect(try client.pings("203.0.113.7"))
            for (what, arguments) in [
                ("peer list", ["peer", "list"]), ("audit", ["audit", "--action", "loginAccepted"]),
            ] {
                let result = try runAllowingFailure(
                    ["ip", "netns", "exec", scene.world.host.name, Self.program] + arguments + ["--socket", socket])
                #expect(result.status == 0 && result.output.contains("login"), "\(what): \(result)")
            }
            let metrics = try scene.world.host.run("curl", "-s", "http://127.0.0.1:8080/metrics").output
            #expect(metrics.contains("culvert_gateway_login_sessions 1"), "\(metrics)")
            #expect(metrics.contains("culvert_gateway_peers ") != isAlone, "\(metrics)")
            let ready = try scene.world.host.run("curl", "-sf", "http://127.0.0.1:8080/ready").output
            #expect(ready.contains("ok"), "\(ready)")
            let interfaces = try scene.world.host.run("ip", "-br", "link").output
            #expect(interfaces.contains("culvert-login0") && interfaces.contains("culvert-gw0") != isAlone)
            let ports = try scene.world.host.run("ss", "-Hlun").output
            #expect(ports.contains(":51840") && ports.contains(":51820") != isAlone, "\(ports)")
            let listeners = try scene.world.host.run("ss", "-Hltn").output
            #expect(listeners.contains(":8443") != isAlone, "\(listeners)")
            #expect(try command("user", "set", "ben", "--disable", "--socket", socket).status == 0)
            try eventually("the session is over") { client.events.contains(.ended(.removed)) }
            process.signal(SIGTERM)
            let end = try process.wait()
            #expect(end.status == 0, "\(end)")
            for secret in [Self.password, place.presharedKey] { #expect(!end.output.contains(secret)) }
            #expect(FileManager.default.fileExists(atPath: "\(folder)/gateway.db"))
            #expect(!FileManager.default.fileExists(atPath: "\(folder)/gateway.db-wal"))
        }
    }
#endif
