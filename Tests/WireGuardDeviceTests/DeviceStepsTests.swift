// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing
import TunnelIO
import WireGuardCore

@testable import WireGuardDevice

@Suite("The steps of a batch")
struct DeviceStepsTests {
    @Test(
        "A packet without room for padding is skipped, and nothing is written beyond the batch"
    )
    func slack() throws {
        let batch = try PacketBatch(packetCapacity: 4, byteCapacity: 4096)
        let end = batch.byteCapacity
        let steps = DeviceSteps(capacity: 4)
        for (gap, isThere) in [(0, false), (1, false), (14, false), (15, true), (16, true)] {
            batch.removeAll()
            #expect(batch.append(offset: 0, length: 100) != nil)
            #expect(batch.append(offset: end - 200 - gap, length: 200) != nil)
            let counts = unsafe steps.views(of: batch, slack: SendPlan.mostPadding).map { view in unsafe view.count }
            #expect(counts == [100, isThere ? 200 : 0], "\(gap) bytes behind it")
            // Opening writes only inside the datagram.
            let opened = unsafe steps.views(of: batch).map { view in unsafe view.count }
            #expect(opened == [100, 200])
        }
    }

    @Test("Handshakes that come in one batch are answered four at a time, without waiting for the last of them")
    func answers() throws {
        var random = SeededGenerator(seed: 7)
        let server = PrivateKey(using: &random)
        let (now, wall) = (SystemTime.now(), SystemTime.wall())
        let clients = (0..<10).map { _ in PrivateKey(using: &random) }
        let transport = DeviceTransport(
            engine: Engine(random: SeededGenerator(seed: 8)), mtu: 1420, batchCapacity: 16)
        transport.withEngine { engine in
            engine.setPrivateKey(server)
            for client in clients { engine.addPeer(client.publicKey) }
            engine.setUp(true, at: now, wall: wall)
        }
        let batch = try PacketBatch(packetCapacity: 16, byteCapacity: 16 * 2048)
        for (number, client) in clients.enumerated() {
            var engine = Engine(random: SeededGenerator(seed: UInt64(100 + number)))
            engine.setPrivateKey(client)
            engine.addPeer(server.publicKey)
            engine.setEndpoint(Endpoint(address: .v4(0x7f00_0001), port: 9), of: server.publicKey)
            engine.addAllowedIP(try #require(IPPrefix(.v4(0), length: 0)), to: server.publicKey)
            engine.setUp(true, at: now, wall: wall)
            let packet = [UInt8]([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2])
            let initiation = try #require(engine.send(packet, at: now, wall: wall).first)
            batch.append(copying: initiation.bytes, endpoint: Endpoint(address: .v4(0x7f00_0002), port: 9))
        }
        let answers = try PacketBatch(packetCapacity: 64, byteCapacity: 1 << 18)
        var inPieces: [Int] = []
        func drain() {
            answers.removeAll()
            while transport.drain(into: answers) {}
            transport.drainEnded()
            inPieces.append(answers.count)
        }
        let hasDatagrams = transport.open(batch, at: LaneClock.now(), answer: drain)
        #expect(hasDatagrams)
        drain()
        #expect(inPieces == [4, 4, 2])
    }
}
