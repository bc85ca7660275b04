// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing

@testable import WireGuardCore

/// Messages of strangers, and of malicious peers.
@Suite("Engine: adversarial input")
struct AdversarialTests {
    /// Everything about a host that input which is not authentic must leave alone.
    struct State: Equatable {
        var endpoint: Endpoint?
        var received: UInt64
        var sent: UInt64
        var current: UInt32?
        var previous: UInt32?
        var next: UInt32?
        var handshake: UInt32?
        var timers: [Int64]
        var timestamp: TAI64N?
        var indices: Int
        var deadline: Instant?

        init(_ world: EngineWorld, _ node: Int, of other: Int) {
            let peer = world.peer(node, of: other)
            endpoint = peer?.endpoint
            received = peer?.receivedBytes ?? 0
            sent = peer?.sentBytes ?? 0
            current = peer?.current?.keys.localIndex
            previous = peer?.previous?.keys.localIndex
            next = peer?.next?.keys.localIndex
            handshake = peer?.handshake?.localIndex
            timers = peer.map { [$0.retransmitAt, $0.sendKeepaliveAt, $0.newHandshakeAt, $0.wipeAt] } ?? []
            timestamp = peer?.lastReceivedTimestamp
            indices = world[node].engine.indices.count
            deadline = world[node].engine.nextDeadline
        }
    }

    @Test("Every length from 0 to 65,535 of every type, the type set or not, is dropped")
    func everyLength() throws {
        let world = EngineWorld()
        world.establish()
        let session = try #require(world.peer(1, of: 0)?.current)
        let before = State(world, 1, of: 0)
        var random = SeededGenerator(seed: 12)
        let length = 65_535
        let batch = TestBatch([[UInt8](random.bytes(length))])
        let plan = ReceivePlan(capacity: 1)
        let node = world[1]
        let (now, wall, source) = (world.now(1), world.wall(1), world[0].endpoint)
        var count = 0
        unsafe batch.withViews { views in
            let base = unsafe views[0].base
            for kind: UInt32 in [0, 1, 2, 3, 4, 5, 0x0100_0004, .max] {
                for byteCount in 0...length {
                    // A failed open overwrites the bytes, so the start is set each time.
                    unsafe base.storeLittleEndian(kind, at: 0)
                    unsafe base.storeLittleEndian(session.keys.localIndex, at: 4)
                    unsafe base.storeLittleEndian(UInt64(byteCount), at: 8)
                    let view = unsafe PacketView(base: base, count: byteCount)
                    unsafe withUnsafePointer(to: view) { pointer in
                        let one = unsafe UnsafeBufferPointer(start: pointer, count: 1)
                        unsafe node.engine.planOpen(one, endpoints: { _ in source }, at: now, wall: wall, into: plan)
                        unsafe plan.open(one)
                        unsafe node.engine.commit(plan, one, endpoints: { _ in source }, at: now, wall: wall)
                    }
                    if plan.packetByteCount(at: 0) == 0 { count += 1 }
                }
            }
        }
        #expect(count == 8 * 65_536)
        #expect(State(world, 1, of: 0) == before)
        #expect(node.engine.statistics.packetsReceived == 1)
        #expect(node.engine.statistics.invalidMac1 == 2)
        #expect(node.engine.outbox.isEmpty)
        world.send(0, to: 1)
        world.run(for: .seconds(1))
        #expect(world[1].delivered.count == 1)
    }

    @Test("Every flipped bit of an initiation is refused without any change, mac1 made to fit or not")
    func flippedInitiation() throws {
        let world = EngineWorld()
        world.onWire = { _ in false }
        world.send(0, to: 1)
        let initiation = try #require(world.sent(0, .initiation).first?.message.bytes)
        let before = State(world, 1, of: 0)
        for bit in 0..<132 * 8 {
            var wrong = initiation
            wrong[bit / 8] ^= 1 << UInt8(bit % 8)
            world.receive(wrong, from: world[0].endpoint, at: world[1])
        }
        // With a fitting mac1 it is for Noise to refuse. The sender's index, which it does not cover, is left out.
        for byte in 8..<116 {
            var wrong = initiation
            wrong[byte] ^= 1 << UInt8(byte % 8)
            // The top bit of a Curve25519 point is not part of it, but of the hash.
            let resigned = Forge.resigned(wrong, for: world[1].publicKey)
            world.receive(resigned, from: world[0].endpoint, at: world[1])
        }
        #expect(State(world, 1, of: 0) == before)
        #expect(world[1].engine.statistics.responsesSent == 0)
        #expect(world[1].engine.statistics.malformedDatagrams == 32)
        #expect(world[1].engine.statistics.invalidMac1 == 128 * 8)
        #expect(world[1].engine.statistics.rejectedHandshakes == 108)
        world.receive(initiation, from: world[0].endpoint, at: world[1])
        #expect(world[1].engine.statistics.responsesSent == 1)
    }

