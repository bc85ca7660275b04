// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@testable import WireGuardCore

@Suite("Engine: persistent keepalive")
struct PersistentKeepaliveTests {
    private func enable(_ seconds: UInt16, _ world: EngineWorld, on node: Int = 0) {
        let other = world[1 - node].publicKey
        world[node].engine.setPersistentKeepalive(seconds, of: other, at: world.now(node), wall: world.wall(node))
    }

    @Test("Enabling keepalives sends one immediately")
    func greets() {
        let world = EngineWorld()
        enable(25, world)
        world.run(for: .seconds(1))
        #expect(world.sent(0, .initiation).count == 1)
        #expect(world.keepalives(0).count == 1)
        #expect(world[0].engine.statistics.handshakesCompleted == 1)
    }

    @Test("Setting the device up sends a keepalive immediately")
    func greetsOnTheWayUp() {
        let world = EngineWorld()
        world[0].engine.setUp(false, at: world.now(0), wall: world.wall(0))
        enable(25, world)
        world.run(for: .seconds(100))
        #expect(world.wire.count == 0)
        world[0].engine.setUp(true, at: world.now(0), wall: world.wall(0))
        world.run(for: .seconds(1))
        #expect(world.keepalives(0).count == 1)
    }

    @Test("A quiet peer gets a keepalive at every interval")
    func interval() {
        let world = EngineWorld()
        enable(20, world)
        world.run(for: .milliseconds(100))
        world.wire.drain()
        world.run(for: .milliseconds(100_100))
        let times = world.keepalives(0).map(\.time)
        #expect(times.count == 5)
        #expect(zip(times.dropFirst(), times).allSatisfy { $0 - $1 == 20_000_000_000 })
        #expect(world.keepalives(1).isEmpty)
    }

    @Test("Traffic that is sent or received puts it off")
    func putOff() {
        let world = EngineWorld()
        enable(20, world)
        world.run(for: .milliseconds(100))
        world.wire.drain()
        for _ in 0..<10 {
            world.send(0, to: 1)
            world.run(for: .seconds(5))
            world.send(1, to: 0)
            world.run(for: .seconds(5))
        }
        #expect(world.keepalives(0).isEmpty)
    }

    @Test("Received packets count as well: one side's keepalives suffice for both")
    func putOffByReceiving() {
        let world = EngineWorld()
        enable(20, world)
        enable(5, world, on: 1)
        world.run(for: .seconds(1))
        world.wire.drain()
        world.run(for: .seconds(100))
        #expect(world.keepalives(0).isEmpty)
        #expect(world.keepalives(1).count >= 18)
    }

    @Test("Switching it off stops it; zero means off")
    func off() {
        let world = EngineWorld()
        enable(20, world)
        world.run(for: .seconds(50))
        enable(0, world)
        world.wire.drain()
        world.run(for: .seconds(1000))
        #expect(world.wire.count == 0)
    }

    @Test("A new interval counts from now, without another greeting")
    func change() {
        let world = EngineWorld()
        enable(100, world)
        world.run(for: .seconds(10))
        world.wire.drain()
        enable(3, world)
        world.run(for: .milliseconds(2_900))
        #expect(world.wire.count == 0)
        world.run(for: .milliseconds(200))
        #expect(world.keepalives(0).count == 1)
    }

    @Test("Keepalives keep a session alive for six hours without data, with a renewal every two minutes")
    func lives() {
        let world = EngineWorld()
        enable(25, world)
        world.run(for: .seconds(21_600))
        let handshakes = world[0].engine.statistics.handshakesCompleted
        #expect((140...180).contains(handshakes))
        #expect(world.snapshot(0, of: 1)?.hasSession == true)
        #expect(world[0].engine.indices.count <= 3)
    }

    @Test("Keepalives survive a peer that is unreachable for an hour")
    func outage() {
        let world = EngineWorld()
        enable(25, world)
        world.run(for: .seconds(60))
        world.onWire = { _ in false }
        world.run(for: .seconds(3600))
        world.onWire = nil
        world.run(for: .seconds(40))
        #expect(world.snapshot(0, of: 1)?.hasSession == true)
        let packet = world.send(1, to: 0)
        world.run(for: .seconds(1))
        #expect(world[0].delivered == [packet])
    }

    @Test("Keepalives start by themselves when a peer without an endpoint gets one")
    func lateEndpoint() {
        let world = EngineWorld()
        world[0].engine.setEndpoint(nil, of: world[1].publicKey)
        enable(25, world)
        world.run(for: .seconds(200))
        #expect(world.wire.count == 0)
        world[0].engine.setEndpoint(world[1].endpoint, of: world[1].publicKey)
        world.run(for: .seconds(26))
        #expect(world.snapshot(0, of: 1)?.hasSession == true)
    }

