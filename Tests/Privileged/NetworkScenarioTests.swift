// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing
    import WireGuardCore

    extension DaemonTests {
        @Suite("Network scenarios", .timeLimit(.minutes(5)))
        struct NetworkScenarioTests {
            // MARK: - Namespaces

            @Test(
                "Sockets stay in the namespace of birth when the interfaces are moved", arguments: [IPFamily.v4, .v6])
            func birthNamespace(_ family: IPFamily) throws {
                let birth = try Namespace()
                let homes = [try Namespace(), try Namespace()]
                let daemons = [
                    try DaemonProcess(.culvert, in: birth), try DaemonProcess(.culvert, in: birth),
                ]
                let keys = [StaticKeys(), StaticKeys()]
                let loopback = family == .v4 ? "127.0.0.1" : "[::1]"
                for (index, daemon) in daemons.enumerated() {
                    try Wg.configure(
                        daemon.name,
                        """
                        [Interface]
                        PrivateKey = \(keys[index].text)
                        ListenPort = \(index + 1)
                        [Peer]
                        PublicKey = \(keys[1 - index].publicKey.base64)
                        Endpoint = \(loopback):\(2 - index)
                        AllowedIPs = 192.168.241.\(2 - index)/32
                        """)
                    try birth.run("ip", "link", "set", daemon.name, "netns", homes[index].name)
                    try homes[index].run("ip", "address", "add", "192.168.241.\(index + 1)/24", "dev", daemon.name)
                    // The daemon receives this event from the interface's new namespace.
                    try homes[index].run("ip", "link", "set", daemon.name, "up")
                }
                try homes[0].run("ping", "-n", "-q", "-c", "3", "-i", "0.02", "-W", "9", "192.168.241.2")
                try homes[1].run("ping", "-n", "-q", "-c", "3", "-i", "0.02", "-W", "9", "192.168.241.1")
                let sockets = try birth.run("ss", "-Hlun").output
                #expect(sockets.contains(":1 ") && sockets.contains(":2 "), "\(sockets)")
                #expect(try homes[0].run("ss", "-Hlun").output.isEmpty)

                // Setting the interface down in its new namespace closes the sockets. After it is up, they and the
                // tunnel work again.
                try homes[0].run("ip", "link", "set", daemons[0].name, "down")
                try eventually("the socket is closed") { try !birth.run("ss", "-Hlun").output.contains(":1 ") }
                try homes[0].run("ip", "link", "set", daemons[0].name, "up")
                try homes[0].run("ping", "-n", "-q", "-c", "1", "-W", "9", "192.168.241.2")

                // Moved once more, and deleted from there.
                try homes[0].run("ip", "link", "set", daemons[0].name, "netns", homes[1].name)
                try homes[1].run("ip", "link", "delete", daemons[0].name)
                #expect(try daemons[0].waitUntilEnded().status == 0)
                #expect(try DaemonRemains.of(daemons[0].name, in: birth, homes[0], homes[1]) == [])
            }

            @Test("A host works without IPv6, or with it on the loopback interface only", arguments: ["all", "veth"])
            func withoutIPv6(_ interface: String) throws {
                let pair = try TunnelPair(.culvert, .wireguardGo)
                for end in [pair.left, pair.right] {
                    try end.shell(
                        """
                        ip link set \(end.name) down
                        sysctl -q net.ipv6.conf.\(interface).disable_ipv6=1
                        ip link set \(end.name) up
                        """)
                }
                try pair.ping(from: pair.left)
                try Wg.run("set", pair.left.name, "listen-port", "5555")
                try pair.ping(from: pair.left)
                #expect(try pair.right.peer(pair.left).endpoint == "\(pair.left.outer4):5555")
            }

            @Test("A host works without IPv4")
            func withoutIPv4() throws {
                var options = PairOptions()
                options.outer = .v6
                let pair = try TunnelPair(.culvert, .wireguardGo, options)
                for end in [pair.left, pair.right] {
                    try end.shell("ip -4 address flush dev veth; ip -4 address flush dev lo")
                }
                try pair.ping(from: pair.left)
                try pair.ping(from: pair.right, .v6)
            }

            @Test("An endpoint may have a link-local address", arguments: InteropMatrixTests.Ends.all)
            func linkLocal(_ ends: InteropMatrixTests.Ends) throws {
                let pair = try TunnelPair(ends.initiator, ends.responder)
                for end in [pair.left, pair.right] {
                    try end.shell("ip address add fe80::\(end.number)/64 dev veth nodad")
                }
                // wg(8) resolves the zone in the namespace in which it runs.
                try pair.left.namespace.run(
                    "wg", "set", pair.left.name, "peer", pair.right.keys.publicKey.base64, "endpoint",
                    "[fe80::2%veth]:\(pair.right.port)")
                try pair.ping(from: pair.left)
                try pair.ping(from: pair.right)
                for end in [pair.left, pair.right] where end.daemon.program == .culvert {
                    let other = pair.other(end)
                    let shown = try end.shell("wg show \(end.name) endpoints")
                    #expect(shown.contains("[fe80::\(other.number)%veth]:\(other.port)"), "\(shown)")
                }
            }

            // MARK: - Counters

            @Test(
                "Counters are exact: handshakes and padded packets, the same at both ends",
                arguments: [
                    InteropMatrixTests.Ends(initiator: .culvert, responder: .wireguardGo),
                    InteropMatrixTests.Ends(initiator: .wireguardGo, responder: .culvert),
                ])
            func counters(_ ends: InteropMatrixTests.Ends) throws {
                let pair = try TunnelPair(ends.initiator, ends.responder)
                // Count only the pings: exclude router solicitations and similar packets.
                for end in [pair.left, pair.right] {
                    try end.shell("sysctl -q net.ipv6.conf.\(end.name).disable_ipv6=1")
                }
                try pair.left.namespace.run("ping", "-n", "-q", "-c", "10", "-i", "0.01", "-W", "9", pair.right.inner4)
                let left = try pair.left.peer(pair.right)
                let right = try pair.right.peer(pair.left)
                // A ping of 84 bytes is padded to 96, with 32 bytes around it: 128. Initiation 148, response 92.
                #expect(right.sent == 92 + 10 * 128)
                #expect(left.received == 92 + 10 * 128)
                // A keepalive of 32 bytes may have confirmed the session before the first packet.
                let least = 148 + 10 * 128
                #expect(left.sent == least || left.sent == least + 32, "\(left.sent)")
                #expect(right.received == left.sent)
            }

            // MARK: - Crypto-key routing

            @Test("A packet whose source is not the peer's is not delivered, and one without a peer is not sent")
            func cryptoKeyRouting() throws {
                let pair = try TunnelPair(.wireguardGo, .culvert)
                let (sender, receiver) = (pair.left, pair.right)
                try sender.shell("ip address add 192.168.241.9/32 dev \(sender.name)")
                let socket = try TestSocket.datagrams(in: receiver.namespace, at: receiver.inner4, port: 4000)
                let target = try SocketAddress(receiver.inner4, 4000)
                let liar = try TestSocket.datagrams(in: sender.namespace, at: "192.168.241.9")
                let honest = try TestSocket.datagrams(in: sender.namespace, at: sender.inner4)
                honest.send([1], to: target)
                #expect(socket.receive()?.bytes == [1])

                let before = try receiver.peer(sender).received
                for _ in 0..<5 { liar.send([UInt8](repeating: 7, count: 100), to: target) }
                honest.send([2], to: target)
                #expect(socket.receive()?.bytes == [2], "the liar's datagrams were sent before this one")
                // They count as received, because the peer sent them: 128 bytes of UDP, and 32 of overhead.
                #expect(try receiver.peer(sender).received - before >= 5 * 160)
                #expect(socket.receive(within: .milliseconds(100)) == nil)

                // Outgoing: send to an address that no peer has.
                let transmitted = try receiver.peer(sender).sent
                let outward = try TestSocket.datagrams(in: receiver.namespace, at: receiver.inner4)
                outward.send([3], to: try SocketAddress("192.168.241.77", 4000))
                #expect(try receiver.peer(sender).sent - transmitted < 32)

                // The more specific network belongs to the other peer, regardless of the owner of the larger one.
                try Wg.run(
                    "set", receiver.name, "peer", sender.keys.publicKey.base64, "allowed-ips", "192.168.241.0/24")
                liar.send([4], to: target)
                #expect(socket.receive()?.bytes == [4])
                try Wg.run(
                    "set", receiver.name, "peer", StaticKeys().publicKey.base64, "allowed-ips", "192.168.241.9/32")
                liar.send([5], to: target)
                honest.send([6], to: target)
                #expect(socket.receive()?.bytes == [6])
            }

            // MARK: - Many allowed IPs, many peers

            @Test("One setconf takes 130,560 allowed IPs")
            func manyAllowedIPs() throws {
                let namespace = try Namespace()
                let daemon = try DaemonProcess(.culvert, in: namespace)
                var lines = ["[Interface]", "PrivateKey = \(StaticKeys().text)", "[Peer]"]
                lines.append("PublicKey = \(StaticKeys().publicKey.base64)")
                var prefixes: Set<String> = []
                for high in 1...255 {
                    for low in 0...255 {
                        let six = String(high << 8 | low, radix: 16)
                        prefixes.insert("\(high).\(low).0.0/16")
                        prefixes.insert("\(six)::/16")
                        lines.append("AllowedIPs = \(high).\(low).0.0/16, \(six)::/16")
                    }
                }
                let start = ContinuousClock.now
                try Wg.configure(daemon.name, lines.joined(separator: "\n"))
                let output = try Wg.run("show", daemon.name, "allowed-ips")
                let duration = ContinuousClock.now - start
                let shown = output.split(whereSeparator: { $0.isWhitespace }).dropFirst().map(String.init)
                #expect(shown.count == 130_560)
                let isWhole = Set(shown) == prefixes
                #expect(isWhole)
                #expect(duration < .seconds(20), "\(duration)")
                // All are removed together.
                try Wg.configure(daemon.name, "[Interface]")
                #expect(try Wg.dump(daemon.name).peers == [])
            }

            @Test("Forty peers with fifty-two allowed IPs each are set, and traffic passes to two of them")
            func manyPeers() throws {
                let pair = try TunnelPair(.culvert, .wireguardGo)
                var text = "[Interface]\n"
                var expected: [String: Set<String>] = [:]
                for peer in 1...40 {
                    let key = StaticKeys().publicKey.base64
                    let addresses = (0..<26).flatMap { ["10.\(peer).\($0).0/24", "fd\(peer + 10):\($0 + 1)::/64"] }
                    expected[key] = Set(addresses)
                    text += "[Peer]\nPublicKey = \(key)\nAllowedIPs = \(addresses.joined(separator: ", "))\n"
                }
                try Wg.configure(pair.left.name, text, by: "addconf")
                let third = try PairEnd(3, .culvert)
                try pair.left.shell("ip link add veth3 type veth peer name veth3 netns \(third.namespace.name)")
                try pair.left.shell("ip address add 10.8.0.1/24 dev veth3; ip link set veth3 up")
                try third.shell("ip address add 10.8.0.3/24 dev veth3; ip link set veth3 up")
                try Wg.configure(
                    third.name,
                    """
                    [Interface]
                    PrivateKey = \(third.keys.text)
                    [Peer]
                    PublicKey = \(pair.left.keys.publicKey.base64)
                    AllowedIPs = 0.0.0.0/0
                    Endpoint = 10.8.0.1:\(pair.left.port)
                    """)
                try third.shell("ip address add \(third.inner4)/24 dev \(third.name); ip link set \(third.name) up")
                try Wg.run(
                    "set", pair.left.name, "peer", third.keys.publicKey.base64, "allowed-ips", "\(third.inner4)/32")
                try third.namespace.run("ping", "-n", "-q", "-c", "1", "-W", "9", pair.left.inner4)
                try pair.ping(from: pair.left)
                try pair.left.namespace.run("ping", "-n", "-q", "-c", "1", "-W", "9", third.inner4)

                let shown = try Wg.dump(pair.left.name)
                #expect(shown.peers.count == 42)
                let wrong = shown.peers.filter { peer in
                    expected[peer.publicKey].map { $0 != Set(peer.allowedIPs) } ?? false
                }
                #expect(wrong == [])
                #expect(shown.peers.filter { $0.latestHandshake > 0 }.count == 2)
            }
        }
    }
#endif
