// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Synchronization
    import Testing
    import TunnelIO
    import WireGuardCore

    @testable import CredentialTunnel

    /// A gateway that serves the login tunnel, as a program in a host's namespace, with clients beyond the router.
    final class LoginGatewayScene {
        let world: LinuxHostWorld
        /// The namespace of clients.
        let outside: Namespace
        let folder: TemporaryFolder
        private(set) var process: SpawnedProcess?
        private(set) var serverKey = ""
        private(set) var presharedKey = ""
        static let address = "192.0.2.2"
        static let port = 51_840
        /// Members of `loginTunnel` in the settings.
        static var cheapPasswords: [String: Any] { ["passwordCost": ["n": 16, "r": 8, "p": 1]] }

        init() throws {
            world = try LinuxHostWorld()
            outside = try Namespace()
            folder = try TemporaryFolder()
            try world.router.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
            try world.router.run(
                "ip", "link", "add", "eth1", "type", "veth", "peer", "name", "eth0", "netns", outside.name)
            for (namespace, link, last) in [(world.router, "eth1", 1), (outside, "eth0", 2)] {
                try namespace.run("ip", "address", "add", "198.51.100.\(last)/24", "dev", link)
                try namespace.run("ip", "link", "set", link, "up")
            }
            try outside.run("ip", "route", "add", "192.0.2.0/24", "via", "198.51.100.1")
        }

        deinit { process?.kill() }

        /// The program in the folder of this test bundle; `CULVERT_GATEWAY` selects another one.
        private static let program: String = {
            let named = ProcessInfo.processInfo.environment["CULVERT_GATEWAY"] ?? ""
            if !named.isEmpty { return named }
            let bundle = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
            return URL(fileURLWithPath: bundle).deletingLastPathComponent().appendingPathComponent("culvert-gateway")
                .path
        }()

        var directory: String { "\(folder.path)/gateway" }
        var socket: String { "\(folder.path)/admin.sock" }

        private func execute(_ arguments: [String]) throws -> CommandResult {
            try runAllowingFailure(["ip", "netns", "exec", world.host.name, Self.program] + arguments)
        }

        /// Runs a command on the gateway's folder.
        func command(_ arguments: String...) throws -> CommandResult {
            try execute(arguments + ["--directory", directory])
        }

        /// Runs a command that sends a request to the running gateway.
        func ask(_ arguments: String...) throws -> CommandResult { try ask(arguments) }

        func ask(_ arguments: [String]) throws -> CommandResult { try execute(arguments + ["--socket", socket]) }

        /// Makes the gateway's folder.
        /// - Parameters:
        ///   - isAlone: Whether the gateway serves no WireGuard.
        ///   - changes: Members of the settings.
        ///   - loginTunnel: Members of `loginTunnel` in the settings.
        func initialize(
            isAlone: Bool = true, _ changes: [String: Any] = [:],
            loginTunnel: [String: Any] = LoginGatewayScene.cheapPasswords
        ) throws {
            let made = try execute(
                [
                    "init", Self.address, "--directory", directory, "--backup-key", "\(folder.path)/backup.key",
                    "--address4", "10.66.0.1/24", "--address6", "fd66::1/64", "--dns", "9.9.9.9",
                ] + (isAlone ? ["--login-tunnel-only"] : []))
            guard made.status == 0 else { throw CommandFailure(description: "\(made)") }
            let file = URL(fileURLWithPath: "\(directory)/gateway.json")
            var settings = try #require(
                try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any])
            var login = settings["loginTunnel"] as? [String: Any] ?? [:]
            login["isEnabled"] = true
            settings["loginTunnel"] = login.merging(loginTunnel) { $1 }
            settings["socket"] = socket
            try JSONSerialization.data(withJSONObject: settings.merging(changes) { $1 }).write(to: file)
        }

        // MARK: - The gateway

        func start() throws {
            let process = try world.host.start(
                Self.program, "run", "--directory", directory, "--journal", world.folder)
            self.process = process
            try process.waitForOutput(containing: "login tunnel on UDP port \(Self.port)")
            struct Place: Decodable {
                var server: String
                var serverKey: String
                var presharedKey: String
            }
            let shown = try ask("login-tunnel", "--json")
            guard shown.status == 0 else { throw CommandFailure(description: "\(shown)") }
            let place = try JSONDecoder().decode(Place.self, from: Data(shown.output.utf8))
            #expect(place.server == "\(Self.address):\(Self.port)")
            (serverKey, presharedKey) = (place.serverKey, place.presharedKey)
        }

        /// Starts the gateway's API without the tunnel.
        func startWithoutTunnel() throws {
            let process = try world.host.start(Self.program, "run", "--directory", directory, "--no-tun")
            self.process = process
            try process.waitForOutput(containing: "serving \(Self.address)")
        }

        /// Ends the gateway as systemd does.
        /// - Returns: The log since its last start.
        @discardableResult
        func stop() throws -> String {
            let process = try #require(process)
            process.signal(SIGTERM)
            let end = try process.wait()
            #expect(end.status == 0, "\(end)")
            return end.output
        }

        /// Adds a user with a password.
        func add(_ login: String, _ password: String, _ options: String...) throws {
            let file = try folder.write(password + "\n", to: "password")
            for arguments in [
                ["user", "add", login] + options, ["user", "password", login, "--password-file", file],
            ] {
                let result = try ask(arguments)
                guard result.status == 0 else { throw CommandFailure(description: "\(result)") }
            }
        }

        /// The log since the gateway's last start.
        var log: String { process?.outputSoFar ?? "" }

        /// A client of the login tunnel in the namespace of clients.
        func client(_ name: String = "cli0") throws -> LoginClient {
            try LoginClient(
                in: outside, name,
                keys: SharedKeys(
                    server: try #require(PublicKey(base64: serverKey)),
                    presharedKey: try #require(PresharedKey(base64: presharedKey))))
        }

        /// The gateway's memory, in KiB.
        var memory: Int {
            let text = process.flatMap { DaemonRemains.status("RssAnon", of: $0.processID) } ?? ""
            return text.split(separator: " ").first.flatMap { Int($0) } ?? 0
        }

        // MARK: - Clients with `culvert`

        /// Gives clients a default route, without which `culvert up` waits for a network.
        func addDefaultRoute() throws {
            try outside.run("ip", "route", "add", "default", "via", "198.51.100.1")
        }

        /// The folder of the clients' profiles.
        var profiles: String { "\(folder.path)/clients" }

        /// The arguments of `culvert` in the namespace of clients.
        func culvert(_ arguments: [String]) -> [String] {
            [
                "ip", "netns", "exec", outside.name, "env", "CULVERT_RUNTIME_DIRECTORY=\(folder.path)/runtime",
                CulvertUpScene.program,
            ] + arguments
        }

        /// Adds a profile for the running gateway.
        func addProfile(_ name: String, login: String, password: String) throws {
            try PrivilegedTests.run(
                culvert([
                    "profile", "add-login", name, "--server", "\(Self.address):\(Self.port)", "--server-key", serverKey,
                    "--login", login, "--preshared-key-file", "\(directory)/login.preshared.key", "--password-file",
                    try folder.write(password + "\n", to: "\(name).password"), "--directory", profiles,
                ]))
        }

        /// Starts `culvert up` for a profile, without changing the machine's name servers.
        func startUp(_ profile: String, _ options: [String]) throws -> SpawnedProcess {
            try SpawnedProcess(culvert(["up", profile, "--no-dns", "--directory", profiles] + options))
        }
    }

    /// A client with a real interface, whose addresses and routes are those that the server assigns.
    final class LoginClient: Sendable {
        let namespace: Namespace
        let device: CredentialClientDevice
        private let tun: LinuxTun
        private let name: String
        private let keys: SharedKeys
        private let seen = Mutex<[ClientEvent]>([])
        private let login = Mutex<Body.ClientAuthRequest?>(nil)
        private let reader = Mutex<Task<Void, Never>?>(nil)

        init(in namespace: Namespace, _ name: String, keys: SharedKeys) throws {
            self.namespace = namespace
            self.name = name
            self.keys = keys
            (device, tun) = try namespace.perform {
                var options = CredentialClientDevice.Options()
                options.dataPath.layout = .single
                return (
                    try CredentialClientDevice(network: SystemDatagramNetwork(), options: options),
                    try LinuxTun(name: name, mtu: 1420)
                )
            }
            try device.attach(tun)
            let events = device.events
            let task = Task { [weak self] in
                for await event in events { self?.take(event) }
            }
            reader.withLock { $0 = task }
        }

        deinit { close() }

        /// Handles an event. Like a provider, it logs in again if the server has ended or no longer has the session.
        private func take(_ event: ClientEvent) {
            seen.withLock { $0.append(event) }
            switch event {
            case .mayBeUnknown, .ended(.shutdown), .failed(.unreachable):
                if let login = login.withLock({ $0 }) { send(login) }
            default: break
            }
        }

        private func send(_ login: Body.ClientAuthRequest) {
            guard let endpoint = try? Endpoint("\(LoginGatewayScene.address):\(LoginGatewayScene.port)") else {
                return
            }
            device.logIn(CredentialClient.Configuration(keys: keys, login: login), at: [endpoint])
        }

        /// The events of logins and session so far.
        var events: [ClientEvent] { seen.withLock { $0 } }

        /// Logs in and waits for the answer. If there is an interface, it is configured with the assignment.
        @discardableResult
        func logIn(_ name: String, _ password: String) throws -> Result<Body.Assignment, CredentialError> {
            let before = events.count
            let request = Body.ClientAuthRequest(login: name, password: password)
            login.withLock { $0 = request }
            send(request)
            var result: Result<Body.Assignment, CredentialError>?
            try eventually("an answer to the login of \(name)", pollEvery: .milliseconds(1)) {
                for event in events.dropFirst(before) {
                    if case .established(let assignment) = event { result = .success(assignment) }
                    if case .failed(let error) = event { result = .failure(error) }
                }
                return result != nil
            }
            guard let result else { throw CommandFailure(description: "no answer") }
            if case .failure = result { login.withLock { $0 = nil } }
            return result
        }

        /// Sets the interface's addresses, and adds routes to the networks behind the server.
        func configure(_ assignment: Body.Assignment) throws {
            try namespace.run("ip", "address", "flush", "dev", name)
            try namespace.run("ip", "link", "set", name, "up")
            for address in assignment.addresses {
                try namespace.run("ip", "address", "add", address.description, "dev", name)
            }
            for network in ["203.0.113.0/24", "10.66.0.0/24", "10.55.0.0/16", "2001:db8:7::/64", "fd66::/64"] {
                try namespace.run("ip", "route", "replace", network, "dev", name)
            }
        }

        func pings(_ address: String, count: Int = 1, patience: Int = 5) throws -> Bool {
            try namespace.runAllowingFailure(
                "ping", "-n", "-q", "-c", "\(count)", "-i", "0.05", "-W", "\(patience)", "-I", name, address
            ).status == 0
        }

        func close() {
            login.withLock { $0 = nil }
            device.close()
            tun.close()
            reader.withLock { $0 }?.cancel()
        }
    }
#endif
