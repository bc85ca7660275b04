// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import TunnelIO
import WireGuardCore

@testable import Provisioning
@testable import WireGuardTunnel

/// Servers of `addKey` in virtual time, and the WireGuard that leads to them: without sockets, threads or cryptography.
final class VirtualServers: DataPlane {
    /// The behaviour of a server's WireGuard. Its API answers unless the server is down.
    enum Behaviour: Sendable {
        /// Neither its API nor its WireGuard answers.
        case down
        case silent
        /// It answers handshakes and no packet.
        case shakingHands
        case carrying
    }

    private struct State {
        var behaviours: [Behaviour]
        var registrations: [Int]
        /// The number of requests to servers that are down.
        var refusals = 0
        /// The keys that were registered, in order.
        var keys: [String] = []
        var peers: [DataPlanePeer] = []
        var handshakeAt: [PublicKey: Duration] = [:]
        /// The servers that have answered a packet with another handshake.
        var shaken: Set<PublicKey> = []
        var hasDelivered = false
        var filter: (@Sendable ([UInt8]) -> Bool)?
    }

    private let clock: VirtualClock
    private let serverKeys: [PublicKey]
    private let state: Mutex<State>
    /// The network behind all of them.
    let behind = VirtualNetwork()

    init(_ behaviours: [Behaviour], clock: VirtualClock) {
        var random = SeededGenerator(seed: 31)
        self.clock = clock
        serverKeys = behaviours.map { _ in PrivateKey(using: &random).publicKey }
        state = Mutex(State(behaviours: behaviours, registrations: behaviours.map { _ in 0 }))
    }

    subscript(index: Int) -> Behaviour {
        get { state.withLock { $0.behaviours[index] } }
        set { state.withLock { $0.behaviours[index] = newValue } }
    }

    /// The number of registrations at each server.
    var registrations: [Int] { state.withLock { $0.registrations } }
    var keys: [String] { state.withLock { $0.keys } }
    /// The number of requests to servers that are down.
    var refusals: Int { state.withLock { $0.refusals } }

    func addKey(_ text: String, at index: Int) throws(ProvisioningTransportError) -> ProvisioningReply {
        let isDown = state.withLock { state in
            guard state.behaviours[index] != .down else {
                state.refusals += 1
                return true
            }
            state.registrations[index] += 1
            state.keys.append(text)
            return false
        }
        defer { clock.changes.notify() }
        if isDown { throw .unreachable("the server is down") }
        return .addKey(serverKey: serverKeys[index], at: .v4(198, 51, 100, UInt8(index + 1)), for: text)
    }

    // MARK: - The data plane

    /// Forgets the peers of an earlier start.
    func restart(_ update: UAPIDeviceUpdate) throws(TunnelError) {
        state.withLock {
            $0.peers = []
            $0.handshakeAt = [:]
            $0.hasDelivered = false
        }
        try apply(update)
    }

    func peers() -> [DataPlanePeer] {
        let now = clock.now.offset
        return state.withLock { state in
            state.peers.map { peer in
                var peer = peer
                peer.handshakeAge = state.handshakeAt[peer.publicKey].map { now - $0 }
                return peer
            }
        }
    }

    func apply(_ update: UAPIDeviceUpdate) throws(TunnelError) {
        state.withLock { state in
            if update.replacePeers { state.peers = [] }
            for change in update.peers {
                let index = state.peers.firstIndex { $0.publicKey == change.publicKey }
                if let index, change.remove {
                    state.peers.remove(at: index)
                } else if let index {
                    state.peers[index].endpoint = change.endpoint ?? state.peers[index].endpoint
                } else if !change.updateOnly, !change.remove {
                    state.peers.append(DataPlanePeer(publicKey: change.publicKey, endpoint: change.endpoint))
                }
            }
        }
        clock.changes.notify()
    }

    func requestHandshake(with key: PublicKey) {
        let now = clock.now.offset
        state.withLock { state in
            guard let place = serverKeys.firstIndex(of: key), ![.down, .silent].contains(state.behaviours[place]),
                let index = state.peers.firstIndex(where: { $0.publicKey == key })
            else { return }
            state.handshakeAt[key] = now
            state.peers[index].receivedBytes += 92
        }
    }

    func submit(_ packet: [UInt8], to destination: IPAddress) -> Bool {
        let (answer, filter) = state.withLock { state -> ([UInt8]?, (@Sendable ([UInt8]) -> Bool)?) in
            guard let key = state.peers.first?.publicKey, let place = serverKeys.firstIndex(of: key) else {
                return (nil, nil)
            }
            switch state.behaviours[place] {
            case .down, .silent: return (nil, nil)
            case .shakingHands:
                if state.shaken.insert(key).inserted { state.peers[0].receivedBytes += 92 }
                return (nil, nil)
            case .carrying:
                let answer = behind.receive(packet)
                state.peers[0].receivedBytes += UInt64(answer?.count ?? 0)
                state.hasDelivered = state.hasDelivered || answer != nil
                return (answer, state.filter)
            }
        }
        if let answer { _ = filter?(answer) }
        return true
    }

