// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing

@testable import WireGuardCore

@Suite("Engine: handshake")
struct HandshakeTests {
    @Test("A first packet brings about one handshake, then arrives", arguments: [false, true])
    func firstPacket(preshared: Bool) {
        let world = EngineWorld(preshared: preshared)
        let packet = world.send(0, to: 1, Array("hello".utf8))
        world.run(for: .seconds(1))
        #expect(world[1].delivered == [packet])
        #expect(world.sent(0, .initiation).count == 1)
        #expect(world.sent(1, .response).count == 1)
        #expect(world.sent(0, .data).count == 1)
        #expect(world.sent(1, .data).isEmpty)
        #expect(world[0].engine.statistics.handshakesCompleted == 1)
        #expect(world[1].engine.statistics.handshakesCompleted == 1)
    }

    @Test("Data flows both ways over one session", arguments: [false, true])
    func bothWays(preshared: Bool) {
        let world = EngineWorld(preshared: preshared)
        world.establish()
        var (there, back): ([[UInt8]], [[UInt8]]) = ([], [])
        for number in 0..<50 {
            there.append(world.send(0, to: 1, [UInt8](repeating: UInt8(number), count: number * 28)))
            back.append(world.send(1, to: 0, [UInt8](repeating: UInt8(200 + number % 50), count: number)))
            world.run(for: .milliseconds(30))
        }
        #expect(world[1].delivered == there)
        #expect(world[0].delivered == back)
        #expect(world.sent(0, .initiation).count == 1)
        #expect(world.sent(1, .initiation).isEmpty)
    }

    @Test("Both sides derive the same keys, in opposite directions")
    func sameKeys() throws {
        let world = EngineWorld(preshared: true)
        world.establish()
        let (one, other) = (try #require(world.peer(0, of: 1)?.current), try #require(world.peer(1, of: 0)?.current))
        #expect(one.isInitiator && !other.isInitiator)
        #expect(one.keys.localIndex == other.keys.remoteIndex)
        #expect(one.keys.remoteIndex == other.keys.localIndex)
        #expect(one.keys.localIndex != one.keys.remoteIndex)
    }

    @Test("Messages have the sizes and fields of the paper")
    func layout() throws {
        let world = EngineWorld()
        world.send(0, to: 1, [])
        world.run(for: .seconds(11))
        let initiation = try #require(world.sent(0, .initiation).first?.message)
        let response = try #require(world.sent(1, .response).first?.message)
        #expect(initiation.bytes.count == 148)
        #expect(Array(initiation.bytes.prefix(4)) == [1, 0, 0, 0])
        #expect(response.bytes.count == 92)
        #expect(Array(response.bytes.prefix(4)) == [2, 0, 0, 0])
        // The response names the initiation's sender; transport data names each side's own choice.
        #expect(response.word(at: 8) == initiation.word(at: 4))
        let data = try #require(world.sent(0, .data).first?.message)
        #expect(Array(data.bytes.prefix(4)) == [4, 0, 0, 0])
        #expect(data.receiver == response.word(at: 4))
        #expect(data.counter == 0)
        #expect(data.bytes.count == 16 + 32 + 16)
        let keepalive = try #require(world.keepalives(1).first?.message)
        #expect(keepalive.receiver == initiation.word(at: 4))
        #expect(keepalive.bytes.count == 32)
        // There is no cookie yet.
        #expect(initiation.bytes[132...].allSatisfy { $0 == 0 })
        #expect(response.bytes[76...].allSatisfy { $0 == 0 })
    }

    @Test("mac1 is the keyed BLAKE2s of what precedes it, under the receiver's public key")
    func mac1() throws {
        let world = EngineWorld()
        world.establish()
        let initiation = try #require(world.sent(0, .initiation).first?.message.bytes)
        let response = try #require(world.sent(1, .response).first?.message.bytes)
        #expect(Array(initiation[116..<132]) == Forge.mac1(of: initiation, for: world[1].publicKey))
        #expect(Array(response[60..<76]) == Forge.mac1(of: response, for: world[0].publicKey))
    }

    @Test("Keys and ephemerals are fresh in each handshake")
    func freshness() {
        let world = EngineWorld()
        world.establish()
        world.run(for: .seconds(600))
        world.establish()
        let initiations = world.sent(0, .initiation).map { Array($0.message.bytes[4..<116]) }
        #expect(initiations.count == 2)
        #expect(Set(initiations.map { $0[4..<36] }).count == 2)
        #expect(Set(world.sent(1, .response).map { $0.message.bytes[12..<44] }).count == 2)
    }

    @Test("The responder sends nothing under new keys before the initiator has used them")
    func responderWaits() {
        let world = EngineWorld()
        world.onWire = { $0.kind != .data }
        world.send(0, to: 1)
        world.run(for: .milliseconds(100))
        #expect(world.peer(1, of: 0)?.next != nil)
        #expect(world.peer(1, of: 0)?.current == nil)
        world.send(1, to: 0)
        world.run(for: .milliseconds(100))
        #expect(world.sent(1, .data).isEmpty)
    }

    @Test("A responder with packets waiting lets the handshake that it answered finish before it begins its own")
    func responderDoesNotCross() {
        let world = EngineWorld()
        world.send(0, to: 1)
        // The response is on its way; the initiator's first packet is not here yet.
        world.run(for: .milliseconds(15))
        let packet = world.send(1, to: 0)
        world.run(for: .seconds(2))
        #expect(world.sent(1, .initiation).isEmpty)
        #expect(world[0].delivered == [packet])
    }

    @Test("A responder whose answered handshake comes to nothing begins its own after the timeout")
    func responderTakesOver() {
        let world = EngineWorld()
        let start = world.clock.nanoseconds
        // Nothing that the first initiator seals ever arrives.
        world.onWire = { $0.kind != .data || $0.source.port != 51820 }
        world.send(0, to: 1)
        world.run(for: .milliseconds(15))
        let packet = world.send(1, to: 0)
        world.run(for: .seconds(6))
        let initiations = world.sent(1, .initiation).map { $0.seconds(since: start) }
        #expect(initiations.count == 1)
        #expect(initiations.allSatisfy { (5.0...5.4).contains($0) })
        #expect(world[0].delivered == [packet])
    }

    @Test("Initiations that cross leave both sides with sessions that work")
    func crossing() {
        let world = EngineWorld()
        let there = world.send(0, to: 1, [1])
        let back = world.send(1, to: 0, [2])
        world.run(for: .seconds(2))
        #expect(world[1].delivered == [there])
        #expect(world[0].delivered == [back])
        world.nodes.forEach { $0.delivered = [] }
        let again = (0..<5).map { world.send(0, to: 1, [3, $0]) }
        let andBack = (0..<5).map { world.send(1, to: 0, [4, $0]) }
        world.run(for: .seconds(1))
        #expect(world[1].delivered == again)
        #expect(world[0].delivered == andBack)
    }

    // Each side then sent on the other's previous session, and each renewal lost a round trip of packets.
    @Test("After initiations that cross both sides settle on one session, and renewals lose nothing", arguments: 1..<5)
    func crossedSessionsSettle(seed: UInt64) {
        let world = EngineWorld(seed: seed)
        let latency = Duration.milliseconds(100)
        world.link = LossyLink(LinkConditions(delay: latency...latency), seed: seed) { _, _ in }
        var sent = 0
        for _ in 0..<(130 * 25) {
            world.send(0, to: 1)
            world.send(1, to: 0)
            sent += 1
            world.run(for: .milliseconds(40))
        }
        world.run(for: .seconds(1))
        #expect(world.sent(0, .initiation).count + world.sent(1, .initiation).count == 3)
        for node in world.nodes {
            #expect(node.engine.statistics.unknownSession == 0)
            #expect(node.delivered.count == sent)
        }
        #expect(
            world.peer(0, of: 1)?.current?.keys.localIndex == world.peer(1, of: 0)?.current?.keys.remoteIndex)
    }

