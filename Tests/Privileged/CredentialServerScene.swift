// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CompatibilityFixtures
    import Foundation
    import NetworkAddresses
    import Synchronization
    import Testing
    import TunnelIO
    import WireGuardCore

    @testable import CredentialTunnel

    /// `culvert-credential-server` in a host's namespace, and clients of it beyond the router.
    final class CredentialServerScene {
        let world: LinuxHostWorld
        /// Where clients are.
        let outside: Namespace
        let folder: TemporaryFolder
        private(set) var process: SpawnedProcess?
        private(set) var serverKey = ""
        private(set) var presharedKey = ""
        static let address = "192.0.2.2"
        static let port = 51_840

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

        /// Beside this test bundle; `CULVERT_CREDENTIAL_SERVER` names another build of it.
        private static let program: String = {
            let named = ProcessInfo.processInfo.environment["CULVERT_CREDENTIAL_SERVER"] ?? ""
            if !named.isEmpty { return named }
            let bundle = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
            return URL(fileURLWithPath: bundle).deletingLastPathComponent()
                .appendingPathComponent("culvert-credential-server").path
        }()

        var directory: String { "\(folder.path)/server" }

        /// A command of the program, in the server's namespace.
        @discardableResult
        func command(_ arguments: String...) throws -> CommandResult {
            try runAllowingFailure(
                ["ip", "netns", "exec", world.host.name, Self.program] + arguments + ["--directory", directory])
        }

        /// Makes the server's folder, with settings that make passwords cheap unless they are given.
        func initialize(_ changes: [String: Any] = ["passwordCost": ["n": 16, "r": 8, "p": 1]]) throws {
            struct Made: Decodable {
                var serverKey: String
                var presharedKey: String
            }
            let result = try command(
                "init", "--endpoint", "\(Self.address):\(Self.port)", "--address6", "fd66::1/64", "--dns", "9.9.9.9",
                "--json")
            guard result.status == 0 else { throw CommandFailure(description: "\(result)") }
            let made = try JSONDecoder().decode(Made.self, from: Data(result.output.utf8))
            (serverKey, presharedKey) = (made.serverKey, made.presharedKey)
            let file = URL(fileURLWithPath: "\(directory)/server.json")
            var settings = try #require(
                try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any])
            settings.merge(changes) { $1 }
            try JSONSerialization.data(withJSONObject: settings).write(to: file)
        }

        /// Uses a folder of the fixtures.
        func useFixture(_ path: String) throws {
            try Fixtures.copy(path, to: directory)
            try addDefaultRoute()
        }

        /// Gives clients a default route, without which `culvert up` waits for a network.
        func addDefaultRoute() throws {
            try outside.run("ip", "route", "add", "default", "via", "198.51.100.1")
        }

        // MARK: - Clients with `culvert`

        /// The folder of the clients' profiles.
        var profiles: String { "\(folder.path)/clients" }

        /// The arguments of `culvert` in the namespace of clients.
        func culvert(_ arguments: [String]) -> [String] {
            [
                "ip", "netns", "exec", outside.name, "env", "CULVERT_RUNTIME_DIRECTORY=\(folder.path)/runtime",
                CulvertUpScene.program,
            ] + arguments
        }

        /// Adds a profile for this server.
        func addProfile(_ name: String, login: String, password: String) throws {
            try PrivilegedTests.run(
                culvert([
                    "profile", "add-login", name, "--server", "\(Self.address):\(Self.port)", "--server-key", serverKey,
                    "--login", login, "--preshared-key-file", "\(directory)/preshared.key", "--password-file",
                    try folder.write(password + "\n", to: "\(name).password"), "--directory", profiles,
                ]))
        }

        /// Starts `culvert up` of a profile, which leaves the machine's name servers alone.
        func startUp(_ profile: String, _ options: [String]) throws -> SpawnedProcess {
            try SpawnedProcess(culvert(["up", profile, "--no-dns", "--directory", profiles] + options))
        }

        // MARK: - The server

        func add(_ login: String, _ password: String, _ more: String...) throws {
            let file = try folder.write(password + "\n", to: "password")
            let result = try runAllowingFailure(
                ["ip", "netns", "exec", world.host.name, Self.program, "user", "add", login, "--password-file", file]
                    + more + ["--directory", directory])
            guard result.status == 0 else { throw CommandFailure(description: "\(result)") }
        }

        func start() throws {
            let process = try world.host.start(
                Self.program, "run", "--directory", directory, "--journal", world.folder)
            self.process = process
            try process.waitForOutput(containing: "serving on UDP port")
        }

        /// What the server has logged since its last start.
        var log: String { process?.outputSoFar ?? "" }

        /// A client of the login tunnel in the namespace of clients.
        func client(_ name: String = "cli0") throws -> LoginClient {
            try LoginClient(
                in: outside, name,
                keys: SharedKeys(
                    server: try #require(PublicKey(base64: serverKey)),
                    presharedKey: try #require(PresharedKey(base64: presharedKey))))
        }

        /// The server's memory, in KiB.
        var memory: Int {
            let text = process.flatMap { DaemonRemains.status("RssAnon", of: $0.processID) } ?? ""
            return text.split(separator: " ").first.flatMap { Int($0) } ?? 0
        }
    }

    /// A client with a real interface, whose addresses and routes are made as the server says.
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
                options.layout = .single
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

        /// A provider logs in again when the server has forgotten it, or has gone.
        private func take(_ event: ClientEvent) {
            seen.withLock { $0.append(event) }
            switch event {
            case .mayBeUnknown, .ended(.shutdown), .failed(.unreachable):
                if let login = login.withLock({ $0 }) { send(login) }
            default: break
            }
        }

        private func send(_ login: Body.ClientAuthRequest) {
            guard let endpoint = try? Endpoint("\(CredentialServerScene.address):\(CredentialServerScene.port)") else {
                return
            }
            device.logIn(CredentialClient.Configuration(keys: keys, login: login), at: [endpoint])
        }

        /// What became of logins and session so far.
        var events: [ClientEvent] { seen.withLock { $0 } }

        /// Logs in and waits for the answer. With an interface it is given what the answer says.
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

        /// Gives the interface its addresses, and routes to what is behind the server.
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
