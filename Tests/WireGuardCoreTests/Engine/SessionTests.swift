// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@testable import WireGuardCore

@Suite("Engine: sessions")
struct SessionTests {
    // MARK: Three keypairs

    @Test("A datagram sealed before a renewal still opens after it")
    func previousStillOpens() {
        let world = EngineWorld()
        world.establish()
        world.run(for: .seconds(119))
        let early = [world.seal(0, to: 1, [1]), world.seal(0, to: 1, [2])]
        let back = world.seal(1, to: 0, [3])
        world.run(for: .seconds(2))
        world.send(0, to: 1)
        world.run(for: .seconds(1))
        #expect(world[0].engine.statistics.handshakesCompleted == 2)
        #expect(world.peer(0, of: 1)?.previous != nil)
        #expect(world.peer(1, of: 0)?.previous != nil)
        for datagram in early { #expect(world.receive(datagram, from: world[0].endpoint, at: world[1]) != nil) }
        #expect(world.receive(back, from: world[1].endpoint, at: world[0]) != nil)
    }

    @Test("A datagram sealed two renewals ago does not open")
    func oneBeforePreviousIsGone() {
        let world = EngineWorld()
        world.establish()
        let old = world.seal(0, to: 1, [1])
        for _ in 0..<2 {
            world.peer(0, of: 1)?.current?.expireForSending()
            world.run(for: .seconds(6))
            world.send(0, to: 1)
            world.run(for: .seconds(1))
        }
        #expect(world[0].engine.statistics.handshakesCompleted == 3)
        let unknown = world[1].engine.statistics.unknownSession
        #expect(world.receive(old, from: world[0].endpoint, at: world[1]) == nil)
        #expect(world[1].engine.statistics.unknownSession == unknown + 1)
    }

    @Test("Answering an initiation keeps the current session until the new one is used")
    func nextWaits() throws {
        let world = EngineWorld()
        world.establish()
        let current = try #require(world.peer(1, of: 0)?.current)
        world.peer(0, of: 1)?.current?.expireForSending()
        world.run(for: .seconds(6))
        world.onWire = { $0.kind != .response }
        world.send(0, to: 1)
        world.run(for: .seconds(1))
        #expect(world.peer(1, of: 0)?.current === current)
        #expect(world.peer(1, of: 0)?.next != nil)
        // Someone who recorded the initiation cannot make the responder switch.
        let packet = world.send(1, to: 0, [9])
        world.run(for: .milliseconds(100))
        #expect(world[0].delivered == [packet])
    }

    @Test("A keepalive is enough to promote the next session")
    func keepalivePromotes() {
        let world = EngineWorld()
        world[0].engine.setPersistentKeepalive(25, of: world[1].publicKey, at: world.now(0), wall: world.wall(0))
        world.run(for: .seconds(1))
        #expect(world.peer(1, of: 0)?.current != nil)
        #expect(world.peer(1, of: 0)?.next == nil)
    }

    @Test("Data that is not authentic does not promote the next session")
    func forgeryDoesNotPromote() throws {
        let world = EngineWorld()
        world.onWire = { $0.kind != .data }
        world.send(0, to: 1)
        world.run(for: .milliseconds(100))
        var datagram = try #require(world.sent(0, .data).first?.message.bytes)
        datagram[20] ^= 1
        world.receive(datagram, from: world[0].endpoint, at: world[1])
        #expect(world.peer(1, of: 0)?.current == nil)
        datagram[20] ^= 1
        world.receive(datagram, from: world[0].endpoint, at: world[1])
        #expect(world.peer(1, of: 0)?.current != nil)
    }

    @Test("A host that restarted is back with its next handshake, from either side", arguments: [0, 1])
    func restart(index: Int) {
        let world = EngineWorld()
        world.establish()
        world.run(for: .seconds(10))
        world.restart(index, seed: 99)
        let packet = world.send(index, to: 1 - index, [1])
        world.run(for: .seconds(1))
        #expect(world[1 - index].delivered == [packet])
        let back = world.send(1 - index, to: index, [2])
        world.run(for: .seconds(1))
        #expect(world[index].delivered == [back])
    }

    @Test("Indices do not accumulate over many handshakes")
    func indices() {
        let world = EngineWorld()
        for round in 0..<30 {
            world.peer(0, of: 1)?.current?.expireForSending()
            world.peer(1, of: 0)?.current?.expireForSending()
            world.send(round % 2, to: 1 - round % 2)
            world.run(for: .seconds(6))
            #expect(world[0].engine.indices.count <= 4)
            #expect(world[1].engine.indices.count <= 4)
        }
        #expect(world[0].engine.statistics.handshakesCompleted == 30)
    }

    // MARK: Limits of a session

    @Test("The last counter is used, then a new session")
    func sendLimit() {
        let world = EngineWorld()
        world.establish()
        world.run(for: .seconds(10))
        let limit = ReplayWindow.rejectAfterMessages
        world.peer(0, of: 1)?.current?.sendCounter = limit - 2
        world.wire.drain()
        let packets = (0..<4).map { world.send(0, to: 1, [$0]) }
        world.run(for: .seconds(1))
        #expect(world[1].delivered == packets)
        let counters = world.sent(0, .data).map(\.message.counter)
        #expect(Array(counters.prefix(2)) == [limit - 2, limit - 1])
        #expect(counters.dropFirst(2).allSatisfy { $0 < 10 })
        #expect(world.sent(0, .initiation).count == 1)
    }

    @Test("A batch that crosses the limit is split between the sessions, in order")
    func sendLimitInBatch() {
        let world = EngineWorld()
        world.establish()
        world.run(for: .seconds(10))
        world.peer(0, of: 1)?.current?.sendCounter = ReplayWindow.rejectAfterMessages - 3
        let packets = (0..<10).map { world.packet(from: 0, to: 1, [$0]) }
        let batch = TestBatch(packets)
        let plan = SendPlan()
        unsafe batch.withViews { views in
            unsafe world[0].engine.planSend(views, mtu: 1420, at: world.now(0), wall: world.wall(0), into: plan)
        }
        let sealed = batch.seal(plan)
        #expect(sealed.count == 3)
        for datagram in sealed { world.transmit(datagram, from: world[0]) }
        world.run(for: .seconds(1))
        #expect(world[1].delivered == packets)
    }

    @Test("A session is renewed after 2^60 packets, from either side", arguments: [0, 1])
    func rekeyAfterMessages(sender: Int) {
        let world = EngineWorld()
        world.establish()
        world.run(for: .seconds(10))
        world.peer(sender, of: 1 - sender)?.current?.sendCounter = 1 << 60
        world.wire.drain()
        world.send(sender, to: 1 - sender)
        world.run(for: .seconds(1))
        #expect(world.sent(sender, .initiation).count == 1)
        #expect(world[sender].engine.statistics.handshakesCompleted == 2)
    }

    @Test("Counters from the limit on are refused, authentic or not")
    func receiveLimit() throws {
        let world = EngineWorld()
        world.establish()
        let keypair = try #require(world.peer(0, of: 1)?.current)
        for counter in [ReplayWindow.rejectAfterMessages, .max] {
            let datagram = seal(world.packet(from: 0, to: 1, [1]), keypair.keys, counter: counter)
            #expect(world.receive(datagram, from: world[0].endpoint, at: world[1]) == nil)
        }
        #expect(world[1].engine.statistics.replayed == 2)
        let last = seal(world.packet(from: 0, to: 1, [1]), keypair.keys, counter: ReplayWindow.rejectAfterMessages - 1)
        #expect(world.receive(last, from: world[0].endpoint, at: world[1]) != nil)
    }

    // MARK: Replay

    @Test("A datagram is delivered once")
    func replay() {
        let world = EngineWorld()
        world.establish()
        let datagrams = (0..<100).map { world.seal(0, to: 1, [UInt8($0)]) }
        for datagram in datagrams.reversed() { world.receive(datagram, from: world[0].endpoint, at: world[1]) }
        for datagram in datagrams { world.receive(datagram, from: world[0].endpoint, at: world[1]) }
        #expect(world[1].delivered.count == 100)
        #expect(world[1].engine.statistics.replayed == 100)
    }

    @Test("A datagram twice in one batch is delivered once")
    func replayInBatch() {
        let world = EngineWorld()
        world.establish()
        let (one, other) = (world.seal(0, to: 1, [1]), world.seal(0, to: 1, [2]))
        let batch = TestBatch([one, other, one, one, other])
        let plan = ReceivePlan(capacity: 8)
        let delivered = receive(batch, plan, world)
        #expect(delivered == [true, true, false, false, false])
        #expect(world[1].engine.statistics.replayed == 3)
    }

    @Test("A replayed initiation is refused, immediately and much later")
    func replayedInitiation() throws {
        let world = EngineWorld()
        world.establish()
        let initiation = try #require(world.sent(0, .initiation).first?.message)
        let session = world.peer(1, of: 0)?.current
        world.arrive(initiation)
        world.run(for: .seconds(30))
        world.arrive(initiation)
        #expect(world[1].engine.statistics.rejectedHandshakes == 2)
        #expect(world[1].engine.statistics.responsesSent == 1)
        #expect(world.peer(1, of: 0)?.current === session)
        #expect(world.peer(1, of: 0)?.next == nil)
        // Even after all keys were wiped, and after the peer was down.
        world.run(for: .seconds(600))
        world[1].engine.setUp(false, at: world.now(1), wall: world.wall(1))
        world[1].engine.setUp(true, at: world.now(1), wall: world.wall(1))
        world.arrive(initiation)
        #expect(world[1].engine.statistics.responsesSent == 1)
    }

    @Test("A replayed initiation is refused also after all peers were replaced by themselves")
    func replayAfterReplacement() throws {
        let world = EngineWorld()
        world.establish()
        let initiation = try #require(world.sent(0, .initiation).first?.message)
        let proved = try #require(world.peer(1, of: 0)?.lastReceivedTimestamp)
        var update = UAPIDeviceUpdate()
        update.replacePeers = true
        update.peers = [UAPIPeerUpdate(publicKey: world[0].publicKey)]
        let session = world.peer(1, of: 0)?.current
        world[1].engine.apply(update, at: world.now(1), wall: world.wall(1))
        #expect(session != nil && world.peer(1, of: 0)?.current === session)
        #expect(world.peer(1, of: 0)?.lastReceivedTimestamp == proved)
        world.arrive(initiation)
        #expect(world[1].engine.statistics.responsesSent == 1)
        // The same holds if the update ends the session.
        update.privateKey = .clear
        world[1].engine.apply(update, at: world.now(1), wall: world.wall(1))
        update.privateKey = .set(world[1].privateKey)
        world[1].engine.apply(update, at: world.now(1), wall: world.wall(1))
        world.arrive(initiation)
        #expect(world.peer(1, of: 0)?.current == nil && world[1].engine.statistics.responsesSent == 1)
        // A peer that the update does not name is forgotten.
        update.peers = []
        world[1].engine.apply(update, at: world.now(1), wall: world.wall(1))
        #expect(world[1].engine.peerCount == 0)
    }

    @Test("Initiations less than 20 ms apart are dropped")
    func flood() {
        let world = EngineWorld()
        world.onWire = { _ in false }
        var initiations: [[UInt8]] = []
        for _ in 0..<3 {
            world.send(0, to: 1)
            if let last = world.sent(0, .initiation).last { initiations.append(last.message.bytes) }
            world.run(for: .milliseconds(5_100))
            world.peer(0, of: 1)?.lastHandshakeSent = nil
        }
        #expect(Set(initiations).count == 3)
        world.receive(initiations[0], from: world[0].endpoint, at: world[1])
        world.run(for: .milliseconds(19))
        world.receive(initiations[1], from: world[0].endpoint, at: world[1])
        #expect(world[1].engine.statistics.responsesSent == 1)
        #expect(world[1].engine.statistics.initiationFloods == 1)
        world.run(for: .milliseconds(1))
        world.receive(initiations[2], from: world[0].endpoint, at: world[1])
        #expect(world[1].engine.statistics.responsesSent == 2)
    }

    // MARK: Packets that wait

    @Test("Waiting packets are sent in order, before later ones")
    func stagedOrder() {
        let world = EngineWorld()
        var packets: [[UInt8]] = []
        for number in 0..<60 {
            packets.append(world.send(0, to: 1, [UInt8(number)]))
            world.run(for: .milliseconds(1))
        }
        world.run(for: .seconds(1))
        #expect(world[1].delivered == packets)
    }

    @Test("At most 128 packets wait for a peer; the oldest give way")
    func stagedCount() {
        let world = EngineWorld()
        let packets = (0..<200).map { world.send(0, to: 1, [UInt8($0)]) }
        world.run(for: .seconds(1))
        #expect(world[1].delivered == Array(packets.suffix(128)))
        #expect(world[0].engine.statistics.stagedDropped == 72)
        #expect(world[0].engine.stagedBytes == 0)
    }

    @Test("The bytes that wait are bounded over all peers")
    func stagedBytes() {
        var limits = EngineLimits()
        limits.stagedBytes = 10_000
        let world = EngineWorld(4, limits: limits)
        world.onWire = { _ in false }
        for number in 0..<100 {
            world.send(0, to: 1 + number % 3, [UInt8](repeating: UInt8(number), count: 980))
            #expect(world[0].engine.stagedBytes <= 10_000)
        }
        let waiting = (1...3).map { world.peer(0, of: $0)?.staged.count ?? 0 }.reduce(0, +)
        #expect(waiting == 10)
        #expect(world[0].engine.statistics.stagedDropped == 90)
        world.run(for: .seconds(300))
        #expect(world[0].engine.stagedBytes == 0)
    }

    @Test("A packet beyond the staging bound is dropped and counted, and drops no other")
    func stagedTooLarge() {
        var limits = EngineLimits()
        limits.stagedBytes = 1_000
        limits.stagedPacketsPerPeer = 2
        let world = EngineWorld(limits: limits)
        let small = [world.send(0, to: 1, [1]), world.send(0, to: 1, [2])]
        world.send(0, to: 1, [UInt8](repeating: 0, count: 2_000))
        world.run(for: .seconds(1))
        #expect(world[1].delivered == small)
        #expect(world[0].engine.statistics.stagedDropped == 1)
    }

    @Test("A drain stays within its limits, and returns the rest later")
    func drainInParts() {
        let world = EngineWorld()
        world.onWire = { $0.kind != .response }
        let packets = (0..<100).map { world.packet(from: 0, to: 1, [UInt8](repeating: UInt8($0), count: 80)) }
        for packet in packets { world.send(packet, from: 0) }
        world.run(for: .milliseconds(15))
        guard let response = world.sent(1, .response).first?.message else {
            Issue.record("no response")
            return
        }
        _ = world[0].engine.receive(response.bytes, from: response.source, at: world.now(0), wall: world.wall(0))
        var counts: [Int] = []
        let plan = DrainPlan()
        while world[0].engine.hasPending, counts.count < 1000 {
            world[0].engine.drain(
                into: plan, maximumMessages: 7, maximumBytes: 600, mtu: 1420, at: world.now(0), wall: world.wall(0))
            counts.append(plan.count)
            var bytes = 0
            unsafe withUnsafeTemporaryAllocation(byteCount: 600, alignment: 16) { out in
                guard let start = out.baseAddress else { return }
                unsafe plan.write(into: start, capacity: 600) { offset, byteCount, endpoint in
                    bytes += byteCount
                    unsafe world.transmit(
                        OutgoingDatagram(
                            bytes: Array(UnsafeRawBufferPointer(start: start + offset, count: byteCount)),
                            endpoint: endpoint), from: world[0])
                }
            }
            #expect(bytes <= 600)
        }
        #expect(counts.allSatisfy { (1...7).contains($0) })
        #expect(counts.reduce(0, +) == 100)
        world.run(for: .seconds(1))
        #expect(world[1].delivered == packets)
    }

    @Test("Handshake messages are drained in parts too, and no drain exceeds its bytes")
    func drainMessagesInParts() {
        let world = EngineWorld(11)
        for other in 1...10 {
            _ = world[0].engine.addPeer(world[other].publicKey)
            world[0].engine.setPersistentKeepalive(
                25, of: world[other].publicKey, at: world.now(0), wall: world.wall(0))
        }
        while world[0].engine.deadlineReached(at: world.now(0), wall: world.wall(0)) > 0 {}
        let plan = DrainPlan()
        var initiations = 0
        for _ in 0..<10 {
            world[0].engine.drain(
                into: plan, maximumMessages: 64, maximumBytes: 500, mtu: 1420, at: world.now(0), wall: world.wall(0))
            unsafe withUnsafeTemporaryAllocation(byteCount: 500, alignment: 16) { out in
                guard let start = out.baseAddress else { return }
                unsafe plan.write(into: start, capacity: 500) { _, _, _ in initiations += 1 }
            }
        }
        #expect(initiations == 10)
    }

    @Test("A message longer than a drain's bytes goes alone, not never")
    func drainOne() {
        let world = EngineWorld(3)
        for other in 1...2 {
            world[0].engine.setPersistentKeepalive(
                25, of: world[other].publicKey, at: world.now(0), wall: world.wall(0))
        }
        world[0].engine.deadlineReached(at: world.now(0), wall: world.wall(0))
        let plan = DrainPlan()
        for _ in 1...2 {
            world[0].engine.drain(
                into: plan, maximumMessages: 64, maximumBytes: 1, mtu: 1420, at: world.now(0), wall: world.wall(0))
            #expect(plan.count == 1)
        }
        let isPending = world[0].engine.hasPending
        #expect(!isPending)
    }

    @Test("Packets that wait while the endpoint goes stay until there is one again")
    func stagedWithoutEndpoint() {
        let world = EngineWorld()
        world.establish()
        let endpoint = world[1].endpoint
        world[0].engine.setPersistentKeepalive(10, of: world[1].publicKey, at: world.now(0), wall: world.wall(0))
        world[0].engine.setEndpoint(nil, of: world[1].publicKey)
        world.run(for: .seconds(60))
        world[0].engine.setEndpoint(endpoint, of: world[1].publicKey)
        world.run(for: .seconds(11))
        #expect(world.keepalives(0).count >= 1)
        let isPending = world[0].engine.hasPending
        #expect(!isPending)
    }

    // MARK: Helpers

    private func seal(_ packet: [UInt8], _ keys: SessionKeys, counter: UInt64) -> [UInt8] {
        Forge.data(packet, keys, counter: counter)
    }

    private func receive(_ batch: TestBatch, _ plan: ReceivePlan, _ world: EngineWorld) -> [Bool] {
        batch.receive(plan, at: world[1], from: world[0].endpoint, world)
    }
}
