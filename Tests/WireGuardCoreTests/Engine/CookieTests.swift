// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing

@testable import WireGuardCore

/// Denial of service: mac2, cookies and rate limits (WireGuard paper, sections 5.3 and 5.4.7).
@Suite("Engine: cookies under load")
struct CookieTests {
    /// A responder that is under load once it has had five handshake messages for nothing.
    static var touchy: EngineLimits {
        var limits = EngineLimits()
        limits.handshakeBurst = 4
        limits.handshakesPerSecond = 10
        return limits
    }

    static let attacker = Endpoint(address: .v4(0xcb00_7142), port: 666)

    /// Keeps `world[target]` under load with `count` initiations that have nothing but a valid mac1.
    static func flood(
        _ world: EngineWorld, _ target: Int, count: Int, from source: Endpoint = attacker,
        using random: inout SeededGenerator
    ) {
        for _ in 0..<count {
            let forged = Forge.initiation(for: world[target].publicKey, using: &random)
            world.receive(forged, from: source, at: world[target])
        }
    }

    @Test("Cookie replies need no random bytes of the system, and each has a unique nonce")
    func nonceDraws() {
        final class Counter: @unchecked Sendable { var draws = 0 }
        struct Counting: RandomNumberGenerator {
            let counter: Counter
            var inner = SeededGenerator(seed: 9)
            mutating func next() -> UInt64 {
                counter.draws += 1
                return inner.next()
            }
        }
        let counter = Counter()
        var random: any RandomNumberGenerator = Counting(counter: counter)
        var checker = CookieChecker()
        let message = [UInt8](repeating: 7, count: 148)
        var nonces: Set<[UInt8]> = []
        var afterFirst = 0
        for round in 0..<1_000 {
            var reply = [UInt8](repeating: 0, count: 64)
            unsafe message.withUnsafeBytes { message in
                unsafe reply.withUnsafeMutableBytes { out in
                    guard let base = out.baseAddress else { return }
                    unsafe checker.writeCookie(
                        answering: message, from: CookieTests.attacker, cookieKey: .zero,
                        at: Instant(nanoseconds: 1), random: &random, into: base)
                }
            }
            nonces.insert(Array(reply[8..<32]))
            if round == 0 { afterFirst = counter.draws }
        }
        #expect(nonces.count == 1_000)
        #expect(counter.draws == afterFirst)
    }

    @Test("Invalid handshakes are detected by mac1 without the engine, and counted")
    func filter() throws {
        let world = EngineWorld()
        var random = SeededGenerator(seed: 3)
        let known = world[1].engine.handshakeFilter
        let filter = try #require(known)
        let good = Forge.initiation(for: world[1].publicKey, using: &random)
        var bad = good
        bad[20] ^= 1
        let data = [4, 0, 0, 0] + [UInt8](repeating: 1, count: 60)
        let datagrams = TestBatch([good, bad, data, bad])
        var asked = 0
        let (refused, counts) = unsafe datagrams.withViews { views -> (Int, [Int]) in
            let views = unsafe UnsafeMutableBufferPointer(mutating: views)
            let refused = unsafe HandshakeFilter.refuse(views) {
                asked += 1
                return filter
            }
            return (refused, (0..<4).map { index in unsafe views[index].count })
        }
        #expect(refused == 2 && asked == 1)
        #expect(counts == [148, 0, 64, 0])
        world[1].engine.countRefusedHandshakes(refused)
        #expect(world[1].engine.statistics.invalidMac1 == 2)
    }

    @Test("Without load no cookie is necessary, and a wrong mac2 is ignored")
    func noLoad() throws {
        let world = EngineWorld()
        world.onWire = { flight in
            if flight.kind == .initiation { flight.bytes[140] ^= 0xff }
            return true
        }
        let packet = world.send(0, to: 1)
        world.run(for: .seconds(1))
        #expect(world[1].delivered == [packet])
        #expect(world[1].engine.statistics.cookieRepliesSent == 0)
    }

