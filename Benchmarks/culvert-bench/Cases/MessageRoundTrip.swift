// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import PacketTunnel

/// How long an app waits for a provider's answer: a typed request to a ``MessageRouter`` and its typed reply, one after the
/// other. Over the socket both ends are in this process, with a connection and its threads for each request as between two.
enum MessageRoundTrip {
    static let name = "Message round trip"

    static func suites(isQuick: Bool) -> [Suite] {
        [Suite(name: name) { _ in try cases() }]
    }

    /// About as large as the status of a tunnel with a few peers.
    private struct Question: TunnelMessage {
        struct Reply: Codable, Sendable {
            var state: String
            var peers: [Peer]
        }

        struct Peer: Codable, Sendable {
            var publicKey: String
            var endpoint: String
            var receivedBytes: UInt64
            var sentBytes: UInt64
        }

        static let name = "benchmark.question"
        var number: Int
    }

    private static func cases() throws -> [Case] {
        let reply = Question.Reply(
            state: "connected",
            peers: (0..<4).map { number in
                Question.Peer(
                    publicKey: String(repeating: "k", count: 44), endpoint: "192.0.2.\(number):51820",
                    receivedBytes: 123_456_789, sentBytes: 987_654_321)
            })
        let router = MessageRouter()
        router.on(Question.self) { _ in reply }
        let memory = MessageClient(channel: MemoryMessageChannel(router: router))
        let socket = try SocketPair(router)
        return [("memory", memory, nil), ("Unix socket", socket.client, socket)].flatMap { place, client, owner in
            [("median", 0.5), ("99th percentile", 0.99)].map { quantile, share in
                Case(name: "\(place), \(quantile)", unit: .microseconds) { duration in
                    defer { withExtendedLifetime(owner as SocketPair?) {} }
                    return roundTrip(client, duration, share)
                }
            }
        }
    }

    /// Sends requests for `duration` nanoseconds.
    /// - Returns: The time that `share` of the round trips did not exceed, in microseconds.
    private static func roundTrip(_ client: MessageClient, _ duration: Int, _ share: Double) -> Double {
        Waiter.run {
            var times: [Int] = []
            let start = nanoseconds()
            var before = start
            repeat {
                guard let reply = try? await client.send(Question(number: times.count)) else { return .nan }
                keep(reply.peers.count)
                let now = nanoseconds()
                times.append(now - before)
                before = now
            } while before - start < duration
            times.sort()
            return Double(times[min(Int(Double(times.count) * share), times.count - 1)]) / 1000
        }
    }

    /// A server on a socket in a separate folder, and its client.
    private final class SocketPair: Sendable {
        let client: MessageClient
        private let server: UnixMessageServer
        private let folder: URL

        init(_ router: MessageRouter) throws {
            folder = FileManager.default.temporaryDirectory.appending(path: "culvert-bench-\(UUID().uuidString)")
            let path = folder.appending(path: "bench.sock").path
            server = try UnixMessageServer(configuration: UnixMessageServer.Configuration(path: path), router: router)
            client = MessageClient(channel: UnixMessageChannel(path: path))
        }

        deinit {
            server.close()
            try? FileManager.default.removeItem(at: folder)
        }
    }
}
