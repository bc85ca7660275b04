// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import PacketTunnelTesting
    import Synchronization
    import Testing

    extension DaemonTests {
        /// More traffic than a tunnel can carry. `CULVERT_FLOOD_SECONDS` sets the duration: the default is 5, the
        /// maximum 100, so that no session is renewed.
        @Suite("Floods", .timeLimit(.minutes(5)))
        struct FloodTests {
            static let seconds =
                ProcessInfo.processInfo.environment["CULVERT_FLOOD_SECONDS"]
                .flatMap(Int.init).map { min(max($0, 2), 100) } ?? 5

            @Test("With ten times the link's capacity, one way, memory stays flat and the session alive")
            func narrowLink() throws {
                let pair = try TunnelPair(.culvert, .culvert)
                for end in [pair.left, pair.right] {
                    try end.shell("tc qdisc add dev veth root tbf rate 20mbit burst 64kb latency 20ms")
                }
                let result = try flood(pair, from: [pair.left])
                #expect(result.offered >= 10 * result.carried, "\(result)")
            }

            @Test("As much as the senders can, both ways, over a link without limit: the same")
            func bothWays() throws {
                let pair = try TunnelPair(.culvert, .culvert)
                let result = try flood(pair, from: [pair.left, pair.right])
                #expect(result.offered > result.carried, "\(result)")
            }

            /// The number of bytes that were sent into a tunnel, and of those that it delivered.
            private struct Result: CustomStringConvertible {
                var offered = 0
                var carried = 0
                var description: String { "\(offered) bytes offered, \(carried) carried" }
            }

            /// Floods the tunnel from some ends at the same time, and measures the memory of both daemons.
            private func flood(_ pair: TunnelPair, from ends: [PairEnd]) throws -> Result {
                try pair.ping(from: pair.left)
                // After the first packet from the other side, both sides can use the session.
                try pair.ping(from: pair.right)
                let daemons = [pair.left, pair.right]
                let handshakes = try [pair.right.peer(pair.left), pair.left.peer(pair.right)].map(\.latestHandshake)
                let before = try ends.map { try received(pair.other($0)) }
                let senders = try ends.map {
                    try DatagramSender(from: $0.namespace, $0.inner4, to: pair.other($0).inner4)
                }
                defer { for sender in senders { sender.stop() } }

                // Once all memory that can be used is in use, it must not grow.
                var settled: [Int] = []
                var most = [0, 0]
                let start = ContinuousClock.now
                let end = start + .seconds(Self.seconds)
                let isAlive = waitUntil(timeout: .seconds(2 * Self.seconds), pollEvery: .milliseconds(50)) {
                    let now = daemons.map { anonymousKiB($0) }
                    if settled.isEmpty, ContinuousClock.now >= start + .seconds(1) { settled = now }
                    most = zip(most, now).map { max($0, $1) }
                    return ContinuousClock.now >= end || now.contains(0)
                }
                #expect(isAlive && most.allSatisfy { $0 > 0 }, "both daemons run")
                for sender in senders { sender.stop() }
                for (settled, most) in zip(settled, most) {
                    #expect(most <= settled + 1_024, "\(most) KiB after \(settled) KiB in the first second")
                }
                var result = Result(offered: senders.reduce(0) { $0 + $1.sentBytes })
                for (end, before) in zip(ends, before) { result.carried += try received(pair.other(end)) - before }

                // All queued packets have been delivered when a ping returns.
                try PrivilegedTests.eventually("a ping comes back after the flood") {
                    try pair.isReached(from: pair.left)
                }
                try pair.ping(from: pair.right)
                let after = try [pair.right.peer(pair.left), pair.left.peer(pair.right)].map(\.latestHandshake)
                #expect(after == handshakes, "no session was lost")

                // Drops are counted.
                for daemon in daemons.map(\.daemon) {
                    daemon.process.signal(SIGUSR1)
                    try daemon.process.waitForOutput(containing: "dropped: ")
                }
                return result
            }

            private func anonymousKiB(_ end: PairEnd) -> Int {
                // The command has replaced itself with the daemon, so this is the daemon's process.
                let text = DaemonRemains.status("RssAnon", of: end.daemon.process.processID) ?? ""
                return text.split(separator: " ").first.flatMap { Int($0) } ?? 0
            }

            /// The bytes that an end's interface has received.
            private func received(_ end: PairEnd) throws -> Int {
                let path = "/sys/class/net/\(end.name)/statistics/rx_bytes"
                // Read it in the end's own namespace, which has a separate view of /sys.
                let text = try end.shell("cat \(path)").trimmingCharacters(in: .whitespacesAndNewlines)
                guard let count = Int(text) else { throw CommandFailure(description: "no counter: \(text)") }
                return count
            }
        }
    }

    /// A thread that sends datagrams of 1300 bytes as fast as the system takes them.
    private final class DatagramSender: Sendable {
        private let isStopped = Atomic(false)
        private let sent = Atomic<Int>(0)
        private let ended = Event()

        var sentBytes: Int { sent.load(ordering: .relaxed) }

        init(from namespace: Namespace, _ source: String, to destination: String) throws {
            let socket = try TestSocket.datagrams(in: namespace, at: source)
            let target = try SocketAddress(destination, 9_999)
            // Only the thread uses the socket.
            nonisolated(unsafe) let handedOver = socket
            Thread.detachNewThread { [self] in
                let socket = unsafe handedOver
                let payload = [UInt8](repeating: 0x5a, count: 1_300)
                while !isStopped.load(ordering: .relaxed) {
                    var taken = 0
                    for _ in 0..<64 where socket.send(payload, to: target) { taken += 1 }
                    sent.wrappingAdd(taken * payload.count, ordering: .relaxed)
                }
                ended.signal()
            }
        }

        /// Ends the flood. It may be called repeatedly.
        func stop() {
            isStopped.store(true, ordering: .relaxed)
            _ = ended.wait(timeout: Privileged.patience)
        }
    }
#endif
