// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkExtension
import PacketTunnelTesting
import Testing
import WireGuardCore
import WireGuardDevice
import WireGuardTunnel

@testable import PacketTunnel
@testable import TunnelIO

@Suite("The extension's memory", .timeLimit(.minutes(5)))
struct MemoryTests {
    @Test("240 peers and a burst at full speed stay within 8 MiB, packets in flight included")
    func burst() async {
        // In a process of its own: nothing that other tests freed is used again, and nothing of theirs is counted.
        await #expect(processExitsWith: .success) {
            try await ExtensionLoad().run()
        }
    }
}

/// A provider with 240 peers in an extension host, and those peers.
private final class ExtensionLoad {
    static let peerCount = 240
    static let port: UInt16 = 51_820

    private let system: SystemSide<WireGuardTunnelProvider>
    private let request: TunnelStartRequest
    private let peers: LoadPeers
    private let socket: any DatagramSocket
    private let batch: PacketBatch
    private var baseline = 0
    private var largest = 0

    init() async throws {
        var random = SeededGenerator(seed: 50)
        let key = PrivateKey(using: &random)
        let internet = MemoryInternet(queueLimit: 64)
        var environment = WireGuardEnvironment()
        environment.network = internet.attach([.v4(1)])
        let used = environment
        let secrets = MemorySecretStore()
        try await secrets.write(
            key.secret.withSpan { span in SecretBytes(span.indices.map { span[$0] }) }, "private-key", of: "test")
        var options = NetworkExtensionOptions.quiet
        options.secrets = secrets
        system = SystemSide(options) { WireGuardTunnelProvider(environment: used) }
        system.tunnel.standIn.flow.standIn.setWriteHandler { _ in }
        let peers = LoadPeers(Self.peerCount, of: key, using: &random)
        self.peers = peers
        let far = internet.attach((0..<Self.peerCount).map { .v4(LoadPeers.address($0)) })
        socket = try #require(try far.bind(port: Self.port, mark: 0).v4)
        batch = try PacketBatch(packetCapacity: 64, byteCapacity: 64 * 2_048)
        let configuration = WireGuardTunnelConfiguration(
            addresses: [NetworkPrefix(host: .v4(10, 0, 0, 1))],
            peers: (0..<Self.peerCount).map { number in
                .init(
                    publicKey: peers.keys[number].base64,
                    endpoint: "\(NetworkAddress.v4(LoadPeers.address(number))):\(Self.port)",
                    allowedIPs: [NetworkPrefix(host: .v4(LoadPeers.inner(number)))])
            })
        request = TunnelStartRequest(
            configuration: Array(try JSONEncoder().encode(configuration)), profileID: "test")
    }

    /// Anonymous memory of this process, in bytes.
    private static func anonymousBytes() throws -> Int {
        let text = try String(contentsOfFile: "/proc/self/smaps_rollup", encoding: .utf8)
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("Anonymous:") })
        return try #require(line.split(separator: " ").dropFirst().first.flatMap { Int($0) }) << 10
    }

    private func measure() throws { largest = max(largest, try Self.anonymousBytes() - baseline) }

    func run() async throws {
        // Once before, so that what a process needs once is not counted, nor what the peers and queues here need.
        try await start()
        try await burst(4_000)
        await system.stop(.userInitiated)
        for index in 0..<64 {
            batch.removeAll()
            batch.append(offset: index * 2_048, length: 2_048)
        }
        PageAdvice.trimHeap()
        baseline = try Self.anonymousBytes()

        try await start()
        try measure()
        await pump { self.peers.answered.count == Self.peerCount }
        try measure()
        try await burst(40_000)
        try measure()
        #expect(peers.answered.count > Self.peerCount / 2)
        #expect(largest <= MemoryBudget.extension.byteCount, "\(largest >> 10) KiB")
        #expect(largest > 1 << 20, "something was measured")
        await system.stop(.userInitiated)
    }

    private func start() async throws {
        peers.reset()
        let (system, request) = (system, request)
        let starting = Task { try await system.start(request) }
        await pump { system.status.status == .connected || system.status.error != nil }
        try await starting.value
    }

    private func burst(_ count: Int) async throws {
        let flow = system.tunnel.standIn.flow.standIn
        for number in 0..<count {
            let packet = PacketBuilder.udp(
                from: .v4(10, 0, 0, 1), port: 1, to: .v4(LoadPeers.inner(number % Self.peerCount)), port: 2,
                payload: [UInt8](repeating: 0x77, count: 1_372))
            if flow.route([Data(packet)]) == 0 { await Task.yield() }
            if number % 32 == 0 { pumpOnce() }
            if number % 2_000 == 0 { try measure() }
        }
    }

    private func pump(until condition: () -> Bool) async {
        let end = ContinuousClock.now + .seconds(60)
        while !condition(), ContinuousClock.now < end {
            pumpOnce()
            await Task.yield()
        }
    }

    /// Gives the peers what the provider has sent them, and sends what they answer.
    private func pumpOnce() {
        batch.removeAll()
        guard let count = try? socket.receive(into: batch), count > 0 else { return }
        let datagrams = (0..<count).map {
            (batch.copy(of: $0), batch[endpoint: $0].sourceLow, batch[endpoint: $0].port)
        }
        for (bytes, address, port) in datagrams {
            let number = Int(UInt32(truncatingIfNeeded: address) &- LoadPeers.address(0))
            for answer in peers.receive(bytes, at: number) {
                batch.removeAll()
                var endpoint = DatagramEndpoint(isIPv6: false, high: 0, low: 1, port: port)
                endpoint.sourceLow = address
                batch.append(copying: answer, endpoint: endpoint)
                _ = try? socket.send(batch, in: 0..<1)
            }
        }
    }
}

/// The other ends: an engine for each, under a clock of their own.
private final class LoadPeers {
    private final class Box {
        var engine: Engine
        init(_ engine: consuming Engine) { self.engine = engine }
    }

    let keys: [PublicKey]
    var answered: Set<Int> = []
    private let boxes: [Box]
    private var now = Instant(nanoseconds: 1_000_000_000)
    private let wall = WallTime(seconds: 1_000)

    static func address(_ number: Int) -> UInt32 { 0xc000_0201 + UInt32(number) }
    static func inner(_ number: Int) -> UInt32 { 0x0a01_0000 + UInt32(number) }

    init(_ count: Int, of key: PrivateKey, using random: inout SeededGenerator) {
        var (keys, boxes): ([PublicKey], [Box]) = ([], [])
        for number in 0..<count {
            let own = PrivateKey(using: &random)
            keys.append(own.publicKey)
            var engine = Engine(random: SeededGenerator(seed: UInt64(5_000 + number)))
            engine.setPrivateKey(own)
            engine.setUp(true, at: now, wall: wall)
            engine.addPeer(key.publicKey)
            boxes.append(Box(engine))
        }
        (self.keys, self.boxes) = (keys, boxes)
    }

    func reset() {
        answered = []
        now = now + .seconds(60)
    }

    func receive(_ bytes: [UInt8], at number: Int) -> [[UInt8]] {
        guard boxes.indices.contains(number) else { return [] }
        // Never so fast that it looks like a flood.
        now = now + .milliseconds(1)
        if bytes.first == 1 { answered.insert(number) }
        let source = Endpoint(address: IPAddress(v4: 1), port: 51_820)
        _ = boxes[number].engine.receive(bytes, from: source, at: now, wall: wall)
        return boxes[number].engine.drainAll(at: now, wall: wall).map(\.bytes)
    }
}
