// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Logging
    import NetworkAddresses
    import Provisioning
    import Synchronization
    import Testing
    import TunnelIO
    import WireGuardCore
    import WireGuardDevice

    @testable import Gateway
    @testable import TunnelServer

    /// The part of a gateway's service that its tunnel needs, scripted by a test.
    final class ScriptedPeers: PeerSource {
        let settings: GatewaySettings

        fileprivate struct State {
            var peers: [DeviceID: Peer] = [:]
            var changed: [DeviceID: Int64] = [:]
            var keysChanged: Int64 = 0
            var sequence: Int64 = 0
            var keys: ServerKeys
            var expiries: [DeviceID: ContinuousClock.Instant] = [:]
            var activity: [DeviceID: DeviceActivity] = [:]
            var listeners: [AsyncStream<Void>.Continuation] = []
            var generator = SystemRandomNumberGenerator()
        }

        fileprivate let state: Mutex<State>

        init(_ settings: GatewaySettings) {
            self.settings = settings
            var generator = SystemRandomNumberGenerator()
            state = Mutex(State(keys: ServerKeys(current: PrivateKey(using: &generator))))
        }

        func isKnownLogin(_ login: String, from source: IPAddress) -> Bool { false }

        // MARK: - Script

        /// Adds or replaces the peer of a device.
        @discardableResult
        func set(
            _ id: DeviceID? = nil, key: PublicKey?, presharedKey: PresharedKey? = nil, addresses: [String],
            subnets: [String] = [], rules: [AccessRule] = []
        ) throws -> DeviceID {
            let sources = try (addresses + subnets).map { try IPPrefix($0) }
            return change { state in
                let id = id ?? DeviceID(using: &state.generator)
                state.peers[id] = Peer(
                    deviceID: id, publicKey: key, presharedKey: presharedKey, sources: sources, rules: rules)
                state.changed[id] = state.sequence
                return id
            }
        }

        func setRules(_ id: DeviceID, _ rules: [AccessRule]) {
            change { state in
                state.peers[id]?.rules = rules
                state.changed[id] = state.sequence
            }
        }

        func remove(_ id: DeviceID) {
            change { state in
                state.peers[id] = nil
                state.changed[id] = state.sequence
            }
        }

        /// Makes a device expire at that time.
        func expire(_ id: DeviceID, at end: ContinuousClock.Instant) {
            state.withLock { $0.expiries[id] = end }
        }

        func use(_ key: PrivateKey) {
            change { state in
                state.keys = ServerKeys(current: key)
                state.keysChanged = state.sequence
            }
        }

        /// The recorded activity of a device.
        func activity(_ id: DeviceID) -> DeviceActivity? { state.withLock { $0.activity[id] } }

        @discardableResult
        private func change<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
            let (result, listeners) = state.withLock { state in
                state.sequence += 1
                return (body(&state), state.listeners)
            }
            for listener in listeners { listener.yield() }
            return result
        }

        // MARK: - PeerSource

        var serverKeys: ServerKeys { state.withLock { $0.keys } }

        func peers(after sequence: Int64?, _: Caller) async throws(GatewayError) -> Feed<Peer> {
            state.withLock { state in
                guard let sequence else {
                    return Feed(
                        sequence: state.sequence, isComplete: true, changed: Array(state.peers.values),
                        serverKeysChanged: true)
                }
                let ids = state.changed.filter { $0.value > sequence }.keys
                return Feed(
                    sequence: state.sequence, changed: ids.compactMap { state.peers[$0] },
                    removed: ids.filter { state.peers[$0] == nil }, serverKeysChanged: state.keysChanged > sequence)
            }
        }

        func logIn(_: LoginRequest, _: Caller) async throws(GatewayError) -> LoginJudgement { .refused(.wrong) }

        func changeSignals() -> AsyncStream<Void> {
            let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
            state.withLock { $0.listeners.append(continuation) }
            continuation.yield()
            return stream
        }

        func record(_ activity: [DeviceActivity], _: Caller) async throws(GatewayError) {
            state.withLock { state in
                for new in activity {
                    guard var old = state.activity[new.deviceID] else {
                        state.activity[new.deviceID] = new
                        continue
                    }
                    old.traffic.received += new.traffic.received
                    old.traffic.sent += new.traffic.sent
                    old.lastSeenAt = new.lastSeenAt ?? old.lastSeenAt
                    old.endpoint = new.endpoint ?? old.endpoint
                    state.activity[new.deviceID] = old
                }
            }
        }

        func sweep(busy _: [DeviceID], _: Caller) async throws(GatewayError) {
            let now = ContinuousClock.now
            let ended = state.withLock { state in
                let ended = state.expiries.filter { $0.value <= now }.map(\.key)
                for id in ended { state.expiries[id] = nil }
                return ended
            }
            for id in ended {
                change { state in
                    state.peers[id]?.publicKey = nil
                    state.changed[id] = state.sequence
                }
            }
        }
    }

    /// Sockets in a namespace that any thread can open.
    struct NamespaceDatagrams: DatagramNetwork {
        let namespace: Namespace

        func bind(_ binding: DatagramBinding, count: Int) throws(TunnelIOError) -> [DatagramSockets] {
            try inside { () throws(TunnelIOError) in try SystemDatagramNetwork().bind(binding, count: count) }
        }

        private func inside<Result>(_ body: () throws(TunnelIOError) -> Result) throws(TunnelIOError) -> Result {
            do { return try namespace.perform(body) } catch let error as TunnelIOError { throw error } catch {
                throw TunnelIOError(.bind(port: 0, operation: "enter the namespace"), errno: ENOENT)
            }
        }
    }

    /// A gateway's tunnel in a host's namespace. The router connects it with the internet and with the clients.
    final class GatewayTunnelScene {
        let world: LinuxHostWorld
        let anna: Namespace
        let ben: Namespace
        let source: ScriptedPeers
        private(set) var runtime: GatewayRuntime?
        private var running: Task<Void, any Error>?
        static let endpoint = "192.0.2.2:51820"

        init(_ change: (inout GatewaySettings) throws -> Void = { _ in }) throws {
            world = try LinuxHostWorld()
            (anna, ben) = (try Namespace(), try Namespace())
            var settings = GatewaySettings()
            settings.interface = "gw0"
            settings.addresses = [try InterfaceAddress("10.66.0.1/16"), try InterfaceAddress("fd66::1/64")]
            settings.mtu = 1400
            settings.services = ["tcp/8080"]
            try change(&settings)
            source = ScriptedPeers(settings)
            try world.router.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
            for (name, namespace, third) in [("anna", anna, 100), ("ben", ben, 101)] {
                try world.router.run(
                    "ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", namespace.name)
                for (end, link, last) in [(world.router, name, 1), (namespace, "eth0", 2)] {
                    try end.run("ip", "address", "add", "198.51.\(third).\(last)/24", "dev", link)
                    try end.run("ip", "link", "set", link, "up")
                }
                try namespace.run("ip", "route", "add", "192.0.2.0/24", "via", "198.51.\(third).1")
            }
        }

        /// Starts the gateway's tunnel, in this process and the host's namespace.
        /// - Parameters:
        ///   - service: The source of the peers; `nil` for the test's script.
        ///   - loginKeys: The keys of the login tunnel; `nil` for no login tunnel.
        func start(_ service: (any PeerSource)? = nil, loginKeys: LoginTunnelKeys? = nil) async throws {
            var settings = source.settings.serverNetwork
            settings.journalFolder = world.folder
            let (wanted, logger) = (settings, Logger(label: "gateway"))
            let network = try world.host.perform { try ServerNetwork(wanted, logger: logger) }
            var options = GatewayRuntime.Options()
            options.sweepInterval = .milliseconds(200)
            let runtime = GatewayRuntime(
                service: service ?? source, network: network, datagrams: NamespaceDatagrams(namespace: world.host),
                loginKeys: loginKeys, options: options, logger: logger)
            try await runtime.start()
            self.runtime = runtime
            running = Task { try await runtime.run() }
        }

        /// Ends the tunnel as a signal would.
        func stop() async throws {
            running?.cancel()
            try await running?.value
            running = nil
            runtime = nil
        }

        /// Returns the time for which packets still pass between a client and the internet after `body`, in both
        /// directions.
        func cutOff(_ client: Namespace, _ body: () async throws -> Void) async throws -> Duration {
            let server = try TestSocket.datagrams(in: world.router, at: "203.0.113.7", port: 7100)
            let socket = try TestSocket.datagrams(in: client, at: "0.0.0.0")
            let there = try SocketAddress("203.0.113.7", 7100)
            // The gateway no longer has the earlier session. Datagrams in it are lost until there is a new session.
            var first: SocketAddress?
            try eventually("a packet passes", within: .seconds(30)) {
                socket.send([1], to: there)
                first = server.receive(within: .milliseconds(200))?.source
                return first != nil
            }
            let back = try #require(first)
            try await body()
            let began = ContinuousClock.now
            var last = Duration.zero
            while true {
                let elapsed = ContinuousClock.now - began
                guard elapsed - last < .milliseconds(1500), elapsed < .seconds(10) else { return last }
                socket.send([3], to: there)
                server.send([4], to: back)
                for one in Poll.readable([socket.descriptor, server.descriptor], before: .now + .milliseconds(2)) {
                    let end = one == socket.descriptor ? socket : server
                    if end.receive(within: .zero) != nil { last = ContinuousClock.now - began }
                }
            }
        }

        var figures: RuntimeFigures { runtime?.figures ?? RuntimeFigures() }

        /// Waits until the source's state is in effect.
        func settled() throws {
            let wanted = source.sequence
            try eventually("the gateway is up to date", pollEvery: .milliseconds(2)) {
                figures.isCurrent && figures.sequence >= wanted
            }
        }
    }

    extension ScriptedPeers {
        /// The number of the last change.
        var sequence: Int64 { state.withLock { $0.sequence } }
    }

    /// A client with a real interface that sends all of its traffic through the tunnel.
    final class GatewayClient {
        let namespace: Namespace
        let key: PrivateKey
        let presharedKey: PresharedKey?
        let device: WireGuardDevice
        private let tun: LinuxTun

        /// - Parameter key: The client's key; `nil` for a new one.
        init(
            in namespace: Namespace, key given: PrivateKey? = nil, addresses: [String],
            presharedKey: PresharedKey? = nil
        ) throws {
            self.namespace = namespace
            self.presharedKey = presharedKey
            var generator = SystemRandomNumberGenerator()
            let key = given ?? PrivateKey(using: &generator)
            self.key = key
            (tun, device) = try namespace.perform {
                let tun = try LinuxTun(name: "tun0", mtu: 1400)
                try tun.setUp(true)
                var options = WireGuardDevice.Options()
                options.layout = .single
                let device = try WireGuardDevice(tun: tun, network: SystemDatagramNetwork(), options: options)
                try device.setPrivateKey(key)
                try device.start()
                return (tun, device)
            }
            for address in addresses {
                let isIPv6 = address.contains(":")
                var command = ["ip", "address", "add", address + (isIPv6 ? "/128" : "/32"), "dev", "tun0"]
                if isIPv6 { command.append("nodad") }
                try PrivilegedTests.run(["ip", "netns", "exec", namespace.name] + command)
            }
            try namespace.run("ip", "route", "add", "default", "dev", "tun0")
            try namespace.run("ip", "-6", "route", "add", "default", "dev", "tun0")
        }

        deinit { device.close() }

        /// Makes a gateway's key the only peer.
        func use(_ gateway: PublicKey) throws {
            var update = UAPIDeviceUpdate()
            update.replacePeers = true
            var peer = UAPIPeerUpdate(publicKey: gateway)
            peer.presharedKey = presharedKey.map { .set($0) } ?? .clear
            peer.endpoint = try Endpoint(GatewayTunnelScene.endpoint)
            peer.allowedIPs = [.add(.allIPv4), .add(.allIPv6)]
            update.peers = [peer]
            try device.apply(update)
        }

        /// Whether pings are answered. Repeats them for some seconds, because datagrams in a session that the gateway
        /// no longer has are lost.
        func pings(_ address: String, source: String? = nil, patience: Int = 1) throws -> Bool {
            for _ in 0..<patience {
                let result = try runAllowingFailure(
                    ["ip", "netns", "exec", namespace.name, "ping", "-n", "-q", "-c", "1", "-W", "1"]
                        + (source.map { ["-I", $0] } ?? []) + [address])
                if result.status == 0 { return true }
            }
            return false
        }
    }
#endif
