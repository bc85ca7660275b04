// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardCore

/// Handshakes on one core: both sides, and each step by itself.
enum Handshakes {
    static func suites(isQuick: Bool) -> [Suite] {
        [Suite(name: "Handshakes, one core") { _ in try cases() }]
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