    func setFilter(_ filter: (@Sendable ([UInt8]) -> Bool)?) { state.withLock { $0.filter = filter } }
    /// The tunnels have an address to ping, so no packet is awaited.
    func onNextPacket(_: (@Sendable () -> Void)?) {}
    var hasDelivered: Bool { state.withLock { $0.hasDelivered } }
    func forgetPackets() { state.withLock { $0.hasDelivered = false } }
    func rebind() throws(TunnelError) {}
    func drops() -> [String: UInt64] { [:] }
    var listenPort: UInt16? { 1 }
    var publicKey: PublicKey? { nil }
    func close() async {}
}

/// A provider with ``VirtualServers``, and a clock that the test moves.
final class VirtualServersScene: Sendable {
    let clock = VirtualClock()
    let servers: VirtualServers
    let host: MemoryHost<AddKeyTunnelProvider>
    let configuration: AddKeyConfiguration
    /// The changes of the clock, the servers and the status.
    var changes: Changes { clock.changes }

    init(_ behaviours: [VirtualServers.Behaviour]) async throws {
        let servers = VirtualServers(behaviours, clock: clock)
        let places = behaviours.indices.map { ProvisioningServer(name: "\($0).example", port: 1337) }
        let transport = ScriptedTransport { request throws(ProvisioningTransportError) in
            guard let place = places.firstIndex(where: { $0.name == request.server.name }),
                let key = URLComponents(string: "https://x" + request.target)?.queryItems?.first?.value
            else { throw .unreachable("no such server") }
            return try servers.addKey(key, at: place)
        }
        let secrets = MemorySecretStore()
        try await secrets.write(SecretBytes(Array(AddKeyScene.token.utf8)), "token", of: "test")
        host = MemoryHost(secrets: secrets, deadlines: TunnelDeadlines(start: .seconds(120)), clock: clock) {
            let environment = WireGuardEnvironment()
            let inner = WireGuardTunnelProvider(environment: environment) { tun, update, _, _ throws(TunnelError) in
                tun.close()
                try servers.restart(update)
                return servers
            }
            return AddKeyTunnelProvider(transport: transport, environment: environment, inner: inner)
        }
        self.servers = servers
        // Each interval is much shorter than the time-outs of requests, which the clock must not reach.
        var connectivity = ConnectivityOptions.plainStop(pingAddress: "203.0.113.1")
        (connectivity.connectivityInterval, connectivity.pingInterval) = (1, 0.25)
        configuration = AddKeyConfiguration(servers: places, connectivity: connectivity)
        changes.follow(host.statusUpdates())
    }

    /// Starts the tunnel while it moves the clock.
    func start() async throws {
        let isOver = Mutex(false)
        let starting = Task {
            defer {
                isOver.withLock { $0 = true }
                changes.notify()
            }
            try await host.runner.start(configuration, leakPolicy: .routeBased, profileID: "test")
        }
        _ = await advance { isOver.withLock { $0 } }
        try await starting.value
    }

    /// Moves the clock until a ping is answered at a server and the tunnel is connected; returns whether both came true.
    func carries() async -> Bool {
        let before = servers.behind.statistics.pingsAnswered
        return await advance {
            servers.behind.statistics.pingsAnswered > before && host.status.status == .connected
        }
    }

    /// Whether the provider reports a registration at this server, which it does shortly after the tunnel has moved.
    func reports(_ server: String) async throws -> Bool {
        let client = MessageClient(channel: host)
        for _ in 0..<10_000 {
            if try await client.send(AddKeyStatusRequest()).server == server { return true }
            await Task.yield()
        }
        return false
    }

    /// Moves the clock from one deadline of the provider to the next until `condition` holds; returns whether it holds.
    ///
    /// While a request is under way nothing but its time-out waits for the clock, which then stands still. After a request
    /// to a server that is down, the clock moves over the pauses between requests too.
    func advance(until condition: () -> Bool) async -> Bool {
        let end = clock.now.offset + .seconds(300)
        while clock.now.offset < end {
            let isReady = await changes.wait {
                let limit = Duration.seconds(servers.refusals > 0 ? 30 : 2)
                return condition() || clock.nextDeadline.map { $0.offset - clock.now.offset <= limit } == true
            }
            guard isReady else { return false }
            if condition() { return true }
            clock.advanceToNextDeadline()
        }
        return condition()
    }
}
