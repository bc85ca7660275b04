// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing

@testable import WireGuardCore

/// The timers that renew, repeat and end sessions (WireGuard paper, sections 6.1 to 6.4).
@Suite("Engine: session timers")
struct SessionTimerTests {
    // MARK: Renewal

    @Test("The initiator renews a session when it sends 120 s after its begin, and not before")
    func rekeyOnSend() {
        let world = EngineWorld()
        world.establish()
        world.run(for: .milliseconds(119_800))
        world.send(0, to: 1)
        world.run(for: .milliseconds(50))
        #expect(world.sent(0, .initiation).count == 1)
        world.run(for: .milliseconds(200))
        let packet = world.send(0, to: 1, [7])
        world.run(for: .milliseconds(200))
        #expect(world.sent(0, .initiation).count == 2)
        #expect(world.sent(1, .initiation).isEmpty)
        #expect(world[1].delivered.last == packet)
        #expect(world[0].engine.statistics.handshakesCompleted == 2)
    }

    @Test("Traffic continues in the old session during a handshake, and then moves to the new one")
    func rekeyWithoutGap() {
        let world = EngineWorld()
        world.establish()
        let old = world.sent(0, .data).first?.message.receiver
        world.run(for: .seconds(121))
        var sent: [[UInt8]] = []
        for number in 0..<40 {
            sent.append(world.send(0, to: 1, [UInt8(number)]))
            world.run(for: .milliseconds(2))
        }
        world.run(for: .seconds(1))
        #expect(world[1].delivered == sent)
        #expect(world.sent(0, .data).last?.message.receiver != old)
    }

    @Test("The responder does not renew, however old the session")
    func responderDoesNotRekey() {
        let world = EngineWorld()
        world.establish()
        // The initiator does not receive it, so it has no reason to renew either.
        world.onWire = { $0.source.port == 51820 }
        for _ in 0..<12 {
            world.run(for: .seconds(14))
            world.receive(world.seal(0, to: 1), from: world[0].endpoint, at: world[1])
            world.send(1, to: 0)
            if world.peer(0, of: 1)?.newHandshakeAt != Peer.never { world.peer(0, of: 1)?.newHandshakeAt = Peer.never }
        }
        #expect(world.sent(1, .initiation).isEmpty)
    }

    @Test("The responder starts its own handshake when the session is rejected")
    func responderAfterRejection() {
        let world = EngineWorld()
        world.establish()
        world.run(for: .seconds(181))
        let packet = world.send(1, to: 0)
        world.run(for: .seconds(1))
        #expect(world.sent(1, .initiation).count == 1)
        #expect(world[0].delivered == [packet])
    }

    @Test("The initiator renews a session of 165 s when it receives, once")
    func rekeyOnReceive() {
        let world = EngineWorld()
        world.establish()
        world.run(for: .milliseconds(164_600))
        world.send(1, to: 0)
        world.run(for: .milliseconds(100))
        #expect(world.sent(0, .initiation).count == 1)
        world.run(for: .milliseconds(400))
        world.onWire = { $0.kind != .initiation }
        world.send(1, to: 0)
        world.run(for: .milliseconds(100))
        #expect(world.sent(0, .initiation).count == 2)
        // From here on only the repetition after five seconds is due, even if packets arrive.
        for _ in 0..<20 {
            world.send(1, to: 0)
            world.run(for: .milliseconds(100))
        }
        #expect(world.sent(0, .initiation).count == 2)
        world.onWire = nil
        world.run(for: .seconds(5))
        #expect(world.sent(0, .initiation).count == 3)
        #expect(world[0].engine.statistics.handshakesCompleted == 2)
    }

    @Test("The responder does not renew at 165 s")
    func responderDoesNotRekeyOnReceive() {
        let world = EngineWorld()
        world.establish()
        world.run(for: .seconds(166))
        let sealed = world.seal(0, to: 1)
        world[0].engine.setUp(false, at: world.now(0), wall: world.wall(0))
        world.receive(sealed, from: world[0].endpoint, at: world[1])
        world.run(for: .seconds(1))
        #expect(world.sent(1, .initiation).isEmpty)
    }

    // MARK: Rejection

    @Test("A session is not sent through after 180 s")
    func rejectSending() {
        let world = EngineWorld()
        world.establish()
        let old = world.sent(0, .data).last?.message.receiver
        world.onWire = { $0.kind != .initiation }
        world.run(for: .milliseconds(179_800))
        world.send(0, to: 1)
        #expect(world.sent(0, .data).count == 2)
        world.run(for: .milliseconds(500))
        world.send(0, to: 1)
        #expect(world.sent(0, .data).count == 2)
        world.onWire = nil
        world.run(for: .seconds(12))
        #expect(world[1].delivered.count == 2)
        #expect(world.sent(0, .data).last?.message.receiver != old)
    }