    @Test("Under load an initiation gets a cookie instead of an answer, and the next one with mac2 gets through")
    func cookieThenThrough() throws {
        let world = EngineWorld(limits: CookieTests.touchy)
        var random = SeededGenerator(seed: 1)
        CookieTests.flood(world, 1, count: 50, using: &random)
        let packet = world.send(0, to: 1)
        // The flood never stops.
        for _ in 0..<70 {
            CookieTests.flood(world, 1, count: 5, using: &random)
            world.run(for: .milliseconds(100))
        }
        #expect(world[1].delivered == [packet])
        let initiations = world.sent(0, .initiation).map(\.message.bytes)
        #expect(initiations.count == 2)
        #expect(initiations[0][132...].allSatisfy { $0 == 0 })
        #expect(!initiations[1][132...].allSatisfy { $0 == 0 })
        #expect(world[0].engine.statistics.cookieRepliesAccepted == 1)
        // Five of the 400 forged ones are processed before each second of load; the others cost two MACs.
        #expect(world[1].engine.statistics.rejectedHandshakes <= 8 * 5)
    }

    @Test("Handshakes of peers are not load, in any burst; a replayed initiation is")
    func peersAreNoLoad() throws {
        let world = EngineWorld(12, limits: CookieTests.touchy)
        for peer in 1..<12 { world.send(peer, to: 0) }
        world.run(for: .seconds(1))
        #expect(world[0].delivered.count == 11)
        #expect(world[0].engine.statistics.responsesSent == 11)
        #expect(world[0].engine.statistics.cookieRepliesSent == 0)

        let seen = try #require(world.sent(1, .initiation).first?.message.bytes)
        for _ in 0..<5 { world.receive(seen, from: world[1].endpoint, at: world[0]) }
        #expect(world[0].engine.statistics.cookieRepliesSent == 0)
        world.receive(seen, from: world[1].endpoint, at: world[0])
        #expect(world[0].engine.statistics.cookieRepliesSent == 1)
        #expect(world[0].engine.statistics.rejectedHandshakes == 5)
    }

    @Test("Peers that are asked for a cookie do not prolong the load")
    func peersDoNotProlong() {
        let world = EngineWorld(12, limits: CookieTests.touchy)
        var random = SeededGenerator(seed: 1)
        CookieTests.flood(world, 0, count: 50, using: &random)
        world.run(for: .milliseconds(900))
        for peer in 1..<7 { world.send(peer, to: 0) }
        world.run(for: .milliseconds(150))
        let cookies = world[0].engine.statistics.cookieRepliesSent
        #expect(cookies == 45 + 6)
        for peer in 7..<12 { world.send(peer, to: 0) }
        world.run(for: .milliseconds(500))
        #expect(world[0].engine.statistics.responsesSent == 5)
        #expect(world[0].engine.statistics.cookieRepliesSent == cookies)
    }