    @Test("A session that the peer began ends our own handshake: a response held back comes to nothing")
    func responseHeldBack() throws {
        let world = EngineWorld()
        var heldBack: Flight?
        world.onWire = { flight in
            guard flight.kind == .response, heldBack == nil else { return true }
            heldBack = flight
            return false
        }
        world.send(0, to: 1, [1])
        world.run(for: .milliseconds(100))
        // Otherwise the responder would leave the initiator five seconds.
        world.peer(1, of: 0)?.lastHandshakeSent = nil
        let packet = world.send(1, to: 0, [2])
        world.run(for: .milliseconds(100))
        #expect(world[0].delivered == [packet])
        let session = try #require(world.peer(0, of: 1)?.current)
        #expect(!session.isInitiator)
        #expect(world.peer(0, of: 1)?.handshake == nil)
        #expect(world[0].engine.indices.count == 1)
        world.arrive(try #require(heldBack))
        #expect(world.peer(0, of: 1)?.current === session)
        #expect(world[0].engine.statistics.rejectedHandshakes == 1)
    }

    @Test("A response is refused 90 s after its initiation", arguments: [89_900, 90_100])
    func lateResponse(milliseconds: Int) throws {
        let world = EngineWorld()
        var heldBack: Flight?
        world.onWire = { flight in
            guard flight.kind == .response else { return true }
            heldBack = flight
            return false
        }
        world.send(0, to: 1, [1])
        // Without endpoint nothing newer takes the initiation's place.
        world[0].engine.setEndpoint(nil, of: world[1].publicKey)
        world.run(for: .milliseconds(milliseconds))
        world.arrive(try #require(heldBack))
        #expect((world.peer(0, of: 1)?.current != nil) == (milliseconds < 90_000))
    }

    @Test("A handled initiation no longer contains keys")
    func wipedInitiation() throws {
        let world = EngineWorld()
        world.establish()
        let message = try #require(world.sent(0, .initiation).first?.message.bytes)
        let identity = Identity(world[1].privateKey)
        let (before, after) = unsafe message.withUnsafeBytes { raw -> (Bool, Bool) in
            guard let base = raw.baseAddress,
                var initiation = unsafe ReceivedInitiation(opening: base, identity: identity)
            else { return (true, false) }
            let before = initiation.state.chainingKey.isZero || initiation.state.hash.isZero
            initiation.wipe()
            return (before, initiation.state.chainingKey.isZero && initiation.state.hash.isZero)
        }
        #expect(!before)
        #expect(after)
    }

    @Test("No handshake is begun with a key that is a low-order point, and that is found out once")
    func lowOrderPeer() throws {
        let world = EngineWorld()
        let key = try #require(PublicKey(bytes: [1] + [UInt8](repeating: 0, count: 31)))
        let prefix = try #require(IPPrefix(.v4(0x0b00_0001), length: 32))
        world[0].engine.addPeer(key)
        world[0].engine.setEndpoint(world[1].endpoint, of: key)
        world[0].engine.addAllowedIP(prefix, to: key)
        #expect(world[0].engine.peer(key)?.isLowOrder == false)
        for _ in 0..<3 { world.send(TestPacket.v4(from: world[0].innerV4, to: 0x0b00_0001, payload: []), from: 0) }
        world.run(for: .seconds(10))
        #expect(world[0].engine.peer(key)?.isLowOrder == true)
        #expect(world.wire.count == 0)
        #expect(world.peer(0, of: 1)?.isLowOrder == false)
    }

    @Test("A repeated response changes nothing")
    func repeatedResponse() throws {
        let world = EngineWorld()
        world.establish()
        let session = try #require(world.peer(0, of: 1)?.current)
        let response = try #require(world.sent(1, .response).first?.message)
        world.arrive(response)
        #expect(world.peer(0, of: 1)?.current === session)
        #expect(world[0].engine.statistics.rejectedHandshakes == 1)
    }

    @Test("IPv6 packets travel as IPv4 packets do")
    func v6() {
        let world = EngineWorld()
        let packet = TestPacket.v6(from: world[0].innerV6, to: world[1].innerV6, payload: [9, 8, 7])
        world.send(packet, from: 0)
        world.run(for: .seconds(1))
        #expect(world[1].delivered == [packet])
    }

    @Test("A mesh of five hosts finishes its twenty conversations")
    func mesh() {
        let world = EngineWorld(5, seed: 3)
        for sender in 0..<5 {
            for receiver in 0..<5 where sender != receiver { world.send(sender, to: receiver, [UInt8(sender)]) }
        }
        world.run(for: .seconds(12))
        for receiver in 0..<5 {
            #expect(
                Set(world[receiver].delivered.compactMap(\.last))
                    == Set((0..<5).filter { $0 != receiver }.map(UInt8.init)))
            #expect(world[receiver].delivered.count == 4)
        }
    }
}

/// Messages that an attacker could make, who knows public keys but no private one.
enum Forge {
    static func mac1(of message: [UInt8], for key: PublicKey) -> [UInt8] {
        unsafe message.withUnsafeBytes { raw in
            let mac = unsafe Blake2s.mac16(
                key: NoiseConstants.mac1Key(for: Bytes32(key)), UnsafeRawBufferPointer(rebasing: raw.dropLast(32)))
            return unsafe mac.withBytes { unsafe Array($0) }
        }
    }