    @Test("A session is not received through after 180 s")
    func rejectReceiving() {
        let world = EngineWorld()
        world.establish()
        world.run(for: .milliseconds(179_500))
        let intime = world.seal(0, to: 1, [1])
        let late = world.seal(0, to: 1, [2])
        #expect(world.receive(intime, from: world[0].endpoint, at: world[1]) != nil)
        world.run(for: .seconds(1))
        let unknown = world[1].engine.statistics.unknownSession
        #expect(world.receive(late, from: world[0].endpoint, at: world[1]) == nil)
        #expect(world[1].engine.statistics.unknownSession == unknown + 1)
    }

    @Test("All keys of a quiet session are wiped after 540 s")
    func wipe() throws {
        let world = EngineWorld()
        world.establish()
        weak var one: Keypair?
        weak var keys: SessionKeys?
        weak var other: Keypair?
        one = world.peer(0, of: 1)?.current
        keys = world.peer(0, of: 1)?.current?.keys
        other = world.peer(1, of: 0)?.current
        #expect(one != nil && keys != nil && other != nil)
        world.run(for: .milliseconds(539_800))
        #expect(one != nil)
        world.run(for: .milliseconds(300))
        #expect(one == nil && keys == nil && other == nil)
        #expect(world[0].engine.indices.count == 0)
        #expect(world[1].engine.indices.count == 0)
        #expect(world[0].engine.nextDeadline == nil)
        world.send(0, to: 1)
        world.run(for: .seconds(1))
        #expect(world[1].delivered.count == 1)
    }

    @Test("A handshake in progress when old keys are wiped continues")
    func wipeDuringHandshake() {
        let world = EngineWorld()
        world.establish()
        world.run(for: .milliseconds(538_000))
        world.onWire = { $0.kind != .initiation }
        let packet = world.send(0, to: 1, [5])
        world.run(for: .seconds(3))
        world.onWire = nil
        world.run(for: .seconds(6))
        #expect(world[1].delivered == [packet])
    }

    // MARK: Repetition

    @Test("An unanswered initiation is repeated after 5 s and up to 333 ms, 19 times, then abandoned")
    func retransmission() {
        let world = EngineWorld(seed: 9)
        world.onWire = { _ in false }
        let start = world.clock.nanoseconds
        world.send(0, to: 1)
        world.run(for: .seconds(1000))
        let times = world.sent(0, .initiation).map { $0.seconds(since: start) }
        #expect(times.count == 20)
        let gaps = zip(times.dropFirst(), times).map { $0 - $1 }
        #expect(gaps.allSatisfy { $0 >= 5 && $0 <= 5.333 })
        // Jitter spreads them.
        #expect(Set(gaps.map { Int($0 * 1e6) }).count > 15)
        #expect((95...107).contains(times.last ?? 0))
        #expect(world[0].engine.statistics.stagedDropped == 1)
        #expect(world.peer(0, of: 1)?.staged.isEmpty == true)
        #expect(world[0].engine.stagedBytes == 0)
        #expect(world[0].engine.indices.count == 0)
        #expect(world[0].engine.nextDeadline == nil)
    }

    @Test("Every repetition is a new handshake with a later timestamp")
    func retransmissionIsFresh() {
        let world = EngineWorld(seed: 9)
        var dropped = 0
        world.onWire = { flight in
            guard flight.kind == .initiation, dropped < 5 else { return true }
            dropped += 1
            return false
        }
        let packet = world.send(0, to: 1)
        world.run(for: .seconds(40))
        let initiations = world.sent(0, .initiation).map(\.message)
        #expect(initiations.count == 6)
        #expect(Set(initiations.map { $0.word(at: 4) }).count == 6)
        #expect(Set(initiations.map { $0.bytes[8..<40] }).count == 6)
        #expect(world[1].delivered == [packet])
        #expect(world[0].engine.indices.count == 1)
    }

    @Test("After an abandoned handshake, a new packet starts another one")
    func startsAnew() {
        let world = EngineWorld()
        world.onWire = { _ in false }
        world.send(0, to: 1, [1])
        world.run(for: .seconds(200))
        let before = world.sent(0, .initiation).count
        world.onWire = nil
        let packet = world.send(0, to: 1, [2])
        world.run(for: .seconds(1))
        #expect(world.sent(0, .initiation).count == before + 1)
        #expect(world[1].delivered == [packet])
    }

