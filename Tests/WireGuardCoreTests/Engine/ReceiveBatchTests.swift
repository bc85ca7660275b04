// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@testable import WireGuardCore

@Suite("Engine: batches of datagrams")
struct ReceiveBatchTests {
    @Test("A batch of several sessions, handshakes, forgeries and rubbish is sorted out datagram by datagram")
    func mixed() throws {
        let world = EngineWorld(4)
        world.establish(0, with: 1)
        world.establish(2, with: 1)
        world.onWire = { _ in false }
        world.send(3, to: 1)
        let initiation = try #require(world.sent(3, .initiation).first?.message.bytes)
        var random = SeededGenerator(seed: 1)
        var datagrams: [[UInt8]] = []
        var expected: [[UInt8]?] = []
        for number in 0..<60 {
            let sender = random.chance(0.5) ? 0 : 2
            let packet = world.packet(from: sender, to: 1, [UInt8(number)])
            var sealed = world.seal(sender, to: 1, [UInt8(number)])
            switch number % 6 {
            case 1:
                sealed[sealed.count - 3] ^= 1
                expected.append(nil)
            case 3:
                sealed = number == 27 ? initiation : random.bytes(number)
                expected.append(nil)
            case 4:
                sealed = datagrams[number - 4]
                expected.append(nil)
            default: expected.append(packet)
            }
            datagrams.append(sealed)
        }
        let batch = TestBatch(datagrams)
        let plan = ReceivePlan(capacity: 64)
        let delivered = batch.receive(plan, at: world[1], from: world[0].endpoint, world)
        #expect(delivered == expected.map { $0 != nil })
        for (index, packet) in expected.enumerated() {
            guard let packet else { continue }
            #expect(plan.packetByteCount(at: index) == packet.count)
            #expect(batch.bytes(index, at: ReceivePlan.packetOffset, count: packet.count) == packet)
        }
        let statistics = world[1].engine.statistics
        #expect(statistics.authenticationFailures == 10)
        #expect(statistics.malformedDatagrams == 9)
        #expect(statistics.replayed == 10)
        #expect(statistics.responsesSent == 3)
        #expect(statistics.packetsReceived == 2 + 30)
    }

    @Test("Datagrams beyond a plan's capacity are ignored, and accesses outside a plan are refused")
    func capacity() {
        let world = EngineWorld()
        world.establish()
        let batch = TestBatch((0..<10).map { world.seal(0, to: 1, [$0]) })
        let plan = ReceivePlan(capacity: 4)
        let delivered = batch.receive(plan, at: world[1], from: world[0].endpoint, world)
        #expect(delivered == [true, true, true, true, false, false, false, false, false, false])
        #expect(plan.packetByteCount(at: -1) == 0)
        #expect(plan.packetByteCount(at: .max) == 0)
    }

    @Test(
        "A burst of handshakes is handled four at a time, and the data among them is planned with its batch"
    )
    func handshakesInPieces() {
        let world = EngineWorld(12)
        let node = world[0]
        world.send(1, to: 0)
        world.run(for: .seconds(1))
        let before = node.engine.statistics.responsesSent
        let initiations = (2...11).map { world.seal($0, to: 0) }
        let batch = TestBatch([world.seal(1, to: 0, [1])] + initiations + [world.seal(1, to: 0, [2])])
        let plan = ReceivePlan(capacity: 16)
        var places: [Int] = []
        var answered: [UInt64] = []
        let delivered = unsafe batch.withViews { views in
            repeat {
                let next = unsafe node.engine.planOpen(
                    views, from: places.last ?? 0, endpoints: { _ in world[1].endpoint }, at: world.now(node),
                    wall: world.wall(node), into: plan)
                places.append(next)
                answered.append(node.engine.statistics.responsesSent - before)
            } while places[places.count - 1] < views.count
            unsafe plan.open(views)
            unsafe node.engine.commit(
                plan, views, endpoints: { _ in world[1].endpoint }, at: world.now(node), wall: world.wall(node))
            return views.indices.filter { plan.packetByteCount(at: $0) > 0 }
        }
        #expect(places == [5, 9, 12])
        #expect(answered == [4, 8, 10])
        #expect(delivered == [0, 11])
    }

    @Test("A plan that is used again has forgotten the batch before")
    func reuse() {
        let world = EngineWorld()
        world.establish()
        let plan = ReceivePlan(capacity: 8)
        let first = TestBatch((0..<8).map { world.seal(0, to: 1, [$0]) })
        #expect(first.receive(plan, at: world[1], from: world[0].endpoint, world).allSatisfy { $0 })
        let second = TestBatch([[1, 2, 3], world.seal(0, to: 1, [9]), []])
        #expect(second.receive(plan, at: world[1], from: world[0].endpoint, world) == [false, true, false])
        #expect(plan.packetByteCount(at: 5) == 0)
    }

    @Test("A session that is renewed twice while a batch is being opened leaves the batch undelivered, and no harm")
    func renewedMeanwhile() {
        let world = EngineWorld()
        world.establish()
        let batch = TestBatch([world.seal(0, to: 1, [1])])
        let plan = ReceivePlan(capacity: 1)
        let delivered = batch.receive(plan, at: world[1], from: world[0].endpoint, world) { _ in
            for _ in 0..<2 {
                world.peer(0, of: 1)?.current?.expireForSending()
                world.run(for: .seconds(6))
                world.send(0, to: 1)
                world.run(for: .seconds(1))
            }
        }
        #expect(delivered == [false])
        #expect(world[1].delivered.count == 2)
        world.send(0, to: 1)
        world.run(for: .seconds(1))
        #expect(world[1].delivered.count == 3)
    }

    @Test("Timers, endpoint and bytes of a batch are updated as by its datagrams one by one")
    func sameAsOneByOne() {
        let (one, other) = (EngineWorld(), EngineWorld())
        for world in [one, other] { world.establish() }
        let datagrams = (0..<20).map { one.seal(0, to: 1, [UInt8]($0 == 0 ? [] : [1, 2, UInt8($0)])) }
        for datagram in datagrams { one.receive(datagram, from: one[0].endpoint, at: one[1]) }
        _ = TestBatch(datagrams).receive(ReceivePlan(capacity: 20), at: other[1], from: other[0].endpoint, other)
        #expect(one[1].engine.statistics == other[1].engine.statistics)
        #expect(AdversarialTests.State(one, 1, of: 0) == AdversarialTests.State(other, 1, of: 0))
    }
}
