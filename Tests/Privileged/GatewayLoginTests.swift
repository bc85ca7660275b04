// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Logging
    import NetworkAddresses
    import PacketTunnelTesting
    import PasswordHashing
    import Provisioning
    import Testing
    import TunnelIO
    import TunnelServer
    import WireGuardCore

    @testable import CredentialTunnel
    @testable import Gateway

    @Suite(
        "The login tunnel together with WireGuard in a gateway", .enabled(if: Privileged.isAvailable), .serialized,
        .timeLimit(.minutes(5)))
    struct GatewayLoginTests {
        private let admin = Caller.local(0)
        private static let password = "correct horse battery"

        /// A gateway with both tunnels and its store in a file. Anna has a WireGuard device; ben logs in.
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
                    settings.host = LoginGatewayScene.address
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

            /// Logs in, and configures the client's interface with the assignment.
            @discardableResult
            func logIn() throws -> Body.Assignment {
                let assignment = try login.logIn("ben", password).get()
                try login.configure(assignment)
                return assignment
            }

            /// Whether ben's pings are answered once the change is in effect.
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
            // The device already has the first addresses of the shared pool.
            #expect(assignment.addresses.map(\.description) == ["10.66.0.3/32", "fd66::3/128"])
            for address in ["10.66.0.1", "fd66::1", "203.0.113.7", "2001:db8:7::7"] {
                #expect(try made.pings(address), "\(address)")
            }
            #expect(try made.wireGuard.pings("203.0.113.7", patience: 9))
            #expect(try !made.login.pings("10.55.1.1", patience: 1), "a private network behind the gateway")

            // Anna and ben reach each other only if the rules of both allow it.
            #expect(try !made.login.pings("10.66.0.2", patience: 1))
            _ = try await service.setRules(
                of: .user(made.ben.id), [RuleDraft(AccessRule(.allow, networks: [try IPPrefix("10.66.0.2/32")]))], admin
            )
            _ = try await service.setRules(
                of: .user(made.anna.id),
                [RuleDraft(AccessRule(.allow, direction: .in, networks: [try IPPrefix("10.66.0.3/32")]))], admin)
            #expect(try made.pings("10.66.0.2"))

            // A rule of the user blocks the login like a device, within a second.
            let deny = RuleDraft(AccessRule(.deny, networks: [try IPPrefix("203.0.113.0/24")]))
            let blocked = try await scene.cutOff(scene.ben) {
                _ = try await service.setRules(of: .user(made.ben.id), [deny], admin)
            }
            #expect(blocked < .seconds(1))
            #expect(try !made.login.pings("203.0.113.7", patience: 1))
            #expect(try made.wireGuard.pings("203.0.113.7", patience: 9))
            _ = try await service.setRules(of: .user(made.ben.id), [], admin)
            #expect(try made.pings("203.0.113.7"))

            // Use anna's address inside ben's tunnel.
            try scene.ben.run("ip", "address", "add", "10.66.0.2/32", "dev", "cli0")
            #expect(
                try scene.ben.runAllowingFailure(
                    "ping", "-n", "-q", "-c", "1", "-W", "1", "-I", "10.66.0.2", "203.0.113.7"
                ).status != 0)
            let spoofed = try #require(scene.figures.login?.drops["disallowed source"])
            #expect(spoofed > 0)
            #expect(try made.wireGuard.pings("203.0.113.7", patience: 9))
            print(
                "gateway: a rule of its user cut a login off within \(blocked); \(spoofed) spoofed packets dropped"
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
            // A route that another process deletes is restored.
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

        @Test(
            "The program serves the login tunnel, with or without WireGuard, with passwords and keys from its commands",
            arguments: [false, true])
        func program(_ isAlone: Bool) throws {
            let scene = try LoginGatewayScene()
            try scene.initialize(isAlone: isAlone, loginTunnel: [:])
            let (before, forwarding) = (try scene.world.snapshot(), try forwarding(scene))
            try scene.start()
            for key in ["login.key", "login.preshared.key"] {
                #expect(try run(["stat", "-c", "%a", "\(scene.directory)/\(key)"]).output.hasPrefix("600"))
            }
            try scene.add("ben", Self.password)
            let client = try scene.client()
            let assignment = try client.logIn("ben", Self.password).get()
            #expect(assignment.addresses.map(\.description) == ["10.66.0.2/32", "fd66::2/128"])
            #expect(assignment.dns.map(\.description) == ["9.9.9.9"] && assignment.mtu == 1420)
            try client.configure(assignment)
            for address in ["10.66.0.1", "fd66::1", "203.0.113.7", "2001:db8:7::7"] {
                #expect(try client.pings(address), "\(address)")
            }
            let stranger = try scene.client("cli1")
            for (login, password) in [("ben", "wrong horse battery"), ("nobody", Self.password)] {
                #expect(try stranger.logIn(login, password) == .failure(.refused(Body.Refusal(.credentials))))
            }
            stranger.close()
            for (what, arguments) in [
                ("peer list", ["peer", "list"]), ("audit", ["audit", "--action", "loginAccepted"]),
            ] {
                let result = try scene.ask(arguments)
                #expect(result.status == 0 && result.output.contains("login"), "\(what): \(result)")
            }
            let metrics = try scene.world.host.run(
                "curl", "-s", "--unix-socket", scene.socket, "http://localhost/metrics"
            ).output
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
            #expect(try scene.ask("user", "set", "ben", "--disable").status == 0)
            try eventually("the session is over") { client.events.contains(.ended(.removed)) }
            #expect(try scene.ask("user", "remove", "ben").status == 0)
            #expect(try client.logIn("ben", Self.password) == .failure(.refused(Body.Refusal(.credentials))))
            let log = try scene.stop()
            for secret in [Self.password, "wrong horse", scene.presharedKey] { #expect(!log.contains(secret)) }
            #expect(FileManager.default.fileExists(atPath: "\(scene.directory)/gateway.db"))
            #expect(!FileManager.default.fileExists(atPath: "\(scene.directory)/gateway.db-wal"))
            try scene.world.expectUnchanged(since: before)
            #expect(try self.forwarding(scene) == forwarding)
        }

        private func forwarding(_ scene: LoginGatewayScene) throws -> String {
            try scene.world.host.run(
                "sh", "-c", "cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/*/forwarding"
            ).output
        }
    }
#endif