    @Test("New packets during a handshake send no further initiation, but prevent its abandonment")
    func packetsDuringHandshake() {
        let world = EngineWorld()
        world.onWire = { _ in false }
        for _ in 0..<1200 {
            world.send(0, to: 1)
            world.run(for: .milliseconds(100))
        }
        let initiations = world.sent(0, .initiation)
        let gaps = zip(initiations.dropFirst(), initiations).map { Double($0.time - $1.time) / 1e9 }
        #expect((22...24).contains(initiations.count))
        #expect(gaps.allSatisfy { $0 >= 5 })
        #expect(world.peer(0, of: 1)?.staged.count == 128)
    }

    @Test("A response that takes just under five seconds still counts")
    func slowResponse() {
        let world = EngineWorld()
        world.link.conditions.delay = .milliseconds(2450)...(.milliseconds(2450))
        let packet = world.send(0, to: 1)
        world.run(for: .seconds(10))
        #expect(world.sent(0, .initiation).count == 1)
        #expect(world[1].delivered == [packet])
    }

    // MARK: Silence

    @Test("A peer that got data and sends nothing answers with a keepalive after 10 s, which is not answered")
    func passiveKeepalive() {
        let world = EngineWorld()
        world.establish()
        world.run(for: .seconds(15))
        world.wire.drain()
        let start = world.clock.nanoseconds
        world.send(0, to: 1)
        world.run(for: .seconds(120))
        let answers = world.keepalives(1).map { $0.seconds(since: start) }
        #expect(answers.count == 1)
        #expect(answers.allSatisfy { abs($0 - 10.01) < 1e-6 })
        #expect(world.keepalives(0).isEmpty)
        #expect(world.wire.count == 2)
        #expect(world[0].engine.statistics.keepalivesReceived == 2)
    }

    @Test("One keepalive answers all data that came before it")
    func onePassiveKeepalive() {
        let world = EngineWorld()
        world.establish()
        world.run(for: .seconds(15))
        world.wire.drain()
        let start = world.clock.nanoseconds
        for _ in 0..<9 {
            world.send(0, to: 1)
            world.run(for: .seconds(1))
        }
        world.run(for: .seconds(60))
        let answers = world.keepalives(1).map { $0.seconds(since: start) }
        #expect(answers.count == 1)
        #expect(answers.allSatisfy { abs($0 - 10.01) < 1e-6 })
        #expect(world.sent(0, .initiation).isEmpty)
    }

    @Test("Sending anything in time spares the keepalive")
    func passiveKeepaliveSpared() {
        let world = EngineWorld()
        world.establish()
        world.run(for: .seconds(15))
        world.wire.drain()
        for _ in 0..<12 {
            world.send(0, to: 1)
            world.run(for: .seconds(4))
            world.send(1, to: 0)
            world.run(for: .seconds(4))
        }
        #expect(world.keepalives(0).isEmpty)
        #expect(world.keepalives(1).isEmpty)
    }

    @Test("A stream one way is answered by a keepalive about every 10 s")
    func passiveKeepaliveInStream() {
        let world = EngineWorld()
        world.establish()
        world.run(for: .seconds(20))
        world.wire.drain()
        for _ in 0..<90 {
            world.send(0, to: 1)
            world.run(for: .seconds(1))
        }
        #expect((8...9).contains(world.keepalives(1).count))
        #expect(world.sent(0, .initiation).isEmpty)
    }

    @Test("Data without any answer for 15 s begins a new handshake")
    func newHandshakeWhenNothingHeard() {
        let world = EngineWorld(seed: 4)
        world.establish()
        world.run(for: .seconds(20))
        world.wire.drain()
        world.onWire = { $0.source.port == 51820 }
        let start = world.clock.nanoseconds
        for _ in 0..<30 {
            world.send(0, to: 1)
            world.run(for: .milliseconds(500))
        }
        #expect(world.sent(0, .initiation).isEmpty)
        world.run(for: .milliseconds(400))
        let times = world.sent(0, .initiation).map { $0.seconds(since: start) }
        #expect(times.count == 1)
        #expect(times.allSatisfy { (15.0...15.333).contains($0) })
    }

    @Test("Keepalives sent without answer begin no handshake")
    func keepaliveExpectsNoAnswer() {
        let world = EngineWorld()
        world.establish()
        world.run(for: .seconds(15))
        world.wire.drain()
        world.send(1, to: 0)
        world.run(for: .seconds(60))
        #expect(world.keepalives(0).count == 1)
        #expect(world.sent(0, .initiation).isEmpty && world.sent(1, .initiation).isEmpty)
    }
}