    @Test("Every flipped bit of a response is refused without any change, mac1 made to fit or not")
    func flippedResponse() throws {
        let world = EngineWorld(preshared: true)
        world.onWire = { $0.kind != .response }
        world.send(0, to: 1)
        world.run(for: .milliseconds(50))
        let response = try #require(world.sent(1, .response).first?.message)
        let before = State(world, 0, of: 1)
        for bit in 0..<76 * 8 {
            var wrong = response.bytes
            wrong[bit / 8] ^= 1 << UInt8(bit % 8)
            world.receive(wrong, from: response.source, at: world[0])
        }
        for byte in 8..<60 {
            var wrong = response.bytes
            wrong[byte] ^= 1 << UInt8(byte % 8)
            world.receive(Forge.resigned(wrong, for: world[0].publicKey), from: response.source, at: world[0])
        }
        #expect(State(world, 0, of: 1) == before)
        #expect(world[0].engine.statistics.malformedDatagrams == 32)
        #expect(world[0].engine.statistics.invalidMac1 == 72 * 8)
        #expect(world[0].engine.statistics.rejectedHandshakes == 52)
        // None of that keeps the true response from completing the handshake.
        world.arrive(response)
        #expect(world[0].engine.statistics.handshakesCompleted == 1)
    }

    @Test("Every flipped bit of transport data is refused without any change")
    func flippedData() throws {
        let world = EngineWorld()
        world.establish()
        let before = State(world, 1, of: 0)
        let datagram = world.seal(0, to: 1, [UInt8](repeating: 3, count: 40))
        for bit in 0..<datagram.count * 8 {
            var wrong = datagram
            wrong[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(world.receive(wrong, from: RoamingTests.elsewhere, at: world[1]) == nil)
        }
        #expect(State(world, 1, of: 0) == before)
        let statistics = world[1].engine.statistics
        #expect(statistics.malformedDatagrams == 32)
        #expect(statistics.unknownSession == 32)
        // A flipped counter is another nonce.
        #expect(statistics.authenticationFailures + statistics.replayed == UInt64(datagram.count - 8) * 8)
        #expect(world.receive(datagram, from: world[0].endpoint, at: world[1]) != nil)
    }

    @Test("Every truncation and extension of every message is refused without any change")
    func truncated() throws {
        let world = EngineWorld(limits: CookieTests.touchy)
        var random = SeededGenerator(seed: 1)
        CookieTests.flood(world, 1, count: 10, using: &random)
        world.send(0, to: 1)
        world.run(for: .milliseconds(50))
        world.run(for: .seconds(7))
        let kinds: [MessageKind] = [.initiation, .response, .cookieReply, .data]
        let samples = try kinds.map { kind in
            try #require(world.wire.messages.last { $0.kind == kind && $0.destination.port != 666 })
        }
        let before = (State(world, 0, of: 1), State(world, 1, of: 0))
        for sample in samples {
            for length in 0..<sample.bytes.count {
                for node in world.nodes {
                    #expect(world.receive(Array(sample.bytes.prefix(length)), from: sample.source, at: node) == nil)
                }
            }
            for extra in [1, 15, 16, 17, 100] {
                let longer = sample.bytes + random.bytes(extra)
                for node in world.nodes { #expect(world.receive(longer, from: sample.source, at: node) == nil) }
            }
        }
        #expect(State(world, 0, of: 1) == before.0)
        #expect(State(world, 1, of: 0) == before.1)
    }

    @Test("Reserved bytes that are not zero make a datagram none of ours", arguments: 1...3)
    func reservedBytes(position: Int) {
        let world = EngineWorld()
        world.onWire = { flight in
            flight.bytes[position] = 1
            return true
        }
        world.send(0, to: 1)
        world.run(for: .seconds(1))
        #expect(world[1].engine.statistics.malformedDatagrams == 1)
        #expect(world.sent(1) { _ in true }.isEmpty)
    }

    @Test("A response without initiation, or with another's index, is refused")
    func unsolicitedResponse() throws {
        let world = EngineWorld(3)
        world.onWire = { $0.kind != .response }
        world.send(0, to: 1)
        world.send(0, to: 2)
        world.run(for: .milliseconds(50))
        let responses = world.wire.messages.filter { $0.kind == .response }
        try #require(responses.count == 2)
        // Addressed to the handshake of the other.
        for index in 0..<2 {
            var bytes = responses[index].bytes
            bytes.replaceSubrange(8..<12, with: responses[1 - index].bytes[8..<12])
            world.receive(Forge.resigned(bytes, for: world[0].publicKey), from: responses[index].source, at: world[0])
        }
        // Addressed to a session, and to nothing.
        world.onWire = nil
        for response in responses { world.arrive(response) }
        world.run(for: .milliseconds(50))
        let session = try #require(world.peer(0, of: 1)?.current)
        for index in [session.keys.localIndex, session.keys.localIndex ^ 1, 0] {
            var bytes = responses[0].bytes
            for byte in 0..<4 { bytes[8 + byte] = UInt8(truncatingIfNeeded: index >> UInt32(8 * byte)) }
            world.receive(Forge.resigned(bytes, for: world[0].publicKey), from: responses[0].source, at: world[0])
        }
        #expect(world[0].engine.statistics.rejectedHandshakes == 5)
        #expect(world[0].engine.statistics.handshakesCompleted == 2)
        #expect(world.peer(0, of: 1)?.current === session)
    }

    @Test("A handshake of a stranger is refused")
    func stranger() {
        let world = EngineWorld(3)
        world[1].engine.removePeer(world[0].publicKey)
        world.send(0, to: 1)
        world.run(for: .seconds(1))
        #expect(world[1].engine.statistics.rejectedHandshakes == 1)
        #expect(world.sent(1) { _ in true }.isEmpty)
        #expect(world[1].engine.indices.count == 0)
    }

    /// The points of small order on Curve25519 and its twist, as libraries list them.
    static let lowOrderPoints = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ]

    @Test("An ephemeral key of small order is refused", arguments: lowOrderPoints)
    func lowOrderEphemeral(point: String) throws {
        let world = EngineWorld()
        world.onWire = { _ in false }
        world.send(0, to: 1)
        var initiation = try #require(world.sent(0, .initiation).first?.message.bytes)
        initiation.replaceSubrange(8..<40, with: hex(point))
        world.receive(Forge.resigned(initiation, for: world[1].publicKey), from: world[0].endpoint, at: world[1])
        #expect(world[1].engine.statistics.rejectedHandshakes == 1)
        #expect(world[1].engine.statistics.responsesSent == 0)

        let other = EngineWorld()
        other.onWire = { $0.kind != .response }
        other.send(0, to: 1)
        other.run(for: .milliseconds(50))
        var response = try #require(other.sent(1, .response).first?.message.bytes)
        response.replaceSubrange(12..<44, with: hex(point))
        other.receive(Forge.resigned(response, for: other[0].publicKey), from: other[1].endpoint, at: other[0])
        #expect(other[0].engine.statistics.rejectedHandshakes == 1)
        #expect(other.peer(0, of: 1)?.current == nil)
    }

    @Test("A peer whose static key is of small order can be configured and never spoken to", arguments: lowOrderPoints)
    func lowOrderStatic(point: String) throws {
        let world = EngineWorld()
        let key = try #require(PublicKey(bytes: hex(point)))
        world[0].engine.addPeer(key)
        world[0].engine.setEndpoint(world[1].endpoint, of: key)
        let prefix = try #require(IPPrefix(.v4(0x0b00_0000), length: 8))
        world[0].engine.addAllowedIP(prefix, to: key)
        for _ in 0..<200 {
            world.send(TestPacket.v4(from: world[0].innerV4, to: 0x0b00_0001, payload: [1]), from: 0)
        }
        world.run(for: .seconds(100))
        #expect(world.wire.count == 0)
        #expect(world[0].engine.indices.count == 0)
    }

    @Test("Someone in the middle who swaps, repeats and mixes messages achieves nothing", arguments: 0..<10)
    func mixed(seed: Int) {
        let world = EngineWorld(3, seed: UInt64(seed))
        var random = SeededGenerator(seed: UInt64(seed))
        for (one, other) in [(0, 1), (1, 2), (2, 0)] { world.establish(one, with: other) }
        let captured = world.wire.messages
        let states = [State(world, 0, of: 1), State(world, 1, of: 2), State(world, 2, of: 0)]
        for _ in 0..<300 {
            var flight = captured[random.int(in: 0..<captured.count)]
            let other = captured[random.int(in: 0..<captured.count)]
            let cut = random.int(in: 0...min(flight.bytes.count, other.bytes.count))
            switch random.int(in: 0..<3) {
            case 0: break
            case 1: flight.bytes = Array(flight.bytes.prefix(cut) + other.bytes.dropFirst(cut))
            default: flight.bytes = Array(flight.bytes.shuffled(using: &random))
            }
            world.receive(flight.bytes, from: other.source, at: world[random.int(in: 0..<3)])
        }
        #expect([State(world, 0, of: 1), State(world, 1, of: 2), State(world, 2, of: 0)] == states)
        #expect(world.nodes.allSatisfy { $0.delivered.isEmpty })
    }
}
