// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import Logging
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing
import TunnelIO
import WireGuardCore

@testable import WireGuardTunnel

/// A simulated WireGuard in virtual time: its server answers handshakes and pings while it can be reached.
final class VirtualPlane: DataPlane {
    struct State {
        var isReachable = true
        /// Peers that do not answer, although other peers do.
        var silent: Set<PublicKey> = []
        var peers: [DataPlanePeer] = []
        var handshakeAt: [PublicKey: Duration] = [:]
        var keepalives: [PublicKey: UInt16] = [:]
        var listenPort: UInt16 = 1
        var fwMark: UInt32?
        /// The number of times that the private key was set.
        var privateKeys = 0
        var filter: (@Sendable ([UInt8]) -> Bool)?
        var pings = 0
        var rebinds = 0
        var handshakes = 0
        var handshakesWith: [PublicKey: Int] = [:]
        var awaiting: (@Sendable () -> Void)?
        var hasDelivered = false
        var isClosed = false
    }

    private let clock: VirtualClock
    private let network = VirtualNetwork()
    let state = Mutex(State())

    /// A plane with a clock, whose `changes` also notify of the provider's calls here.
    init(clock: VirtualClock) { self.clock = clock }

    private var now: Duration { clock.now.offset }

    func setSilent(_ key: PublicKey, _ isSilent: Bool) {
        state.withLock { state in
            if isSilent { state.silent.insert(key) } else { state.silent.remove(key) }
        }
    }

    /// Sends data to a peer, which answers if it can.
    func exchange(with key: PublicKey) {
        let report = state.withLock { state -> (@Sendable () -> Void)? in
            guard let index = state.peers.firstIndex(where: { $0.publicKey == key }) else { return nil }
            defer { state.awaiting = nil }
            state.peers[index].sentBytes += 128
            guard state.isReachable, !state.silent.contains(key) else { return state.awaiting }
            state.peers[index].receivedBytes += 128
            state.hasDelivered = true
            return state.awaiting
        }
        report?()
    }

    /// Moves the first peer to another address, as the device does after an authenticated datagram without a packet.
    func roam(to address: IPAddress) {
        let report = state.withLock { state -> (@Sendable () -> Void)? in
            defer { state.awaiting = nil }
            state.peers[0].endpoint = Endpoint(address: address, port: 51_820)
            return state.awaiting
        }
        report?()
    }

    func onNextPacket(_ handler: (@Sendable () -> Void)?) { state.withLock { $0.awaiting = handler } }

    func setReachable(_ isReachable: Bool) { state.withLock { $0.isReachable = isReachable } }

    func peers() -> [DataPlanePeer] {
        let now = now
        return state.withLock { state in
            state.peers.map { peer in
                var peer = peer
                peer.handshakeAge = state.handshakeAt[peer.publicKey].map { now - $0 }
                peer.persistentKeepalive = state.keepalives[peer.publicKey] ?? 0
                return peer
            }
        }
    }

    func apply(_ update: UAPIDeviceUpdate) throws(TunnelError) {
        defer { clock.changes.notify() }
        state.withLock { state in
            if case .set = update.privateKey { state.privateKeys += 1 }
            if let port = update.listenPort, port != 0 { state.listenPort = port }
            state.fwMark = update.fwMark ?? state.fwMark
            if update.replacePeers { state.peers = [] }
            for change in update.peers {
                state.keepalives[change.publicKey] = change.persistentKeepalive ?? state.keepalives[change.publicKey]
                if let index = state.peers.firstIndex(where: { $0.publicKey == change.publicKey }) {
                    state.peers[index].endpoint = change.endpoint ?? state.peers[index].endpoint
                    if change.remove { state.peers.remove(at: index) }
                } else if !change.updateOnly, !change.remove {
                    state.peers.append(DataPlanePeer(publicKey: change.publicKey, endpoint: change.endpoint))
                }
            }
        }
    }

    func rebind() throws(TunnelError) {
        state.withLock { $0.rebinds += 1 }
        clock.changes.notify()
    }