    @Test("A cookie reply is 64 bytes, names the sender, and is shorter than its request")
    func reply() throws {
        let world = EngineWorld(limits: CookieTests.touchy)
        var random = SeededGenerator(seed: 1)
        CookieTests.flood(world, 1, count: 10, using: &random)
        world.send(0, to: 1)
        world.run(for: .milliseconds(50))
        let initiation = try #require(world.sent(0, .initiation).first?.message)
        let reply = try #require(
            world.sent(1) { $0.kind == .cookieReply && $0.destination == world[0].endpoint }.first?.message)
        #expect(reply.bytes.count == 64)
        #expect(reply.bytes.count < Message.responseByteCount)
        #expect(Array(reply.bytes.prefix(4)) == [3, 0, 0, 0])
        #expect(reply.word(at: 4) == initiation.word(at: 4))
    }

    @Test("Every cookie reply has its own nonce")
    func nonces() {
        let world = EngineWorld(limits: CookieTests.touchy)
        var random = SeededGenerator(seed: 1)
        CookieTests.flood(world, 1, count: 200, using: &random)
        let replies = world.sent(1, .cookieReply).map { Array($0.message.bytes[8..<32]) }
        #expect(replies.count >= 190)
        #expect(Set(replies).count == replies.count)
    }

    /// Two hosts of which the second is under load and has given the first a cookie; returns the next initiation.
    private func withCookie(_ world: EngineWorld) throws -> [UInt8] {
        var random = SeededGenerator(seed: 1)
        CookieTests.flood(world, 1, count: 10, using: &random)
        world.send(0, to: 1)
        world.run(for: .milliseconds(50))
        try #require(world[0].engine.statistics.cookieRepliesAccepted == 1)
        world.onWire = { $0.kind != .initiation }
        world.run(for: .seconds(6))
        CookieTests.flood(world, 1, count: 10, using: &random)
        return try #require(world.sent(0, .initiation).last?.message.bytes)
    }

    @Test("A cookie is good at the address and port it was given to, and nowhere else")
    func boundToSource() throws {
        let world = EngineWorld(limits: CookieTests.touchy)
        let initiation = try withCookie(world)
        let source = world[0].endpoint
        var (port, address) = (source, source)
        port.port += 1
        address.address = IPAddress.v4(0xc000_02fe)
        let mapped = Endpoint(
            address: IPAddress.v6(0, 0xffff_0000_0000 | source.address.low), port: source.port)
        var scoped = source
        scoped.scopeID = 3
        for wrong in [port, address, mapped, scoped] {
            let before = world[1].engine.statistics.cookieRepliesSent
            world.receive(initiation, from: wrong, at: world[1])
            #expect(world[1].engine.statistics.responsesSent == 0)
            #expect(world[1].engine.statistics.cookieRepliesSent == before + 1)
        }
        world.receive(initiation, from: source, at: world[1])
        #expect(world[1].engine.statistics.responsesSent == 1)
    }

    @Test("A mac2 that is wrong, swapped with mac1 or missing gets another cookie, no answer")
    func wrongMac2() throws {
        let world = EngineWorld(limits: CookieTests.touchy)
        let initiation = try withCookie(world)
        for byte in 132..<148 {
            var wrong = initiation
            wrong[byte] ^= 0x10
            world.receive(wrong, from: world[0].endpoint, at: world[1])
        }
        world.receive(
            Array(initiation[..<132] + [UInt8](repeating: 0, count: 16)), from: world[0].endpoint, at: world[1])
        world.receive(Array(initiation[..<132] + initiation[116..<132]), from: world[0].endpoint, at: world[1])
        let invalid = world[1].engine.statistics.invalidMac1
        let swapped = Array(initiation[..<116] + initiation[132...] + initiation[116..<132])
        world.receive(swapped, from: world[0].endpoint, at: world[1])
        #expect(world[1].engine.statistics.invalidMac1 == invalid + 1)
        #expect(world[1].engine.statistics.responsesSent == 0)
    }

    @Test("A cookie is used for 120 s and then forgotten", arguments: [false, true])
    func expiry(expired: Bool) throws {
        let world = EngineWorld(limits: CookieTests.touchy)
        var random = SeededGenerator(seed: 1)
        CookieTests.flood(world, 1, count: 10, using: &random)
        world.onWire = { $0.kind != .response }
        world.send(0, to: 1)
        world.run(for: .milliseconds(50))
        try #require(world[0].engine.statistics.cookieRepliesAccepted == 1)
        world.onWire = { _ in false }
        world.run(for: .seconds(expired ? 120 : 119))
        let peer = try #require(world.peer(0, of: 1))
        peer.lastHandshakeSent = nil
        world.send(0, to: 1)
        let mac2 = try #require(world.sent(0, .initiation).last?.message.bytes[132...])
        #expect(mac2.allSatisfy { $0 == 0 } == expired)
    }

    @Test("The responder's secret changes after 120 s: older cookies are refused, and new ones given")
    func secretRotation() throws {
        let world = EngineWorld(limits: CookieTests.touchy)
        let initiation = try withCookie(world)
        world.run(for: .seconds(120))
        var random = SeededGenerator(seed: 8)
        CookieTests.flood(world, 1, count: 10, using: &random)
        let before = world[1].engine.statistics.cookieRepliesSent
        world.receive(initiation, from: world[0].endpoint, at: world[1])
        #expect(world[1].engine.statistics.responsesSent == 0)
        #expect(world[1].engine.statistics.cookieRepliesSent == before + 1)
    }

    @Test("Cookie replies take no more than half of the outbox, and none is computed that finds no room")
    func cookiesLeaveRoom() {
        var limits = CookieTests.touchy
        limits.outboxMessages = 16
        let world = EngineWorld(limits: limits)
        var random = SeededGenerator(seed: 1)
        let node = world[1]
        // Nothing is sent meanwhile, as with a full socket.
        for _ in 0..<100 {
            let forged = Forge.initiation(for: node.publicKey, using: &random)
            _ = node.engine.receive(forged, from: CookieTests.attacker, at: world.now(node), wall: world.wall(node))
        }
        let statistics = node.engine.statistics
        #expect(statistics.cookieRepliesSent == 8)
        #expect(statistics.outboxDropped == 100 - 5 - 8)
        let waiting = node.engine.drainAll(at: world.now(node), wall: world.wall(node))
        #expect(waiting.count == 8)
    }

    @Test("A responder without room for its response leaves the peer unchanged, and answers when there is room")
    func responseNeedsRoom() throws {
        var limits = EngineLimits()
        limits.outboxMessages = 1
        let world = EngineWorld(3, limits: limits)
        var initiations: [Flight] = []
        world.onWire = { flight in
            guard flight.kind == .initiation else { return true }
            initiations.append(flight)
            return false
        }
        world.send(2, to: 1)
        world.send(0, to: 1)
        world.run(for: .milliseconds(50))
        try #require(initiations.count == 2)
        world.onWire = nil
        let node = world[1]
        for flight in initiations {
            _ = node.engine.receive(flight.bytes, from: flight.source, at: world.now(node), wall: world.wall(node))
        }
        #expect(node.engine.statistics.outboxDropped == 1)
        #expect(node.engine.statistics.responsesSent == 1)
        let late = try #require(world.peer(1, of: 0))
        #expect(late.next == nil && late.lastReceivedTimestamp == nil && late.lastHandshakeSent == nil)
        world.flush(node)
        world.receive(initiations[1].bytes, from: initiations[1].source, at: node)
        #expect(node.engine.statistics.responsesSent == 2)
    }

    @Test("Load ends when the flood ends, and with it the demand for cookies")
    func loadEnds() {
        let world = EngineWorld(limits: CookieTests.touchy)
        var random = SeededGenerator(seed: 1)
        CookieTests.flood(world, 1, count: 500, using: &random)
        world.run(for: .seconds(2))
        let packet = world.send(0, to: 1)
        world.run(for: .milliseconds(50))
        #expect(world[1].delivered == [packet])
    }

    @Test("An attacker with its own cookies exhausts only its own allowance")
    func perSource() throws {
        var limits = CookieTests.touchy
        limits.handshakeBurstPerSource = 3
        limits.handshakesPerSecondAndSource = 1
        // Hosts 0 and 2 are clients of 1; host 2 misbehaves.
        let world = EngineWorld(3, limits: limits)
        var random = SeededGenerator(seed: 1)
        CookieTests.flood(world, 1, count: 10, using: &random)
        world.onWire = { $0.kind != .response }
        world.send(2, to: 1)
        world.run(for: .milliseconds(50))
        try #require(world[2].engine.statistics.cookieRepliesAccepted == 1)
        // Initiation after initiation, each with a good mac2.
        for _ in 0..<30 {
            world.run(for: .milliseconds(30))
            CookieTests.flood(world, 1, count: 3, using: &random)
            world.peer(2, of: 1)?.lastHandshakeSent = nil
            world.send(2, to: 1)
        }
        world.run(for: .milliseconds(30))
        #expect(world[1].engine.statistics.rateLimited >= 20)
        #expect(world[1].engine.statistics.responsesSent <= 5)
        // Another client is served as ever, through its own cookie.
        world.onWire = nil
        let packet = world.send(0, to: 1)
        for _ in 0..<70 {
            CookieTests.flood(world, 1, count: 5, using: &random)
            world.run(for: .milliseconds(100))
        }
        #expect(world[1].delivered.contains(packet))
    }

    @Test("Under load a response needs a cookie too, and gets through with it")
    func responseUnderLoad() {
        // The initiator is the one under load, so it asks the responder for a cookie.
        let world = EngineWorld(limits: CookieTests.touchy)
        var random = SeededGenerator(seed: 1)
        CookieTests.flood(world, 0, count: 10, using: &random)
        let packet = world.send(0, to: 1)
        for _ in 0..<120 {
            CookieTests.flood(world, 0, count: 5, using: &random)
            world.run(for: .milliseconds(100))
        }
        #expect(world[1].engine.statistics.cookieRepliesAccepted >= 1)
        #expect(world[1].delivered == [packet])
    }

    @Test("A cookie reply counts only once, only as an answer to the last message, and only unaltered")
    func unsolicitedReplies() throws {
        let world = EngineWorld(limits: CookieTests.touchy)
        var random = SeededGenerator(seed: 1)
        CookieTests.flood(world, 1, count: 10, using: &random)
        world.onWire = { $0.kind != .cookieReply }
        world.send(0, to: 1)
        world.run(for: .milliseconds(50))
        let reply = try #require(
            world.sent(1) { $0.kind == .cookieReply && $0.destination == world[0].endpoint }.first?.message)
        for byte in 8..<64 {
            var wrong = reply.bytes
            wrong[byte] ^= 1
            world.receive(wrong, from: reply.source, at: world[0])
        }
        var index = reply.bytes
        index[5] ^= 1
        world.receive(index, from: reply.source, at: world[0])
        #expect(world[0].engine.statistics.cookieRepliesAccepted == 0)
        world.arrive(reply)
        #expect(world[0].engine.statistics.cookieRepliesAccepted == 1)
        world.arrive(reply)
        #expect(world[0].engine.statistics.cookieRepliesAccepted == 1)
        // The one after that answers a newer message, so this one is too late.
        world.run(for: .seconds(6))
        world.arrive(reply)
        #expect(world[0].engine.statistics.cookieRepliesAccepted == 1)
    }

    @Test("A flood fills neither the queue of outgoing messages nor any table")
    func bounded() {
        var limits = CookieTests.touchy
        limits.outboxMessages = 100
        let world = EngineWorld(limits: limits)
        var random = SeededGenerator(seed: 1)
        var (received, sent) = (0, 0)
        for number in 0..<2_000 {
            let forged = Forge.initiation(for: world[1].publicKey, using: &random)
            received += forged.count
            let source = Endpoint(address: .v4(0x0b00_0000 + UInt32(number)), port: 1)
            // The owner is too busy to drain.
            _ = world[1].engine.receive(forged, from: source, at: world.now(1), wall: world.wall(1))
        }
        #expect(world[1].engine.outbox.count == 50)
        #expect(world[1].engine.statistics.outboxDropped >= 1_800)
        sent = world[1].engine.drainAll(at: world.now(1), wall: world.wall(1)).map(\.bytes.count).reduce(0, +)
        #expect(sent * 2 < received)
        #expect(world[1].engine.rateLimiter.count == 0)
        #expect(world[1].engine.indices.count == 0)
    }

    @Test("Cookies and the secret that makes them are overwritten when they are forgotten")
    func wiped() {
        let world = EngineWorld(limits: CookieTests.touchy)
        var random = SeededGenerator(seed: 1)
        CookieTests.flood(world, 1, count: 10, using: &random)
        world.send(0, to: 1)
        world.run(for: .milliseconds(50))
        #expect(world.peer(0, of: 1)?.cookies.cookie.isZero == false)
        #expect(!world[1].engine.cookieChecker.secret.isZero)
        world[0].engine.setUp(false, at: world.now(0), wall: world.wall(0))
        world[1].engine.setPrivateKey(nil)
        #expect(world.peer(0, of: 1)?.cookies.cookie.isZero == true)
        #expect(world[1].engine.cookieChecker.secret.isZero)
    }

    @Test("Sources that were counted under load are forgotten afterwards")
    func sourcesForgotten() {
        let world = EngineWorld(limits: CookieTests.touchy)
        var random = SeededGenerator(seed: 1)
        world.send(0, to: 1)
        for _ in 0..<70 {
            CookieTests.flood(world, 1, count: 5, using: &random)
            world.run(for: .milliseconds(100))
        }
        #expect(world[1].engine.rateLimiter.count == 1)
        // The timer of the keepalive that answers the packet brings it about.
        world.run(for: .seconds(15))
        #expect(world[1].engine.rateLimiter.count == 0)
    }

    @Test("A flood with a mac1 for another device is dropped immediately and is not load")
    func wrongMac1() {
        let world = EngineWorld(3, limits: CookieTests.touchy)
        var random = SeededGenerator(seed: 1)
        for _ in 0..<500 {
            let forged = Forge.initiation(for: world[2].publicKey, using: &random)
            world.receive(forged, from: CookieTests.attacker, at: world[1])
        }
        #expect(world[1].engine.statistics.invalidMac1 == 500)
        #expect(world[1].engine.statistics.cookieRepliesSent == 0)
        let packet = world.send(0, to: 1)
        world.run(for: .milliseconds(50))
        #expect(world[1].delivered == [packet])
    }
}
