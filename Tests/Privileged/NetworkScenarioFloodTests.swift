// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import PacketTunnelTesting
    import Synchronization
    import Testing
    import WireGuardCore

    extension DaemonTests {
        @Suite("Network scenarios: a flood of handshakes", .timeLimit(.minutes(1)))
        struct NetworkScenarioFloodTests {
            @Test(
                "Under a flood of initiations strangers get cookies, and a peer still comes through",
                arguments: [DaemonProgram.wireguardGo, .culvert])
            func flood(_ client: DaemonProgram) throws {
                let pair = try TunnelPair(client, .culvert)
                let (left, right) = (pair.left, pair.right)
                // One attacker per socket, each with its own key; the client's namespace is theirs as well.
                let attackers = try (0..<16).map { _ in
                    try HandshakeAttacker(
                        on: right.keys.publicKey, at: right.outer4, port: right.port, in: left.namespace)
                }
                let flood = HandshakeFlood(attackers)
                defer { flood.stop() }
                try eventually("strangers get cookies") { flood.cookies > 0 }
                try pair.ping(from: left)
                flood.stop()
                #expect(try right.peer(left).latestHandshake > 0)
                if client == .wireguardGo {
                    #expect(
                        left.daemon.log.contains("Receiving cookie response"), "the client came through with a cookie")
                }
                // A cookie reply is smaller than what it answers, and nobody gets more than was sent.
                #expect(flood.cookies <= flood.sent)
                #expect(flood.others == 0, "no stranger gets anything else")

                // Afterwards all is as before: a peer that is new connects at once.
                try eventually("the load is over") { try pair.isReached(from: right) }
                #expect(right.daemon.process.isRunning)
            }
        }
    }

    /// A socket with an initiation of a key that nobody knows, but with a valid first MAC.
    private final class HandshakeAttacker: @unchecked Sendable {
        // Unchecked: used by the flood's thread alone.
        private let socket: TestSocket
        private let target: SocketAddress
        private let initiation: [UInt8]

        init(on key: PublicKey, at address: String, port: Int, in namespace: Namespace) throws {
            var engine = Engine(random: SystemRandomNumberGenerator())
            let now = Instant(nanoseconds: 1_000_000_000)
            let wall = WallTime(seconds: Int64(Date().timeIntervalSince1970))
            engine.setPrivateKey(StaticKeys().privateKey)
            engine.setUp(true, at: now, wall: wall)
            engine.addPeer(key)
            engine.setEndpoint(try Endpoint("\(address):\(port)"), of: key)
            engine.setPersistentKeepalive(1, of: key, at: now, wall: wall)
            engine.deadlineReached(at: now, wall: wall)
            guard let first = engine.drainAll(at: now, wall: wall).first, first.bytes.count == 148 else {
                throw CommandFailure(description: "the engine makes no initiation")
            }
            initiation = first.bytes
            socket = try TestSocket.datagrams(in: namespace, at: "0.0.0.0")
            target = try SocketAddress(address, port)
        }

        /// Sends the initiation `count` times, and counts what has come back: cookie replies and other messages.
        func round(_ count: Int) -> (cookies: Int, others: Int) {
            for _ in 0..<count { socket.send(initiation, to: target) }
            var result = (cookies: 0, others: 0)
            while let reply = socket.receive(within: .zero) {
                if reply.bytes.count == 64, reply.bytes[0] == 3 { result.cookies += 1 } else { result.others += 1 }
            }
            return result
        }
    }

    /// Attackers at work on a thread, until stopped or until each has sent a few thousand messages.
    private final class HandshakeFlood: Sendable {
        private let counts = Mutex((sent: 0, cookies: 0, others: 0))
        private let isStopped = Atomic(false)
        private let ended = Event()

        var sent: Int { counts.withLock { $0.sent } }
        var cookies: Int { counts.withLock { $0.cookies } }
        var others: Int { counts.withLock { $0.others } }

        init(_ attackers: [HandshakeAttacker]) {
            Thread.detachNewThread { [self] in
                // 160 messages every 20 milliseconds are 8000 in a second.
                for _ in 0..<1500 where !isStopped.load(ordering: .relaxed) {
                    for attacker in attackers {
                        let result = attacker.round(10)
                        counts.withLock {
                            $0.sent += 10
                            $0.cookies += result.cookies
                            $0.others += result.others
                        }
                    }
                    _ = Poll.readable([], before: ContinuousClock.now + .milliseconds(20))
                }
                ended.signal()
            }
        }

        /// Ends the flood. Safe to repeat.
        func stop() {
            isStopped.store(true, ordering: .relaxed)
            _ = ended.wait(timeout: Privileged.patience)
        }
    }
#endif
