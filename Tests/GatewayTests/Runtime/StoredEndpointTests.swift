// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Provisioning
import Synchronization
import Testing
import TunnelIO
import WireGuardCore
import WireGuardDevice

@testable import Gateway

/// A store with one device, which records the activity of devices.
private final class RecordingSource: PeerSource {
    struct State {
        /// The endpoints that were stored, in their order.
        var endpoints: [Endpoint] = []
        /// The number of writes that fail, and the number of those that have failed.
        var failures = 0
        var failed = 0
        /// Whether writes wait, and the number of writes that have begun.
        var isBlocked = false
        var begun = 0
    }

    let settings: GatewaySettings
    let serverKeys: ServerKeys
    let changes = Changes()
    let state = Mutex(State())
    private let peer: Peer

    init(_ settings: GatewaySettings, _ keys: ServerKeys, _ peer: Peer) {
        (self.settings, serverKeys, self.peer) = (settings, keys, peer)
    }

    func peers(after sequence: Int64?, _: Caller) async throws(GatewayError) -> Feed<Peer> {
        guard sequence == nil else { return Feed(sequence: 1, changed: []) }
        return Feed(sequence: 1, isComplete: true, changed: [peer])
    }

    func record(_ activity: [DeviceActivity], _: Caller) async throws(GatewayError) {
        state.withLock { $0.begun += 1 }
        changes.notify()
        _ = await changes.wait { state.withLock { !$0.isBlocked } }
        defer { changes.notify() }
        let isFailure = state.withLock { state in
            guard state.failures == 0 else {
                state.failures -= 1
                state.failed += 1
                return true
            }
            state.endpoints += activity.compactMap(\.endpoint)
            return false
        }
        if isFailure { throw .unavailable("a full disk") }
    }

    func logIn(_: LoginRequest, _: Caller) async throws(GatewayError) -> LoginJudgement { .refused(.wrong) }
    func isKnownLogin(_: String, from _: IPAddress) -> Bool { false }
    func changeSignals() -> AsyncStream<Void> { AsyncStream { _ in } }
    func sweep(busy _: [DeviceID], _: Caller) async throws(GatewayError) {}
}

@Suite("The endpoints that a gateway stores", .timeLimit(.minutes(2)))
struct StoredEndpointTests {
    private static let server = IPAddress.v4(198, 51, 100, 1)

    /// Starts a client that begins a handshake, and sends a datagram each second.
    private static func client(
        _ key: PrivateKey, at address: IPAddress, of server: PublicKey, on internet: MemoryInternet
    ) throws -> WireGuardDevice {
        let client = try WireGuardDevice(
            tun: VirtualNetwork().makeTun(name: "client"), network: internet.attach([address]),
            options: WireGuardDevice.Options())
        var peer = UAPIPeerUpdate(publicKey: server)
        peer.endpoint = Endpoint(address: Self.server, port: 51_820)
        peer.persistentKeepalive = 1
        peer.allowedIPs = [.add(.allIPv4)]
        var update = UAPIDeviceUpdate()
        update.privateKey = .set(key)
        update.peers = [peer]
        try client.apply(update)
        try client.start()
        return client
    }

    /// Starts a gateway with one device, which stores counters at its end, or on request.
    private static func gateway(
        on internet: MemoryInternet
    ) async throws -> (GatewayRuntime, RecordingSource, PrivateKey, PublicKey) {
        let fixture = try ServiceFixture()
        let (key, serverKeys) = (fixture.key(), try fixture.keys.serverKeys())
        var random = fixture.random
        let source = RecordingSource(
            fixture.service.settings, serverKeys,
            Peer(
                deviceID: DeviceID(using: &random), publicKey: key.publicKey, presharedKey: nil,
                sources: [try IPPrefix("10.66.0.2/32")], rules: []))
        var options = GatewayRuntime.Options()
        (options.sweepInterval, options.flushInterval) = (.milliseconds(20), .seconds(3600))
        let runtime = GatewayRuntime(
            service: source, network: MemoryPeerNetwork(), datagrams: internet.attach([Self.server]), options: options,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        try await runtime.start()
        return (runtime, source, key, serverKeys.current.publicKey)
    }

    @Test("Counters that are due while endpoints are being stored are stored next")
    func dueDuringWrite() async throws {
        let internet = MemoryInternet()
        let (runtime, source, key, server) = try await Self.gateway(on: internet)
        let running = Task { try await runtime.run() }
        defer { running.cancel() }
        source.state.withLock { $0.isBlocked = true }
        let client = try Self.client(key, at: .v4(198, 51, 100, 2), of: server, on: internet)
        defer { client.close() }
        #expect(await source.changes.wait(within: .seconds(30)) { source.state.withLock { $0.begun } == 1 })
        let device = try #require(await runtime.device)
        let counted = device.peers.first?.receivedBytes ?? 0
        await runtime.startFlush(of: .all)
        // The client sends a datagram each second.
        #expect(await waitUntil(timeout: .seconds(30)) { device.peers.first?.receivedBytes ?? 0 > counted })
        #expect(source.state.withLock { $0.begun } == 1)
        source.state.withLock { $0.isBlocked = false }
        source.changes.notify()
        #expect(await source.changes.wait(within: .seconds(30)) { source.state.withLock { $0.begun } >= 2 })
        running.cancel()
        _ = await running.result
    }

    @Test(
        "The endpoint of a device that connects or moves is stored before the next flush, even if a write fails",
        arguments: [0, 2])
    func moved(failures: Int) async throws {
        let internet = MemoryInternet()
        let (runtime, source, key, server) = try await Self.gateway(on: internet)
        let running = Task { try await runtime.run() }
        defer { running.cancel() }
        for address in [IPAddress.v4(198, 51, 100, 2), .v4(198, 51, 100, 3)] {
            source.state.withLock { $0.failures = failures }
            let client = try Self.client(key, at: address, of: server, on: internet)
            defer { client.close() }
            let isStored = await source.changes.wait(within: .seconds(30)) {
                source.state.withLock { $0.endpoints.last?.address == address }
            }
            #expect(isStored, "\(address)")
            #expect(source.state.withLock { $0.failures } == 0)
        }
        running.cancel()
        _ = await running.result
        #expect(source.state.withLock { $0.failed } == 2 * failures)
    }

    @Test("A source has moved if it has sent data from another endpoint than the one that was recorded")
    func hasMoved() {
        var random = SystemRandomNumberGenerator()
        let key = PrivateKey(using: &random).publicKey
        let source = TrafficLedger.Source.key(key)
        func count(_ port: UInt16?, received: UInt64) -> TrafficLedger.Count {
            TrafficLedger.Count(
                traffic: Device.Traffic(received: received),
                endpoint: port.map { Endpoint(address: Self.server, port: $0) })
        }
        let device = DeviceID(using: &random)
        var ledger = TrafficLedger()
        #expect(!ledger.hasMoved(count(nil, received: 0), source))
        // The gateway's own handshake with a former endpoint.
        #expect(!ledger.hasMoved(count(1, received: 0), source))
        #expect(ledger.hasMoved(count(1, received: 1), source))
        ledger.record(count(1, received: 1), of: source, device, at: Date(timeIntervalSince1970: 1))
        #expect(!ledger.hasMoved(count(1, received: 9), source))
        #expect(ledger.hasMoved(count(2, received: 9), source))
        ledger.record(count(2, received: 9), of: source, device, at: Date(timeIntervalSince1970: 2))
        #expect(ledger.drain().map(\.endpoint?.port) == [2])
        #expect(!ledger.hasMoved(count(2, received: 10), source))
    }
}