    @Test("A later endpoint, over UAPI or by itself, gets a keepalive immediately", arguments: [false, true])
    func greetsLateEndpoint(uapi: Bool) {
        let world = EngineWorld()
        world[0].engine.setUp(false, at: world.now(0), wall: world.wall(0))
        world[0].engine.setEndpoint(nil, of: world[1].publicKey)
        enable(25, world)
        world[0].engine.setUp(true, at: world.now(0), wall: world.wall(0))
        world.run(for: .seconds(10))
        if uapi {
            var update = UAPIDeviceUpdate()
            var peer = UAPIPeerUpdate(publicKey: world[1].publicKey)
            peer.endpoint = world[1].endpoint
            update.peers = [peer]
            world[0].engine.apply(update, at: world.now(0), wall: world.wall(0))
        } else {
            world[0].engine.setEndpoint(
                world[1].endpoint, of: world[1].publicKey, at: world.now(0), wall: world.wall(0))
        }
        world.run(for: .seconds(1))
        #expect(world.snapshot(0, of: 1)?.hasSession == true)
    }

    @Test("A peer without endpoint when the device came up is tried again at each interval")
    func lateEndpointAfterUp() {
        let world = EngineWorld()
        world[0].engine.setUp(false, at: world.now(0), wall: world.wall(0))
        world[0].engine.setEndpoint(nil, of: world[1].publicKey)
        enable(25, world)
        world[0].engine.setUp(true, at: world.now(0), wall: world.wall(0))
        world.run(for: .seconds(100))
        world[0].engine.setEndpoint(world[1].endpoint, of: world[1].publicKey)
        world.run(for: .seconds(26))
        #expect(world.snapshot(0, of: 1)?.hasSession == true)
    }

    @Test("The longest interval, 65,535 s, is kept")
    func longest() {
        let world = EngineWorld()
        enable(.max, world)
        world.run(for: .seconds(1))
        world.wire.drain()
        world.run(for: .seconds(65_533))
        #expect(world.wire.count == 0)
        world.run(for: .seconds(2))
        #expect(world.sent(0, .initiation).count == 1)
    }
}

@Suite("Engine: clocks")
struct ClockTests {
    @Test("A clock that goes back neither traps nor expires anything early", arguments: [1, 60, 3600])
    func monotonicBack(seconds: Int) {
        let world = EngineWorld()
        world.establish()
        world.run(for: .seconds(30))
        let back = Instant(nanoseconds: world.clock.nanoseconds) - .seconds(seconds)
        var result = world[0].engine.send(world.packet(from: 0, to: 1, [1]), at: back, wall: world.wall(0))
        #expect(result.count == 1)
        for index in 0..<10 {
            world[0].engine.deadlineReached(at: back + .milliseconds(index), wall: world.wall(0))
            result += world[0].engine.drainAll(at: back, wall: world.wall(0))
        }
        #expect(result.count == 1)
        #expect(world.receive(result[0].bytes, from: world[0].endpoint, at: world[1]) != nil)
        #expect(world.snapshot(0, of: 1)?.hasSession == true)
        #expect(world.sent(0, .initiation).count == 1)
    }

    @Test("Extreme instants do not trap")
    func extremes() {
        let world = EngineWorld()
        world.establish()
        for nanoseconds: Int64 in [.min, -1, 0, .max / 2] {
            let now = Instant(nanoseconds: nanoseconds)
            _ = world[0].engine.send(world.packet(from: 0, to: 1, [1]), at: now, wall: world.wall(0))
            world[0].engine.deadlineReached(at: now, wall: world.wall(0))
            _ = world[0].engine.drainAll(at: now, wall: world.wall(0))
        }
        #expect(world[0].engine.latest == Instant(nanoseconds: .max / 2))
    }

    @Test("A clock that begins at zero or below works")
    func aroundZero() {
        let world = EngineWorld()
        for node in world.nodes { node.monotonicSkew = .seconds(-3601) }
        let packet = world.send(0, to: 1)
        world.run(for: .seconds(10))
        #expect(world[1].delivered == [packet])
    }

    @Test("If the wall clock is set back, timestamps still rise, and handshakes continue")
    func wallBack() {
        let world = EngineWorld()
        world.establish()
        world[0].wallSkew = .seconds(-86_400 * 365)
        world.run(for: .seconds(200))
        let packet = world.send(0, to: 1)
        world.run(for: .seconds(1))
        #expect(world[1].delivered == [packet])
        #expect(world.sent(0, .initiation).count == 2)
    }

    @Test("A wall clock that stands still makes rising timestamps")
    func wallStill() {
        let world = EngineWorld()
        let wall = world.wall(0)
        for round in 0..<5 {
            world[0].wallSkew = .seconds(-round * 200)
            world.send(0, to: 1, [UInt8(round)])
            world.run(for: .seconds(200))
        }
        #expect(world[1].delivered.count == 5)
        #expect(world[1].engine.statistics.rejectedHandshakes == 0)
        #expect(world.peer(0, of: 1)?.lastSentTimestamp.map { $0 > TAI64N(wall) } == true)
    }

