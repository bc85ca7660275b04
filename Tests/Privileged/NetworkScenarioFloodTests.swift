// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import PacketTunnelTesting
    import Testing
    import WireGuardCore

    extension DaemonTests {
        @Suite("Network scenarios: a flood of handshakes", .timeLimit(.minutes(5)))
        struct NetworkScenarioFloodTests {
            @Test(
                "Under a flood of initiations strangers get cookies, and a peer still comes through",
                arguments: [DaemonProgram.wireguardGo, .culvert])
            func flood(_ client: DaemonProgram) throws {
                let pair = try TunnelPair(client, .culvert)
                let (left, right) = (pair.left, pair.right)
                // One attacker per socket, each with its own key, in the client's namespace.
                let attackers = try (0..<16).map { _ in
                    try HandshakeAttacker(
                        on: right.keys.publicKey, at: right.outer4, port: right.port, in: left.namespace)
                }
                let flood = HandshakeFlood(attackers)
                defer { flood.stop() }
                try eventually("strangers get cookies") { flood.cookies > 0 }
                // The flood may displace an initiation; the next one is due five seconds later.
                try eventually("a ping comes back") { try pair.isReached(from: left) }
                flood.stop()
                #expect(try right.peer(left).latestHandshake > 0)
                if client == .wireguardGo {
                    #expect(
                        left.daemon.log.contains("Receiving cookie response"), "the client came through with a cookie")
                }
                // A cookie reply is smaller than its message, and no source receives more bytes than it sent.
                #expect(flood.cookies <= flood.sent)
                #expect(flood.others == 0, "no stranger gets anything else")

                // Afterwards a new peer connects immediately.
                try eventually("the load is over") { try pair.isReached(from: right) }
                #expect(right.daemon.process.isRunning)
            }

            @Test("A wireguard-go under a flood of initiations makes our client send a cookie, and accepts it")
            func loadedWireGuardGo() throws {
                var options = PairOptions()
                // Otherwise the daemon would write a line for each attacker.
                options.environment = ["LOG_LEVEL=error"]
                let pair = try TunnelPair(.culvert, .wireguardGo, options)
                let (left, right) = (pair.left, pair.right)
                let strangers = try Namespace()
                try right.shell(
                    """
                    ip link add other type veth peer name other netns \(strangers.name)
                    ip address add 10.8.0.2/24 dev other
                    ip link set other up
                    """)
                try strangers.run("ip", "address", "add", "10.8.0.1/24", "dev", "other")
                try strangers.run("ip", "link", "set", "other", "up")
                let capture = try MessageCapture(right.port, on: "veth", in: left.namespace)
                let attackers = try (0..<16).map { _ in
                    try HandshakeAttacker(on: right.keys.publicKey, at: "10.8.0.2", port: right.port, in: strangers)
                }
                // The server is under load for a second when 128 handshakes wait, and each burst has more than 600.
                let flood = HandshakeFlood(attackers, burst: 40, pause: .milliseconds(80), bursts: 600)
                defer { flood.stop() }
                try eventually("strangers get cookies") { flood.cookies > 0 }

                // The first initiation is answered only by a cookie; the second one is due five seconds later.
                try eventually("a ping comes back") { try pair.isReached(from: left) }
                let sent = flood.sent
                try eventually("the flood goes on") { flood.sent > sent }
                // The flood may also displace packets of the session.
                try eventually("another ping comes back beside it") { try pair.isReached(from: left) }
                let messages = try capture.messages()
                let handshake = messages.filter { $0 != .data }
                let reply = try #require(handshake.firstIndex(of: .cookieReply), "\(handshake)")
                #expect(handshake[..<reply].allSatisfy { $0 == .initiation(hasCookie: false) }, "\(handshake)")
                let rest = handshake[(reply + 1)...]
                #expect(rest.first == .initiation(hasCookie: true), "\(handshake)")
                #expect(rest.contains(.response), "\(handshake)")
                #expect(!rest.contains(.initiation(hasCookie: false)), "\(handshake)")
                // The client must not send a packet of the session before the server has answered.
                #expect(
                    messages.firstIndex(of: .response).map { !messages[..<$0].contains(.data) } ?? false, "\(messages)")
                #expect(try left.peer(right).latestHandshake > 0)
                #expect(try right.peer(left).latestHandshake > 0)
                #expect(flood.others == 0, "no stranger gets anything else")
            }
        }
    }
#endif