    func requestHandshake(with key: PublicKey) {
        let now = now
        defer { clock.changes.notify() }
        state.withLock { state in
            state.handshakes += 1
            state.handshakesWith[key, default: 0] += 1
            guard let index = state.peers.firstIndex(where: { $0.publicKey == key }) else { return }
            state.peers[index].sentBytes += 148
            guard state.isReachable, !state.silent.contains(key) else { return }
            state.handshakeAt[key] = now
            state.peers[index].receivedBytes += 92
        }
    }

    func submit(_ packet: [UInt8], to destination: IPAddress) -> Bool {
        let (answer, filter) = state.withLock { state -> ([UInt8]?, (@Sendable ([UInt8]) -> Bool)?) in
            state.pings += 1
            guard state.isReachable, !state.peers.isEmpty else { return (nil, nil) }
            state.peers[0].sentBytes += UInt64(packet.count)
            let answer = network.receive(packet)
            state.peers[0].receivedBytes += UInt64(answer?.count ?? 0)
            if answer != nil { state.hasDelivered = true }
            return (answer, state.filter)
        }
        if let answer { _ = filter?(answer) }
        return true
    }

    var hasDelivered: Bool { state.withLock { $0.hasDelivered } }

    func forgetPackets() { state.withLock { $0.hasDelivered = false } }

    func setFilter(_ filter: (@Sendable ([UInt8]) -> Bool)?) { state.withLock { $0.filter = filter } }
    func drops() -> [String: UInt64] { [:] }
    var listenPort: UInt16? { state.withLock { $0.listenPort } }
    var publicKey: PublicKey? { nil }
    func close() async { state.withLock { $0.isClosed = true } }
}

/// A provider on a ``VirtualPlane``, with a clock that a test moves.
final class VirtualScene: Sendable {
    let clock = VirtualClock()
    let plane: VirtualPlane
    let host: MemoryHost<WireGuardTunnelProvider>
    let configuration: WireGuardTunnelConfiguration
    let resolver: ScriptedResolver
    /// The changes of the clock, the status, the plane and the resolver.
    var changes: Changes { clock.changes }

    init(_ adjust: (inout WireGuardTunnelConfiguration) -> Void = { _ in }) {
        var random = SeededGenerator(seed: 11)
        let (key, server) = (PrivateKey(using: &random), PrivateKey(using: &random).publicKey)
        let secret = key.secret.withSpan { span in SecretBytes(span.indices.map { span[$0] }) }
        resolver = ScriptedResolver(changes: clock.changes)
        let plane = VirtualPlane(clock: clock)
        self.plane = plane
        var environment = WireGuardEnvironment()
        environment.resolver = resolver
        let used = environment
        host = MemoryHost(secrets: MemorySecrets(["private-key": secret]), clock: clock) {
            WireGuardTunnelProvider(environment: used) { tun, update, _, _ throws(TunnelError) in
                tun.close()
                try plane.apply(update)
                return plane
            }
        }
        var configuration = WireGuardTunnelConfiguration(
            addresses: [InterfaceAddress(host: .v4(10, 0, 0, 2))],
            peers: [.init(publicKey: server, allowedIPs: [.allIPv4], endpoint: "198.51.100.1:51820")],
            connectivity: ConnectivityOptions(pingAddress: "10.0.0.1"))
        adjust(&configuration)
        self.configuration = configuration
        changes.follow(host.statusUpdates())
    }

    /// The provider's answer to a status request.
    func status() async throws -> StatusRequest.Reply { try await send(StatusRequest()) }

    /// Sends a message without a deadline, so that the provider's sleepers are the only ones on the clock.
    func send<Message: TunnelMessage>(_ message: Message) async throws -> Message.Reply {
        try await MessageClient(channel: host, timeout: .seconds(60)).send(message)
    }

    func start(leakPolicy: LeakPolicy = .routeBased) async throws {
        try await host.runner.start(configuration, leakPolicy: leakPolicy, profileID: "test")
        #expect(await changes.wait { clock.sleeperCount == 1 }, "the monitor's driver alone sleeps")
    }

    /// Runs one check of the driver.
    func look() async {
        clock.advanceToNextDeadline()
        await clock.waitForSleepers()
    }
}
