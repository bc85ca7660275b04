// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing
import TunnelIO
import WireGuardCore
import WireGuardDevice

@testable import WireGuardTunnel

/// Secrets in memory.
final class MemorySecrets: SecretStore {
    private let secrets: Mutex<[String: SecretBytes]>

    init(_ secrets: [String: SecretBytes]) { self.secrets = Mutex(secrets) }

    func read(_ name: String, of profile: String) async throws(TunnelError) -> SecretBytes {
        guard let secret = secrets.withLock({ $0[name] }) else {
            throw TunnelError(.secretUnavailable, "no secret '\(name)'")
        }
        return secret
    }

    func write(_ secret: SecretBytes, _ name: String, of profile: String) async throws(TunnelError) {
        secrets.withLock { $0[name] = secret }
    }

    func remove(_ name: String, of profile: String) async throws(TunnelError) {
        _ = secrets.withLock { $0.removeValue(forKey: name) }
    }

    func removeAll(of profile: String) async throws(TunnelError) { secrets.withLock { $0 = [:] } }

    func names(of profile: String) async throws(TunnelError) -> [String] { secrets.withLock { $0.keys.sorted() } }
}

/// A server: a WireGuard device on an internet in memory, with a network behind it that answers ping and UDP.
final class TestServer: Sendable {
    static let port: UInt16 = 51_820

    let network: MemoryDatagramNetwork
    let behind = VirtualNetwork()
    private let device: Mutex<WireGuardDevice>
    private let key: PrivateKey
    private let client: PublicKey

    init(on internet: MemoryInternet, at addresses: [IPAddress], key: PrivateKey, client: PublicKey) throws {
        network = internet.attach(addresses)
        (self.key, self.client) = (key, client)
        device = Mutex(try Self.makeDevice(network, behind, key, client))
    }

    deinit { close() }

    private static func makeDevice(
        _ network: MemoryDatagramNetwork, _ behind: VirtualNetwork, _ key: PrivateKey, _ client: PublicKey
    ) throws -> WireGuardDevice {
        let tun = try behind.makeTun(name: "server")
        let device = try WireGuardDevice(tun: tun, network: network)
        var update = UAPIDeviceUpdate()
        update.privateKey = .set(key)
        update.listenPort = port
        var peer = UAPIPeerUpdate(publicKey: client)
        peer.allowedIPs = try ["10.0.0.2/32", "fd00::2/128"].map { .add(try IPPrefix($0)) }
        update.peers = [peer]
        try device.apply(update)
        try device.start()
        return device
    }

    /// The client's endpoint as the server sees it.
    var clientEndpoint: Endpoint? { device.withLock { $0.peer(client)?.endpoint } }

    var publicKey: PublicKey { key.publicKey }

    /// Discards all sessions, like a restarted server.
    func restart() throws {
        close()
        let fresh = try Self.makeDevice(network, behind, key, client)
        device.withLock { $0 = fresh }
    }

    func close() { device.withLock { $0 }.close() }
}

/// A provider in a memory host, and its server.
final class TunnelScene: Sendable {
    static let serverAddress = IPAddress.v4(0xc633_6401)  // 198.51.100.1
    static let clientAddress = IPAddress.v4(0xc000_020a)  // 192.0.2.10
    static let inner = IPAddress.v4(10, 0, 0, 2)
    static let target = IPAddress.v4(203, 0, 113, 7)
    static let wifi = NetworkPath(interfaces: [.init(name: "en0", kind: .wifi, index: 1)], supportsIPv6: false)
    static let cellular = NetworkPath(interfaces: [.init(name: "pdp0", kind: .cellular, index: 2)], supportsIPv6: false)

    let internet = MemoryInternet()
    let network: MemoryDatagramNetwork
    let resolver: ScriptedResolver
    let server: TestServer
    let host: MemoryHost<WireGuardTunnelProvider>
    let configuration: WireGuardTunnelConfiguration
    let environment: WireGuardEnvironment
    let secrets: MemorySecrets
    /// Notifies of status changes, of questions to the resolver, of packets from the tunnel, and of each check of the
    /// provider.
    let changes = Changes()

