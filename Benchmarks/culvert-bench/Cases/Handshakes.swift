// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import WireGuardCore

/// Handshakes on one core: both sides, and each step by itself.
enum Handshakes {
    static func suites(isQuick: Bool) -> [Suite] {
        [
            Suite(name: "Handshakes, one core") { _ in try cases() },
            Suite(name: "Handshakes of \(crowdCount) peers, one core") { _ in try crowd() },
        ]
    }

    private static let crowdCount = 1_000

    /// One responder with many peers, each of which sends an initiation in its turn.
    private static func crowd() throws -> [Case] {
        final class Member {
            var engine: Engine
            init(_ engine: consuming Engine) { self.engine = engine }
        }
        final class Tally {
            var failures = 0
        }
        var random = SeededGenerator(seed: 41)
        let responder = Member(Engine(random: SeededGenerator(seed: 4)))
        responder.engine.setPrivateKey(PrivateKey(using: &random))
        var now = Instant(nanoseconds: 3_600_000_000_000)
        var wall = WallTime(seconds: 1_700_000_000)
        guard let key = responder.engine.publicKey else { throw BenchmarkError("no key") }
        let target = Endpoint(address: .v4(0xc000_0201), port: 51_820)
        let members = try (0..<crowdCount).map { number in
            let member = Member(Engine(random: SeededGenerator(seed: UInt64(100 + number))))
            member.engine.setPrivateKey(PrivateKey(using: &random))
            guard let own = member.engine.publicKey, let all = IPPrefix(.v4(0), length: 0),
                let inside = IPPrefix(.v4(0x0a50_0001 + UInt32(number)), length: 32)
            else { throw BenchmarkError("no key") }
            member.engine.addPeer(key)
            member.engine.setEndpoint(target, of: key)
            member.engine.addAllowedIP(all, to: key)
            member.engine.setUp(true, at: now, wall: wall)
            responder.engine.addPeer(own)
            responder.engine.addAllowedIP(inside, to: own)
            return member
        }
        responder.engine.setUp(true, at: now, wall: wall)
        var next = 0
        let tally = Tally()
        func handshake() -> Int {
            let member = members[next]
            let source = Endpoint(address: .v4(0x0a42_0001 + UInt32(next)), port: 51_820)
            next = (next + 1) % crowdCount
            if next == 0 {
                now = now + .seconds(181)
                wall.seconds += 181
            }
            let initiation = member.engine.send(Pair.greeting, at: now, wall: wall)
            var answers = 0
            let time = elapsed {
                for datagram in initiation {
                    _ = responder.engine.receive(datagram.bytes, from: source, at: now, wall: wall)
                }
                answers = responder.engine.drainAll(at: now, wall: wall).count
            }
            if answers != 1 { tally.failures += 1 }
            return time
        }
        for _ in 0..<crowdCount { _ = handshake() }
        guard tally.failures == 0 else {
            throw BenchmarkError("\(tally.failures) of \(crowdCount) handshakes fail")
        }
        return [
            Case(name: "responder: initiation in, response out", unit: .perSecond) {
                1e9 / timedInside($0, count: 1) { handshake() }
            }
        ]
    }

    private enum Step: CaseIterable {
        case initiation, response, finish, confirmation
    }

    private static func cases() throws -> [Case] {
        let pair = try Pair()
        var failures = 0
        func handshake(_ steps: Set<Step>) -> Int {
            pair.expireSession()
            var time = 0
            func step(_ step: Step, _ body: () -> [OutgoingDatagram]) -> [OutgoingDatagram] {
                var result: [OutgoingDatagram] = []
                let elapsed = elapsed { result = body() }
                if steps.contains(step) { time += elapsed }
                return result
            }
            let now = pair.now
            let wall = pair.wall
            let initiation = step(.initiation) { pair.left.send(Pair.greeting, at: now, wall: wall) }
            let response = step(.response) {
                for datagram in initiation {
                    _ = pair.right.receive(datagram.bytes, from: pair.leftEndpoint, at: now, wall: wall)
                }
                return pair.right.drainAll(at: now, wall: wall)
            }
            let data = step(.finish) {
                for datagram in response {
                    _ = pair.left.receive(datagram.bytes, from: pair.rightEndpoint, at: now, wall: wall)
                }
                return pair.left.drainAll(at: now, wall: wall)
            }
            _ = step(.confirmation) {
                var delivered = false
                for datagram in data {
                    if pair.right.receive(datagram.bytes, from: pair.leftEndpoint, at: now, wall: wall) != nil {
                        delivered = true
                    }
                }
                if !delivered { failures += 1 }
                return []
            }
            return time
        }
        _ = handshake([])
        guard failures == 0 else { throw BenchmarkError("a handshake fails") }
        func rate(_ name: String, _ steps: Set<Step>) -> Case {
            Case(name: name, unit: .perSecond) { 1e9 / timedInside($0, count: 1) { handshake(steps) } }
        }
        return [
            rate("both sides, until the first packet is delivered", Set(Step.allCases)),
            rate("responder: initiation in, response out", [.response]),
            rate("initiator: initiation out", [.initiation]),
            rate("initiator: response in, first packet out", [.finish]),
        ]
    }
}