    /// The message with a mac1 that fits its other bytes.
    static func resigned(_ message: [UInt8], for key: PublicKey) -> [UInt8] {
        var message = message
        message.replaceSubrange(message.count - 32..<message.count - 16, with: mac1(of: message, for: key))
        return message
    }

    /// A message of random bytes with a valid mac1.
    static func initiation(for key: PublicKey, using random: inout SeededGenerator) -> [UInt8] {
        let body = [1, 0, 0, 0] + random.bytes(112) + [UInt8](repeating: 0, count: 32)
        return resigned(body, for: key)
    }
}

extension Forge {
    /// Transport data under keys that the test took from an engine.
    static func data(_ packet: [UInt8], _ keys: SessionKeys, counter: UInt64) -> [UInt8] {
        let padded = Padding.paddedLength(packet.count, mtu: 0)
        var bytes = packet + [UInt8](repeating: 0, count: 16)
        var out = [UInt8](repeating: 0, count: Message.minimumDataByteCount + padded)
        unsafe bytes.withUnsafeMutableBytes { source in
            unsafe out.withUnsafeMutableBytes { out in
                unsafe sealPacket(
                    source.baseAddress.unsafelyUnwrapped, byteCount: packet.count, paddedTo: padded, keys.sealing,
                    keys.remoteIndex, counter, into: out.baseAddress.unsafelyUnwrapped)
            }
        }
        return out
    }
}