    init(
        endpoint: EndpointAddress? = "vpn.example:51820", path: NetworkPath = TunnelScene.wifi,
        clientAddresses: [IPAddress] = [TunnelScene.clientAddress],
        failing: FailingNetwork? = nil,
        _ adjust: (inout WireGuardTunnelConfiguration) -> Void = { _ in }
    ) throws {
        var random = SeededGenerator(seed: 7)
        let (key, serverKey) = (PrivateKey(using: &random), PrivateKey(using: &random))
        server = try TestServer(on: internet, at: [Self.serverAddress], key: serverKey, client: key.publicKey)
        self.network = internet.attach(clientAddresses)
        resolver = ScriptedResolver(["vpn.example": [.v4(198, 51, 100, 1)]], changes: changes)
        var environment = WireGuardEnvironment()
        environment.network = failing?.wrap(self.network) ?? self.network
        environment.resolver = resolver
        let secret = key.secret.withSpan { span in SecretBytes(span.indices.map { span[$0] }) }
        let used = environment
        self.environment = environment
        secrets = MemorySecrets(["private-key": secret])
        host = MemoryHost(
            path: path, secrets: secrets, clock: ToldClock(changes: changes)
        ) {
            WireGuardTunnelProvider(environment: used)
        }
        host.platform.setDeliveryHandler { [changes] in changes.notify() }
        changes.follow(host.statusUpdates())
        var configuration = WireGuardTunnelConfiguration(
            addresses: [InterfaceAddress(host: Self.inner)],
            peers: [
                .init(
                    publicKey: serverKey.publicKey, allowedIPs: [.allIPv4, .allIPv6], endpoint: endpoint)
            ],
            connectivity: .patient)
        adjust(&configuration)
        self.configuration = configuration
    }

    func start(leakPolicy: LeakPolicy = .routeBased) async throws {
        try await host.runner.start(configuration, leakPolicy: leakPolicy, profileID: "test")
    }

    func stop() async {
        await host.stop(.userInitiated)
        server.close()
    }

    /// Whether a ping through the tunnel is answered.
    func passes(_ sequence: UInt16 = 1) async -> Bool {
        let request = PacketBuilder.icmpEcho(
            from: Self.inner, to: Self.target, identifier: 99, sequence: sequence,
            payload: [1, 2, 3])
        let reply = VirtualNetwork().receive(request)
        // The ping may be lost, so it is repeated, as programs do.
        for _ in 0..<600 {
            host.platform.inject(request)
            let isThere = await changes.wait(within: .milliseconds(100)) {
                host.platform.takeDelivered().contains { $0 == reply }
            }
            if isThere { return true }
        }
        return false
    }

    func reaches(_ status: TunnelStatus) async -> Bool { await changes.wait { host.status.status == status } }

    /// The provider's answer to a status request.
    func status() async throws -> StatusRequest.Reply {
        try await send(StatusRequest())
    }

    func send<Message: TunnelMessage>(_ message: Message) async throws -> Message.Reply {
        try await MessageClient(channel: host, timeout: .seconds(60)).send(message)
    }
}

extension ConnectivityOptions {
    /// Constants under which no monitor event occurs during a test, even on a slow machine.
    static let patient = ConnectivityOptions(
        connectivityInterval: 2, maxConnectionAttempts: 10, pingAddress: "203.0.113.1", pingInterval: 0.05)

    /// Constants that let a test see all phases within a second.
    static let fast = ConnectivityOptions(
        connectivityInterval: 0.1, maxConnectionAttempts: 2, pingAddress: "203.0.113.1", pingInterval: 0.05,
        healingInterval: 0.1)
}

/// The continuous clock, with a notification when a task sleeps on it: by then the provider has checked its peers.
struct ToldClock: Clock {
    let changes: Changes

    var now: ContinuousClock.Instant { ContinuousClock.now }
    var minimumResolution: Duration { ContinuousClock().minimumResolution }

    func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
        changes.notify()
        try await ContinuousClock().sleep(until: deadline, tolerance: tolerance)
    }
}
