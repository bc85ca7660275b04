// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
package import PacketTunnelTesting
package import TunnelIO
package import WireGuardCore
package import WireGuardTunnel

/// The 240 peers of a tunnel under load. Each has its own engine; they share one clock and one socket.
package final class LoadPeers {
    package static let count = 240
    private static let port: UInt16 = 51_820

    private final class Box {
        var engine: Engine
        init(_ engine: consuming Engine) { self.engine = engine }
    }

    /// The peers that received an initiation since ``reset()``.
    package private(set) var answered: Set<Int> = []
    private let keys: [PublicKey]
    private let boxes: [Box]
    private let socket: any DatagramSocket
    private let batch: PacketBatch
    private var now = Instant(nanoseconds: 1_000_000_000)
    private let wall = WallTime(seconds: 1_000)

    /// Peers on `internet` of the tunnel that has this key and the address 0.0.0.1 there.
    package init(
        of key: PrivateKey, on internet: MemoryInternet, using random: inout SeededGenerator
    ) throws(TunnelIOError) {
        var (keys, boxes): ([PublicKey], [Box]) = ([], [])
        for number in 0..<Self.count {
            let own = PrivateKey(using: &random)
            keys.append(own.publicKey)
            var engine = Engine(random: SeededGenerator(seed: UInt64(5_000 + number)))
            engine.setPrivateKey(own)
            engine.setUp(true, at: now, wall: wall)
            engine.addPeer(key.publicKey)
            boxes.append(Box(engine))
        }
        (self.keys, self.boxes) = (keys, boxes)
        let host = internet.attach((0..<Self.count).map { .v4(Self.address($0)) })
        guard let socket = try host.bind(port: Self.port, mark: 0).v4 else { throw TunnelIOError(.closed) }
        self.socket = socket
        batch = try PacketBatch(packetCapacity: 64, byteCapacity: 64 * 2_048)
    }

    private static func address(_ number: Int) -> UInt32 { 0xc000_0201 + UInt32(number) }
    private static func inner(_ number: Int) -> UInt32 { 0x0a01_0000 + UInt32(number) }

    /// The tunnel's configuration, with all of them as peers.
    package var configuration: WireGuardTunnelConfiguration {
        WireGuardTunnelConfiguration(
            addresses: [InterfaceAddress(host: .v4(10, 0, 0, 1))],
            peers: keys.enumerated().map { number, key in
                .init(
                    publicKey: key, allowedIPs: [IPPrefix(host: .v4(Self.inner(number)))],
                    endpoint: try? EndpointAddress(
                        host: IPAddress.v4(Self.address(number)).description, port: Self.port))
            })
    }

    /// Prepares for another start of the tunnel.
    package func reset() {
        answered = []
        now = now + .seconds(60)
    }

    /// Touches all memory of this object, so that it is not included in measurements.
    package func touchMemory() {
        for index in 0..<64 {
            batch.removeAll()
            batch.append(offset: index * 2_048, length: 2_048)
        }
    }

    /// Sends packets to all peers in turn, at full speed.
    /// - Parameters:
    ///   - send: Passes one packet to the tunnel; returns `false` if there is no room now.
    ///   - measure: Called occasionally.
    package func burst(_ count: Int, send: ([UInt8]) -> Bool, measure: () throws -> Void) async rethrows {
        for number in 0..<count {
            let packet = PacketBuilder.udp(
                from: .v4(10, 0, 0, 1), port: 1, to: .v4(Self.inner(number % Self.count)), port: 2,
                payload: [UInt8](repeating: 0x77, count: 1_372))
            if !send(packet) { await Task.yield() }
            if number % 32 == 0 { answer() }
            if number % 2_000 == 0 { try measure() }
        }
    }

    /// Answers until `condition` holds, for at most a minute.
    package func answer(until condition: () -> Bool) async {
        let end = ContinuousClock.now + .seconds(60)
        while !condition(), ContinuousClock.now < end {
            answer()
            await Task.yield()
        }
    }

    /// Receives the tunnel's datagrams, and sends the answers.
    private func answer() {
        batch.removeAll()
        guard let count = try? socket.receive(into: batch), count > 0 else { return }
        let datagrams = (0..<count).map {
            (batch.copy(of: $0), batch[endpoint: $0].source.low, batch[endpoint: $0].port)
        }
        for (bytes, address, port) in datagrams {
            let number = Int(UInt32(truncatingIfNeeded: address) &- Self.address(0))
            for answer in receive(bytes, at: number) {
                batch.removeAll()
                var endpoint = Endpoint(address: .v4(1), port: port)
                endpoint.source.low = address
                batch.append(copying: answer, endpoint: endpoint)
                _ = try? socket.send(batch, in: 0..<1)
            }
        }
    }

    private func receive(_ bytes: [UInt8], at number: Int) -> [[UInt8]] {
        guard boxes.indices.contains(number) else { return [] }
        // Advance the clock enough that the packets do not look like a flood.
        now = now + .milliseconds(1)
        if bytes.first == 1 { answered.insert(number) }
        let source = Endpoint(address: .v4(1), port: 51_820)
        _ = boxes[number].engine.receive(bytes, from: source, at: now, wall: wall)
        return boxes[number].engine.drainAll(at: now, wall: wall).map(\.bytes)
    }
}