    @Test("After hours of sleep the old session is rejected and the first packet makes a new one", arguments: [0, 1])
    func suspend(sleeper: Int) {
        let world = EngineWorld()
        world.establish()
        // One host's clocks stand still relative to the world, then jump.
        world[sleeper].monotonicSkew = .seconds(5 * 3600)
        world[sleeper].wallSkew = .seconds(5 * 3600)
        #expect(world.peer(sleeper, of: 1 - sleeper)?.current != nil)
        let packet = world.send(sleeper, to: 1 - sleeper, [42])
        world.run(for: .seconds(1))
        #expect(world.sent(sleeper, .initiation).count == (sleeper == 0 ? 2 : 1))
        #expect(world[1 - sleeper].delivered == [packet])
        let back = world.send(1 - sleeper, to: sleeper, [43])
        world.run(for: .seconds(1))
        #expect(world[sleeper].delivered == [back])
    }

    @Test("Packets to a host that slept arrive within the 15 s after which silence is noticed")
    func peerSlept() {
        let world = EngineWorld()
        world.establish()
        world[1].monotonicSkew = .seconds(5 * 3600)
        world[1].wallSkew = .seconds(5 * 3600)
        for number in 0..<40 {
            world.send(0, to: 1, [UInt8(number)])
            world.run(for: .milliseconds(500))
        }
        #expect(world[1].delivered.count >= 7)
        #expect(world[1].delivered.last == world.packet(from: 0, to: 1, [39]))
    }
}

@Suite("Engine: deadlines")
struct DeadlineTests {
    @Test("An engine without anything to do has no deadline")
    func none() {
        let world = EngineWorld()
        #expect(world[0].engine.nextDeadline == nil)
        world.run(for: .seconds(10_000))
        #expect(world[0].deadlineCalls == 0)
    }

    @Test("An idle hour with persistent keepalive takes a bounded number of wake-ups")
    func idleWithKeepalive() {
        let world = EngineWorld()
        world[0].engine.setPersistentKeepalive(25, of: world[1].publicKey, at: world.now(0), wall: world.wall(0))
        world.run(for: .seconds(60))
        world.nodes.forEach { $0.deadlineCalls = 0 }
        world.run(for: .seconds(3600))
        #expect(world[0].deadlineCalls <= 300, "\(world[0].deadlineCalls) wake-ups")
        #expect(world[1].deadlineCalls <= 300, "\(world[1].deadlineCalls) wake-ups")
    }

    @Test("An idle hour after traffic takes a handful of wake-ups")
    func idle() {
        let world = EngineWorld()
        world.establish()
        for _ in 0..<50 {
            world.send(0, to: 1)
            world.send(1, to: 0)
            world.run(for: .milliseconds(100))
        }
        world.nodes.forEach { $0.deadlineCalls = 0 }
        world.run(for: .seconds(3600))
        for node in world.nodes { #expect(node.deadlineCalls <= 8, "\(node.deadlineCalls) wake-ups") }
    }

    @Test("A busy quarter of an hour takes no more wake-ups than its timers need")
    func busy() {
        let world = EngineWorld()
        world.establish()
        for _ in 0..<1800 {
            world.send(0, to: 1)
            world.run(for: .milliseconds(250))
            world.send(1, to: 0)
            world.run(for: .milliseconds(250))
        }
        // One wake-up for each early expiry of a timer of 10 or 15 s that traffic has postponed.
        for node in world.nodes { #expect(node.deadlineCalls <= 250, "\(node.deadlineCalls) wake-ups") }
    }

    @Test("The deadline is never later than the earliest timer of any peer", arguments: 0..<20)
    func neverLate(seed: Int) {
        let world = EngineWorld(3, seed: UInt64(seed))
        var random = SeededGenerator(seed: UInt64(seed))
        world.link.conditions.loss = 0.2
        for _ in 0..<200 {
            switch random.int(in: 0..<4) {
            case 0: world.send(random.int(in: 0...2), to: random.int(in: 0...2))
            case 1:
                world[0].engine.setPersistentKeepalive(
                    UInt16(random.int(in: 0...30)), of: world[1].publicKey, at: world.now(0), wall: world.wall(0))
            default: world.run(for: .milliseconds(random.int(in: 1...20_000)))
            }
            for node in world.nodes {
                let earliest = node.engine.peers.compactMap { $0?.earliestDeadline }.min() ?? Peer.never
                guard earliest != Peer.never else { continue }
                #expect((node.engine.nextDeadline?.nanoseconds ?? .max) <= earliest)
            }
        }
    }

    @Test("Serving deadlines too early, or twice, changes nothing")
    func early() {
        let world = EngineWorld()
        world.establish()
        let before = world.wire.count
        for _ in 0..<1000 {
            world[0].engine.deadlineReached(at: world.now(0), wall: world.wall(0))
            world.flush(world[0])
        }
        #expect(world.wire.count == before)
    }
}
