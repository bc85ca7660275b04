// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import PacketTunnelTesting
    import Synchronization
    import WireGuardCore

    /// A socket that sends an initiation with an unknown key and a valid mac1.
    final class HandshakeAttacker: @unchecked Sendable {
        // Unchecked: only the flood's thread uses it.
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

        /// Sends the initiation `count` times, and counts the answers: cookie replies and other messages.
        func round(_ count: Int) -> (cookies: Int, others: Int) {
            for _ in 0..<count { socket.send(initiation, to: target) }
            var result = (cookies: 0, others: 0)
            while let reply = socket.receive(within: .zero) {
                if reply.bytes.count == 64, reply.bytes[0] == 3 { result.cookies += 1 } else { result.others += 1 }
            }
            return result
        }
    }

    /// Attackers that send on a thread, until they are stopped or each has sent a few thousand messages.
    final class HandshakeFlood: Sendable {
        private let counts = Mutex((sent: 0, cookies: 0, others: 0))
        private let isStopped = Atomic(false)
        private let ended = Event()

        var sent: Int { counts.withLock { $0.sent } }
        var cookies: Int { counts.withLock { $0.cookies } }
        var others: Int { counts.withLock { $0.others } }

        /// - Parameters:
        ///   - burst: The messages of each attacker in one burst. The default, 160 messages of 16 attackers every 20
        ///     milliseconds, is at most 8,000 per second.
        ///   - pause: The time between bursts.
        ///   - bursts: The largest number of bursts.
        init(
            _ attackers: [HandshakeAttacker], burst: Int = 10, pause: Duration = .milliseconds(20), bursts: Int = 1500
        ) {
            Thread.detachNewThread { [self] in
                for _ in 0..<bursts where !isStopped.load(ordering: .relaxed) {
                    for attacker in attackers {
                        let result = attacker.round(burst)
                        counts.withLock {
                            $0.sent += burst
                            $0.cookies += result.cookies
                            $0.others += result.others
                        }
                    }
                    _ = Poll.readable([], before: ContinuousClock.now + pause)
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

    /// The datagrams on the path between two ends, as an observer sees them.
    final class MessageCapture {
        /// A message of the protocol.
        enum Message: Equatable {
            case initiation(hasCookie: Bool)
            case response, cookieReply, data, unknown

            init(_ bytes: ArraySlice<UInt8>) {
                switch (bytes.first, bytes.count) {
                // mac2 is the last sixteen bytes. It is all zero if the sender has no cookie.
                case (1, 148): self = .initiation(hasCookie: bytes.suffix(16).contains { $0 != 0 })
                case (2, 92): self = .response
                case (3, 64): self = .cookieReply
                case (4, 32...): self = .data
                default: self = .unknown
                }
            }
        }

        private let folder: TemporaryFolder
        private let process: SpawnedProcess
        private var file: String { folder.path + "/capture" }

        /// Captures UDP over IPv4 from and to a port on a link of a namespace.
        init(_ port: Int, on link: String, in namespace: Namespace) throws {
            folder = try TemporaryFolder()
            process = try namespace.start(
                "tcpdump", "-U", "--immediate-mode", "-n", "-Z", "root", "-i", link, "-w", folder.path + "/capture",
                "ip and udp port \(port)")
            try process.waitForOutput(containing: "listening on")
        }

        /// The captured messages so far, oldest first.
        func messages() throws -> [Message] {
            let bytes = [UInt8](FileManager.default.contents(atPath: file) ?? Data())
            // The file has a header of 24 bytes. Each packet has a header of 16 bytes, with the captured length at
            // offset 8.
            var (messages, at) = ([Message](), 24)
            while at + 16 <= bytes.count {
                let length = (0..<4).reduce(0) { $0 | Int(bytes[at + 8 + $1]) << (8 * $1) }
                let packet = at + 16
                at = packet + length
                // Skip the headers of Ethernet, IPv4 and UDP.
                guard at <= bytes.count, length > 14 + 20 + 8 else { break }
                let header = 14 + Int(bytes[packet + 14] & 15) * 4 + 8
                guard header < length else { continue }
                messages.append(Message(bytes[(packet + header)..<at]))
            }
            return messages
        }
    }
#endif
