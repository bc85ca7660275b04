// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing
    import WireGuardCore

    extension DaemonTests {
        @Suite("Network scenarios: moving ends", .timeLimit(.minutes(5)))
        struct NetworkScenarioRoamingTests {
            // MARK: - Roaming

            @Test(
                "The client gets another address, then one of the other family", arguments: InteropMatrixTests.Ends.all)
            func clientRoams(_ ends: InteropMatrixTests.Ends) throws {
                let pair = try TunnelPair(ends.initiator, ends.responder)
                let (client, server) = (pair.left, pair.right)
                try pair.ping(from: client)
                let handshake = try server.peer(client).latestHandshake
                #expect(try server.peer(client).endpoint == client.endpoint(.v4))

                // Change to another address of the same family: the old one is removed while the socket uses it.
                // wireguard-go keeps using it until its next handshake.
                var address = client.outer4
                if ends.initiator == .culvert {
                    address = "10.9.0.77"
                    try client.shell(
                        "ip address del \(client.outer4)/24 dev veth; ip address add \(address)/24 dev veth")
                    try eventually("the client is back") { try pair.isReached(from: client) }
                    #expect(try server.peer(client).endpoint == "\(address):\(client.port)")
                    try pair.ping(from: server)
                }

                // From IPv4 to IPv6, another port, and back.
                let key = server.keys.publicKey.base64
                try Wg.run("set", client.name, "peer", key, "endpoint", server.endpoint(.v6))
                try pair.ping(from: client)
                #expect(try server.peer(client).endpoint == "[\(client.outer6)]:\(client.port)")
                try Wg.run("set", client.name, "listen-port", "9997")
                try pair.ping(from: client)
                #expect(try server.peer(client).endpoint == "[\(client.outer6)]:9997")
                try Wg.run("set", client.name, "peer", key, "endpoint", server.endpoint(.v4))
                try pair.ping(from: client)
                #expect(try server.peer(client).endpoint == "\(address):9997")
                try pair.ping(from: server)
                #expect(try server.peer(client).latestHandshake == handshake, "all in one session")
            }

            @Test(
                "When the server's address and port change, the client follows with the next datagram",
                arguments: InteropMatrixTests.Ends.all)
            func serverRoams(_ ends: InteropMatrixTests.Ends) throws {
                let pair = try TunnelPair(ends.initiator, ends.responder)
                let (client, server) = (pair.left, pair.right)
                try pair.ping(from: client)
                try server.shell("ip address del \(server.outer4)/24 dev veth; ip address add 10.9.0.88/24 dev veth")
                try Wg.run("set", server.name, "listen-port", "9998")
                try eventually("the server reaches the client") { try pair.isReached(from: server) }
                #expect(try client.peer(server).endpoint == "10.9.0.88:9998")
                try pair.ping(from: client)

                try Wg.run("set", server.name, "peer", client.keys.publicKey.base64, "endpoint", client.endpoint(.v6))
                try pair.ping(from: server)
                #expect(try client.peer(server).endpoint == "[\(server.outer6)]:9998")
                try pair.ping(from: client)
            }

            // MARK: - Sticky source addresses

            @Test(
                "Replies come from the contacted address, until it is removed", arguments: [IPFamily.v4, .v6])
            func stickySource(_ family: IPFamily) throws {
                let pair = try TunnelPair(.wireguardGo, .culvert)
                let (client, server) = (pair.left, pair.right)
                let (second, length) = family == .v4 ? ("10.9.0.100", 24) : ("fd09::100", 64)
                let (first, extra) = family == .v4 ? (server.outer4, "") : (server.outer6, " nodad")
                // The system prefers this address.
                try server.shell("ip address add \(second)/\(length) dev veth\(extra)")
                let text = family == .v4 ? "\(second):\(server.port)" : "[\(second)]:\(server.port)"
                try Wg.run("set", client.name, "peer", server.keys.publicKey.base64, "endpoint", text)
                let chosen = try server.shell("ip route get \(client.endpoint(family).hostPart)")
                try pair.ping(from: client)
                try pair.ping(from: server)
                #expect(try client.peer(server).endpoint == text, "the client did not see another source (\(chosen))")
                // The other address, in the same session.
                try Wg.run(
                    "set", client.name, "peer", server.keys.publicKey.base64, "endpoint", server.endpoint(family))
                try pair.ping(from: client)
                try pair.ping(from: server)
                #expect(try client.peer(server).endpoint == server.endpoint(family))
                // The client returns to the other address, which is then removed. Traffic continues from the remaining
                // one.
                try Wg.run("set", client.name, "peer", server.keys.publicKey.base64, "endpoint", text)
                try pair.ping(from: client)
                try server.shell("ip address del \(second)/\(length) dev veth")
                try eventually("the server reaches the client") { try pair.isReached(from: server) }
                #expect(try client.peer(server).endpoint.contains(first))
                try pair.ping(from: client)
            }

            @Test("A route that changes to another link takes the source address along")
            func routeChange() throws {
                let pair = try TunnelPair(.culvert, .wireguardGo)
                let (client, server) = (pair.left, pair.right)
                // The server is reached through two links, and its address belongs to neither.
                try client.shell("ip link add veth2 type veth peer name veth2 netns \(server.namespace.name)")
                try client.shell("ip address add 10.7.0.1/24 dev veth2; ip link set veth2 up")
                try server.shell(
                    """
                    ip address add 10.7.0.2/24 dev veth2; ip link set veth2 up
                    ip address add 10.100.0.2/32 dev lo
                    """)
                try client.shell("ip route add 10.100.0.2/32 via \(server.outer4)")
                try Wg.run(
                    "set", client.name, "peer", server.keys.publicKey.base64, "endpoint",
                    "10.100.0.2:\(server.port)")
                try pair.ping(from: client)
                #expect(try server.peer(client).endpoint == "\(client.outer4):\(client.port)")
                try client.shell("ip route replace 10.100.0.2/32 via 10.7.0.2")
                try eventually("the server sees the other link's address") {
                    try pair.isReached(from: client) && server.peer(client).endpoint == "10.7.0.1:\(client.port)"
                }
                // The link is removed, and the first one is used again.
                try client.shell("ip link delete veth2; ip route replace 10.100.0.2/32 via \(server.outer4)")
                try eventually("the server sees the first link's address") {
                    try pair.isReached(from: client)
                        && server.peer(client).endpoint == "\(client.outer4):\(client.port)"
                }
                #expect(try client.peer(server).endpoint == "10.100.0.2:\(server.port)")
            }

            // MARK: - NAT

            @Test("Behind a NAT: the keepalive holds the mapping, and makes a new one when it is lost")
            func nat() throws {
                let pair = try TunnelPair(.culvert, .wireguardGo)
                let (client, server) = (pair.left, pair.right)
                let router = try Namespace()
                try client.shell(
                    """
                    ip link delete veth
                    ip link add inside type veth peer name inside netns \(router.name)
                    ip address add 192.168.1.2/24 dev inside; ip link set inside up
                    ip route add default via 192.168.1.1
                    """)
                try server.shell(
                    """
                    ip link add outside type veth peer name outside netns \(router.name)
                    ip address add 10.0.0.2/24 dev outside; ip link set outside up
                    """)
                try router.run(
                    "sh", "-ec",
                    """
                    ip address add 192.168.1.1/24 dev inside; ip link set inside up
                    ip address add 10.0.0.1/24 dev outside; ip link set outside up
                    sysctl -q net.ipv4.ip_forward=1
                    iptables -t nat -A POSTROUTING -s 192.168.1.0/24 -d 10.0.0.0/24 -j MASQUERADE --random-fully
                    iptables -A FORWARD -i outside -m conntrack ! --ctstate ESTABLISHED,RELATED -j DROP
                    sysctl -q net.netfilter.nf_conntrack_udp_timeout=2 net.netfilter.nf_conntrack_udp_timeout_stream=2
                    """)
                try Wg.run(
                    "set", client.name, "peer", server.keys.publicKey.base64, "endpoint", "10.0.0.2:\(server.port)",
                    "persistent-keepalive", "1")
                try eventually("the client has greeted the server") { try server.peer(client).latestHandshake > 0 }
                let mapping = try server.peer(client).endpoint
                #expect(mapping.hasPrefix("10.0.0.1:"))
                try eventually("the server reaches the client") { try pair.isReached(from: server) }

                // Only keepalives are sent, for longer than a mapping lasts without them.
                let received = try server.peer(client).received
                try eventually("four keepalives") { try server.peer(client).received >= received + 4 * 32 }
                try pair.ping(from: server)
                #expect(try server.peer(client).endpoint == mapping)

                // Delete the router's mapping. The next keepalive shows the server the new one.
                try router.run("conntrack", "-D", "-p", "udp")
                try eventually("the server sees the new mapping") { try server.peer(client).endpoint != mapping }
                try pair.ping(from: server)

                // Without keepalives the mapping expires, and the server no longer reaches the client.
                try Wg.run(
                    "set", client.name, "peer", server.keys.publicKey.base64, "persistent-keepalive", "off")
                try router.run("conntrack", "-D", "-p", "udp")
                #expect(try !pair.isReached(from: server))
                try pair.ping(from: client)
                try pair.ping(from: server)
            }

            // MARK: - Restarts

            @Test("Either end is restarted with the same keys", arguments: InteropMatrixTests.Ends.all)
            func restarts(_ ends: InteropMatrixTests.Ends) throws {
                var options = PairOptions()
                options.rightKnowsLeft = true
                let pair = try TunnelPair(ends.initiator, ends.responder, options)
                for end in [pair.right, pair.left] {
                    try pair.ping(from: pair.left)
                    try pair.restart(end)
                    // Traffic from the end that lost its sessions creates a new session immediately.
                    try pair.ping(from: end)
                    try pair.ping(from: pair.other(end))
                }
            }

            @Test("The responder is restarted: the initiator's own timer brings the session back")
            func responderRestarts() throws {
                let pair = try TunnelPair(.culvert, .culvert)
                try pair.ping(from: pair.left)
                let first = try pair.left.peer(pair.right).latestHandshake
                // The initiator is not notified. It detects the restart fifteen seconds after the last answer.
                try pair.restart(pair.right)
                let socket = try TestSocket.datagrams(in: pair.left.namespace, at: pair.left.inner4)
                let start = ContinuousClock.now
                socket.send([1], to: try SocketAddress(pair.right.inner4, 9))
                try eventually("a new handshake", within: .seconds(25), pollEvery: .milliseconds(50)) {
                    try pair.left.peer(pair.right).latestHandshake > first
                }
                #expect(ContinuousClock.now - start > .seconds(14))
                try pair.ping(from: pair.left)
            }
        }
    }

    extension String {
        /// An endpoint's address, without port and brackets.
        fileprivate var hostPart: String {
            guard let colon = lastIndex(of: ":") else { return self }
            return self[..<colon].trimmingCharacters(in: CharacterSet(charactersIn: "[]"))
        }
    }
#endif
