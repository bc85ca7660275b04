// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import WireGuardCore

/// The longest time that the engine is held while traffic waits for it: by a dump of all peers, and by timers that are due
/// together.
enum EngineHold {
    private static let count = 10_000

    static func suites(isQuick: Bool) -> [Suite] {
        [Suite(name: "Longest hold of the engine, \(count) peers") { _ in try cases() }]
    }

    private final class Crowd {
        var engine: Engine
        private var now = Instant(nanoseconds: 3_600_000_000_000)
        let wall = WallTime(seconds: 1_700_000_000)

        init() throws {
            var random = SeededGenerator(seed: 51)
            engine = Engine(random: SeededGenerator(seed: 5))
            engine.setPrivateKey(PrivateKey(using: &random))
            for number in 0..<UInt32(count) {
                let key = PrivateKey(using: &random).publicKey
                guard let network = IPPrefix(.v4(0x0a00_0000 + number), length: 32) else {
                    throw BenchmarkError("no network")
                }
                engine.addPeer(key)
                engine.setEndpoint(Endpoint(address: .v4(0x0b00_0000 + number), port: 51_820), of: key)
                engine.addAllowedIP(network, to: key)
                engine.setPersistentKeepalive(25, of: key, at: now, wall: wall)
            }
        }

        /// Runs at most `pieces` pieces of the work, until one returns `false`, and returns the longest time of a
        /// piece, in microseconds.
        func longest(_ pieces: Int, _ piece: () -> Bool) -> Double {
            var longest = 0
            for _ in 0..<pieces {
                var hasMore = false
                longest = max(longest, elapsed { hasMore = piece() })
                if !hasMore { break }
            }
            return Double(longest) / 1_000
        }

        /// Sends an initiation to every peer, as after the machine woke up.
        func greet(_ perHold: Int) -> Double {
            // A peer does not send two initiations within five seconds.
            now = now + .seconds(10)
            engine.setUp(false, at: now, wall: wall)
            engine.setUp(true, at: now, wall: wall)
            defer { _ = engine.drainAll(at: now, wall: wall) }
            return longest(64 / perHold) {
                for _ in 0..<perHold / 4 { engine.deadlineReached(at: now, wall: wall) }
                return true
            }
        }
    }

    private static func cases() throws -> [Case] {
        let crowd = try Crowd()
        return [
            Case(name: "wg show, all at once", unit: .microseconds) { _ in
                crowd.longest(1) {
                    keep(crowd.engine.uapiState.peers.count)
                    return false
                }
            },
            Case(name: "wg show, in pieces", unit: .microseconds) { _ in
                var place = 0
                return crowd.longest(.max) {
                    let piece = crowd.engine.snapshots(from: place, work: 256)
                    place = piece.next ?? 0
                    return piece.next != nil
                }
            },
            Case(name: "timers, 64 greetings at once", unit: .microseconds) { _ in crowd.greet(64) },
            Case(name: "timers, in pieces", unit: .microseconds) { _ in crowd.greet(4) },
        ]
    }
}
