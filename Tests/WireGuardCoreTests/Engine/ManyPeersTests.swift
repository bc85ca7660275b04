// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing

@testable import WireGuardCore

@Suite("Engine: many peers")
struct ManyPeersTests {
    static let count = 100_000

    /// Adds silent peers, each with an address of 11.0.0.0/8.
    static func add(_ count: Int, to node: Node, using random: inout SeededGenerator) -> [PublicKey] {
        (0..<count).compactMap { number in
            guard let key = PublicKey(bytes: random.bytes(32)),
                let prefix = IPPrefix(.v4(0x0b00_0000 + UInt32(number)), length: 32)
            else { return nil }
            node.engine.addPeer(key)
            node.engine.setEndpoint(
                Endpoint(address: .v4(0x0c00_0000 + UInt32(number)), port: 51820), of: key)
            node.engine.addAllowedIP(prefix, to: key)
            return key
        }
    }

    @Test("A hundred thousand peers are added, found, spoken to and removed without trace")
    func hundredThousand() {
        let world = EngineWorld(4)
        var random = SeededGenerator(seed: 1)
        let node = world[0]
        let keys = ManyPeersTests.add(ManyPeersTests.count, to: node, using: &random)
        #expect(keys.count == ManyPeersTests.count)
        #expect(node.engine.peerCount == ManyPeersTests.count + 3)
        #expect(node.engine.nextDeadline == nil)
        for number in stride(from: 0, to: keys.count, by: 997) {
            #expect(node.peer(routing: 0x0b00_0000 + UInt32(number)) == keys[number])
            #expect(node.hasPeer(keys[number]))
        }
        for other in 1...3 {
            world.send(other, to: 0, [1])
            world.send(0, to: other, [2])
        }
        world.run(for: .seconds(6))
        for other in 1...3 { #expect(world[other].delivered.count == 1) }
        #expect(node.delivered.count == 3)

        weak let spoken = world.peer(0, of: 1)
        weak let keypair = world.peer(0, of: 1)?.current
        weak let silent = node.engine.peer(keys[500])
        #expect(spoken != nil && keypair != nil && silent != nil)
        node.engine.removeAllPeers()
        #expect(spoken == nil && keypair == nil && silent == nil)
        #expect(node.engine.peerCount == 0)
        #expect(node.engine.indices.count == 0)
        #expect(node.engine.timers.count == 0)
        #expect(node.engine.nextDeadline == nil)
        #expect(node.peer(routing: 0x0b00_0000) == nil)
    }

    @Test("Three hundred peers with persistent keepalive and no answer: bounded messages, all in time")
    func keepalives() {
        let world = EngineWorld()
        var random = SeededGenerator(seed: 2)
        let node = world[0]
        let keys = ManyPeersTests.add(300, to: node, using: &random)
        for key in keys { node.engine.setPersistentKeepalive(25, of: key, at: world.now(0), wall: world.wall(0)) }
        world.run(for: .seconds(60))
        let initiations = world.sent(0, .initiation)
        var perPeer: [Endpoint: [Int64]] = [:]
        for record in initiations { perPeer[record.message.destination, default: []].append(record.time) }
        // A random key may be a point of no use, so not quite all.
        #expect(perPeer.count >= 290)
        for times in perPeer.values {
            #expect((11...12).contains(times.count))
            #expect(zip(times.dropFirst(), times).allSatisfy { $0 - $1 >= 5_000_000_000 })
        }
        #expect(node.engine.indices.count <= keys.count)
    }

    @Test("Two hundred due keepalives are sent in steps, and the deadline stays due between them")
    func greetedInSteps() {
        let world = EngineWorld()
        var random = SeededGenerator(seed: 4)
        let node = world[0]
        node.engine.setUp(false, at: world.now(0), wall: world.wall(0))
        let keys = ManyPeersTests.add(200, to: node, using: &random)
        for key in keys { node.engine.setPersistentKeepalive(25, of: key, at: world.now(0), wall: world.wall(0)) }
        node.engine.setUp(true, at: world.now(0), wall: world.wall(0))
        var steps: [UInt64] = []
        while let deadline = node.engine.nextDeadline, deadline <= world.now(0), steps.count < 100 {
            let before = node.engine.statistics.initiationsSent
            node.engine.deadlineReached(at: world.now(0), wall: world.wall(0))
            steps.append(node.engine.statistics.initiationsSent - before)
        }
        #expect(steps == Array(repeating: 4, count: 50))
    }

    @Test("The state of ten thousand peers is returned in pieces, which contain each peer once, with any piece size")
    func statesInPieces() {
        let world = EngineWorld()
        var random = SeededGenerator(seed: 6)
        let node = world[0]
        let keys = ManyPeersTests.add(10_000, to: node, using: &random)
        for number in 0..<2_000 {
            guard let prefix = IPPrefix(.v4(0x0d00_0000 + UInt32(number)), length: 32) else { continue }
            node.engine.addAllowedIP(prefix, to: keys[5_000])
        }
        for key in keys[1_000..<1_100] { node.engine.removePeer(key) }
        let whole = node.engine.uapiState
        var state = UAPIDeviceState()
        state.privateKey = whole.privateKey
        var (place, most): (Int?, Int) = (0, 0)
        while let start = place {
            let piece = node.engine.snapshots(from: start, work: 256)
            // The last one may exceed the remaining size.
            most = max(most, piece.peers.dropLast().reduce(0) { $0 + 1 + $1.allowedIPs.count })
            state.peers += piece.peers.map { UAPIPeerState($0) }
            place = piece.next
        }
        #expect(most <= 256 && most > 0)
        #expect(state == whole)
        #expect(state.peers.count == 9_901)
    }

    @Test("Initiations that the outbox has no room for are not made, and come later")
    func outboxFull() {
        var limits = EngineLimits()
        limits.outboxMessages = 4
        let world = EngineWorld(limits: limits)
        var random = SeededGenerator(seed: 5)
        let node = world[0]
        let keys = ManyPeersTests.add(10, to: node, using: &random)
        for key in keys { node.engine.setPersistentKeepalive(25, of: key, at: world.now(0), wall: world.wall(0)) }
        while node.engine.deadlineReached(at: world.now(0), wall: world.wall(0)) > 0 {}
        #expect(node.engine.statistics.initiationsSent == 4)
        #expect(node.engine.statistics.outboxDropped == 6)
        #expect(node.engine.indices.count == 4)
        world.run(for: .seconds(6))
        #expect(Set(world.sent(0, .initiation).map(\.message.destination)).count == 10)
    }

    @Test("Slots and indices of removed peers are used again")
    func reuse() {
        let world = EngineWorld()
        var random = SeededGenerator(seed: 3)
        let node = world[0]
        for _ in 0..<50 {
            let keys = ManyPeersTests.add(100, to: node, using: &random)
            for key in keys.shuffled(using: &random) { node.engine.removePeer(key) }
        }
        #expect(node.engine.peers.count == 101)
        #expect(node.engine.peerCount == 1)
        let packet = world.send(0, to: 1)
        world.run(for: .seconds(1))
        #expect(world[1].delivered == [packet])
    }
}
