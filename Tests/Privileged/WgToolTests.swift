// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import NetworkAddresses
    import Foundation
    import Testing
    import WireGuardCore

    extension DaemonTests {
        @Suite("wg(8)", .timeLimit(.minutes(5)))
        struct WgToolTests {
            // MARK: - Showing

            @Test("A fresh daemon has nothing to show")
            func fresh() throws {
                let namespace = try Namespace()
                let daemon = try DaemonProcess(.culvert, in: namespace)
                #expect(try Wg.run("show", daemon.name, "dump") == "(none)\t(none)\t0\toff\n")
                #expect(try Wg.run("show", daemon.name).contains("interface: \(daemon.name)"))
                #expect(try Wg.run("showconf", daemon.name) == "[Interface]\n\n")
                try namespace.run("ip", "link", "set", daemon.name, "up")
                try eventually("a port of the system's choice") { try Wg.dump(daemon.name).listenPort != 0 }
            }

            @Test("Show prints every value")
            func show() throws {
                var options = PairOptions()
                options.hasPresharedKey = true
                let pair = try TunnelPair(.culvert, .wireguardGo, options)
                let (left, right) = (pair.left, pair.right)
                let key = right.keys.publicKey.base64
                try Wg.run("set", left.name, "fwmark", "0x1234", "peer", key, "persistent-keepalive", "25")
                let before = Int(Date().timeIntervalSince1970)
                try pair.ping(from: left)

                func field(_ name: String) throws -> String {
                    try Wg.run("show", left.name, name).trimmingCharacters(in: .whitespacesAndNewlines)
                }
                #expect(try field("public-key") == left.keys.publicKey.base64)
                #expect(try field("private-key") == left.keys.text)
                #expect(try field("listen-port") == "\(left.port)")
                #expect(try field("fwmark") == "0x1234")
                #expect(try field("peers") == key)
                #expect(try field("preshared-keys") == "\(key)\t\(try right.peer(left).presharedKey)")
                #expect(try field("endpoints") == "\(key)\t\(right.endpoint(.v4))")
                #expect(try field("allowed-ips") == "\(key)\t\(right.inner4)/32 \(right.inner6)/128")
                #expect(try field("persistent-keepalive") == "\(key)\t25")
                let handshake = try #require(Int(try field("latest-handshakes").dropFirst(key.count + 1)))
                #expect((before...(before + 60)).contains(handshake))
                #expect(try field("transfer").hasPrefix(key))

                let dump = try Wg.dump(left.name)
                #expect(dump.privateKey == left.keys.text)
                #expect(dump.publicKey == left.keys.publicKey.base64)
                #expect(dump.listenPort == left.port)
                #expect(dump.mark == "0x1234")
                let peer = try #require(dump.peers.first)
                #expect(dump.peers.count == 1)
                #expect(peer.latestHandshake == handshake)
                #expect(peer.allowedIPs == ["\(right.inner4)/32", "\(right.inner6)/128"])
                #expect(peer.keepalive == "25")
                #expect(peer.sent >= 148 + 128 && peer.received >= 92 + 128)

                let words = try Wg.run("show", left.name)
                for line in [
                    "public key: \(left.keys.publicKey.base64)", "private key: (hidden)",
                    "listening port: \(left.port)",
                    "fwmark: 0x1234", "preshared key: (hidden)", "endpoint: \(right.endpoint(.v4))",
                    "allowed ips: \(right.inner4)/32, \(right.inner6)/128", "latest handshake: ", "received, ",
                    "persistent keepalive: every 25 seconds",
                ] {
                    #expect(words.contains(line), "\(line) is missing in:\n\(words)")
                }
                let all = try Wg.run("show", "all", "dump")
                #expect(
                    all.contains(
                        "\(left.name)\t\(left.keys.text)\t\(left.keys.publicKey.base64)\t\(left.port)\t0x1234\n"))
                #expect(all.contains("\(left.name)\t\(key)\t"))
            }

            @Test("The command showconf gives what setconf takes, to the letter")
            func roundTrip() throws {
                let namespace = try Namespace()
                let daemon = try DaemonProcess(.culvert, in: namespace)
                var random = SystemRandomNumberGenerator()
                var text = """
                    [Interface]
                    ListenPort = 5821
                    FwMark = 0x10
                    PrivateKey = \(StaticKeys().text)


                    """
                for peer in 1...3 {
                    text += "[Peer]\nPublicKey = \(StaticKeys().publicKey.base64)\n"
                    if peer == 2 { text += "PresharedKey = \(PresharedKey(using: &random).exportedBase64)\n" }
                    text += "AllowedIPs = 10.0.\(peer).0/24, fd00:\(peer)::/32\n"
                    text += peer == 3 ? "Endpoint = [2001:db8::1]:65535\n" : "Endpoint = 192.0.2.\(peer):1\n"
                    if peer == 1 { text += "PersistentKeepalive = 65535\n" }
                    text += "\n"
                }
                try Wg.configure(daemon.name, text)
                let shown = try Wg.run("showconf", daemon.name)
                // The order of peers is not specified.
                func blocks(_ text: String) -> Set<String> {
                    Set(
                        text.components(separatedBy: "\n\n").map { $0.trimmingCharacters(in: .newlines) }.filter {
                            !$0.isEmpty
                        })
                }
                #expect(blocks(shown) == blocks(text))
                try Wg.configure(daemon.name, shown)
                #expect(blocks(try Wg.run("showconf", daemon.name)) == blocks(text))
            }

            // MARK: - Setting

            @Test("The command set takes each setting and its clearing")
            func settings() throws {
                let namespace = try Namespace()
                let daemon = try DaemonProcess(.culvert, in: namespace)
                let name = daemon.name
                let folder = try TemporaryFolder()
                let keys = StaticKeys()
                let secret = StaticKeys().text
                let key = StaticKeys().publicKey.base64
                let privateFile = try folder.write(keys.text + "\n", to: "private")
                let secretFile = try folder.write(secret, to: "secret")
                func peer() throws -> WgDump.Peer? { try Wg.dump(name).peers.first }

                try Wg.run("set", name, "private-key", privateFile, "listen-port", "1234", "fwmark", "7")
                #expect(try Wg.dump(name).privateKey == keys.text)
                #expect(try Wg.dump(name).publicKey == keys.publicKey.base64)
                #expect(try Wg.dump(name).listenPort == 1234)
                #expect(try Wg.dump(name).mark == "0x7")
                try Wg.run("set", name, "fwmark", "off", "listen-port", "0", "private-key", "/dev/null")
                #expect(try Wg.run("show", name, "dump") == "(none)\t(none)\t0\toff\n")

                try Wg.run("set", name, "peer", key)
                #expect(
                    try peer()
                        == WgDump.Peer(
                            publicKey: key, presharedKey: "(none)", endpoint: "(none)", allowedIPs: [],
                            latestHandshake: 0,
                            received: 0, sent: 0, keepalive: "off"))
                try Wg.run("set", name, "peer", key, "preshared-key", secretFile, "persistent-keepalive", "9")
                #expect(try peer()?.presharedKey == secret)
                #expect(try peer()?.keepalive == "9")
                try Wg.run("set", name, "peer", key, "preshared-key", "/dev/null", "persistent-keepalive", "off")
                #expect(try peer()?.presharedKey == "(none)")
                #expect(try peer()?.keepalive == "off")
                for endpoint in ["192.0.2.1:1", "[2001:db8::2]:2", "255.255.255.255:65535"] {
                    try Wg.run("set", name, "peer", key, "endpoint", endpoint)
                    #expect(try peer()?.endpoint == endpoint)
                }
                // The last set replaces the ones before; host bits are dropped; none clears.
                try Wg.run("set", name, "peer", key, "allowed-ips", "10.0.0.1/8,::/0,192.0.2.7/32")
                #expect(Set(try peer()?.allowedIPs ?? []) == ["10.0.0.0/8", "::/0", "192.0.2.7/32"])
                try Wg.run("set", name, "peer", key, "allowed-ips", "0.0.0.0/0")
                #expect(try peer()?.allowedIPs == ["0.0.0.0/0"])
                // A prefix that is assigned to another peer is removed from this one.
                let other = StaticKeys().publicKey.base64
                try Wg.run("set", name, "peer", other, "allowed-ips", "0.0.0.0/0")
                #expect(try Wg.dump(name).peers.first { $0.publicKey == key }?.allowedIPs == [])
                try Wg.run("set", name, "peer", other, "allowed-ips", "")
                #expect(try Wg.dump(name).peers.allSatisfy { $0.allowedIPs == [] })
                try Wg.run("set", name, "peer", key, "remove", "peer", other, "remove")
                #expect(try peer() == nil)
            }

            @Test("A peer with the private key's own public key is refused")
            func selfPeer() throws {
                let namespace = try Namespace()
                let daemon = try DaemonProcess(.culvert, in: namespace)
                let keys = StaticKeys()
                let text = "[Interface]\nPrivateKey = \(keys.text)\n[Peer]\nPublicKey = \(keys.publicKey.base64)\n"
                try Wg.configure(daemon.name, text)
                #expect(try Wg.dump(daemon.name).peers == [])
                try Wg.configure(daemon.name, "[Interface]\n")
                try Wg.run("set", daemon.name, "peer", keys.publicKey.base64)
                #expect(try Wg.dump(daemon.name).peers.count == 1)
                let folder = try TemporaryFolder()
                try Wg.run("set", daemon.name, "private-key", try folder.write(keys.text, to: "private"))
                #expect(try Wg.dump(daemon.name).peers == [])
            }

            @Test("A port that is taken: 'Address already in use', and nothing is changed", arguments: [true, false])
            func portInUse(_ isTakenOnIPv6Only: Bool) throws {
                let pair = try TunnelPair(.culvert, .wireguardGo)
                let (left, right) = (pair.left, pair.right)
                try pair.ping(from: left)
                let taker = try TestSocket.datagrams(
                    in: left.namespace, at: isTakenOnIPv6Only ? "::1" : "127.0.0.1", port: 7777)
                let before = try Wg.dump(left.name)
                let result = try Wg.attempt(
                    "set", left.name, "listen-port", "7777", "fwmark", "9", "peer", StaticKeys().publicKey.base64)
                #expect(result.status != 0)
                #expect(result.output.contains("Address already in use"), "\(result.output)")
                #expect(try Wg.dump(left.name) == before)
                try pair.ping(from: left)
                #expect(taker.port == 7777)
                // A change of the port takes effect immediately, and the other end updates its endpoint.
                try Wg.run("set", left.name, "listen-port", "7778")
                #expect(try Wg.dump(left.name).listenPort == 7778)
                try pair.ping(from: left)
                #expect(try right.peer(left).endpoint == "\(left.outer4):7778")
                // Zero: one of the system's choice.
                try Wg.run("set", left.name, "listen-port", "0")
                let chosen = try Wg.dump(left.name).listenPort
                #expect(chosen != 0 && chosen != 7778)
                try pair.ping(from: left)
                #expect(try right.peer(left).endpoint == "\(left.outer4):\(chosen)")
            }

            @Test("The mark is on the packets, from the moment it is set until it is cleared")
            func mark() throws {
                let pair = try TunnelPair(.culvert, .wireguardGo)
                let left = pair.left
                try left.shell(
                    """
                    nft add table inet marks
                    nft 'add chain inet marks output { type filter hook output priority 0; }'
                    nft 'add rule inet marks output oifname veth udp dport \(pair.right.port) meta mark 0x2a counter'
                    nft 'add rule inet marks output oifname veth udp dport \(pair.right.port) meta mark 0 counter'
                    """)
                /// Packets with the mark and without.
                func counts() throws -> [Int] {
                    let text = try left.shell("nft list table inet marks")
                    let words = text.split(whereSeparator: \.isWhitespace)
                    return words.indices.filter { words[$0] == "packets" }.compactMap { Int(words[$0 + 1]) }
                }
                try pair.ping(from: left)
                let first = try counts()
                #expect(first[0] == 0 && first[1] > 0)
                try Wg.run("set", left.name, "fwmark", "0x2a")
                try pair.ping(from: left)
                // The mark also applies to sockets that are bound again.
                try Wg.run("set", left.name, "listen-port", "4444")
                try pair.ping(from: left)
                let second = try counts()
                #expect(second[0] >= 2 && second[1] == first[1])
                try Wg.run("set", left.name, "fwmark", "off")
                try pair.ping(from: left)
                let third = try counts()
                #expect(third[0] == second[0] && third[1] > second[1])
            }

            // MARK: - Sessions and configuration

            @Test(
                "Syncconf, addconf and set leave the session alone", arguments: [DaemonProgram.culvert, .wireguardGo])
            func keepsSession(_ other: DaemonProgram) throws {
                let pair = try TunnelPair(.culvert, other)
                let (left, right) = (pair.left, pair.right)
                try pair.ping(from: left)
                let before = try left.peer(right)
                let initiations = right.daemon.log
                let configuration = pair.configuration(of: left)
                try Wg.configure(left.name, configuration, by: "syncconf")
                try pair.ping(from: left)
                let extra = StaticKeys().publicKey.base64
                try Wg.configure(
                    left.name, configuration + "[Peer]\nPublicKey = \(extra)\nAllowedIPs = 10.4.0.0/16\n",
                    by: "syncconf")
                try pair.ping(from: right)
                #expect(try Wg.dump(left.name).peers.count == 2)
                try Wg.configure(left.name, configuration, by: "syncconf")
                #expect(try Wg.dump(left.name).peers.count == 1)
                try Wg.configure(left.name, "[Peer]\nPublicKey = \(extra)\nAllowedIPs = 10.4.0.0/16\n", by: "addconf")
                #expect(try Wg.dump(left.name).peers.count == 2)
                try Wg.run(
                    "set", left.name, "peer", right.keys.publicKey.base64, "persistent-keepalive", "30", "allowed-ips",
                    "\(right.inner4)/32,\(right.inner6)/128")
                try pair.ping(from: left)
                let after = try left.peer(right)
                #expect(after.latestHandshake == before.latestHandshake)
                #expect(after.sent >= before.sent + 3 * 128 && after.sent < before.sent + 148 + 3 * 128 + 148)
                #expect(right.daemon.log.count >= initiations.count)
            }

            @Test("Setconf keeps the session of a peer that stays, unless its pre-shared key changes")
            func setconf() throws {
                let pair = try TunnelPair(.culvert, .wireguardGo)
                try pair.pingForAWhile(from: pair.left)
                let before = try pair.left.peer(pair.right)
                let configuration = pair.configuration(of: pair.left)
                let extra = "[Peer]\nPublicKey = \(StaticKeys().publicKey.base64)\nAllowedIPs = 10.4.0.0/16\n"
                for text in [configuration + extra, configuration] {
                    try Wg.configure(pair.left.name, text)
                    try pair.ping(from: pair.left)
                    let after = try pair.left.peer(pair.right)
                    #expect(after.latestHandshake == before.latestHandshake && after.sent > before.sent)
                }
                #expect(try Wg.dump(pair.left.name).peers.count == 1)
                var random = SystemRandomNumberGenerator()
                let key = "PresharedKey = \(PresharedKey(using: &random).exportedBase64)\n"
                try Wg.configure(pair.left.name, configuration + key)
                #expect(try pair.left.peer(pair.right).latestHandshake == 0)
                #expect(try !pair.isReached(from: pair.left))
                try Wg.configure(pair.right.name, pair.configuration(of: pair.right) + key)
                try pair.ping(from: pair.left)
            }

            @Test(
                "A removed peer is ignored; one that is added again works",
                arguments: [
                    DaemonProgram.culvert, .wireguardGo,
                ])
            func removePeer(_ other: DaemonProgram) throws {
                var options = PairOptions()
                options.rightKnowsLeft = true
                let pair = try TunnelPair(.culvert, other, options)
                try pair.ping(from: pair.left)
                try Wg.run("set", pair.left.name, "peer", pair.right.keys.publicKey.base64, "remove")
                #expect(try !pair.isReached(from: pair.right))
                #expect(try Wg.dump(pair.left.name).peers == [])
                try Wg.configure(pair.left.name, pair.configuration(of: pair.left))
                try pair.ping(from: pair.left)
            }

            @Test("A new private key ends the old identity; the other end gets the new key, and the tunnel works again")
            func replaceKeys() throws {
                let pair = try TunnelPair(.culvert, .wireguardGo)
                let (left, right) = (pair.left, pair.right)
                try pair.ping(from: left)
                let keys = StaticKeys()
                let folder = try TemporaryFolder()
                try Wg.run("set", left.name, "private-key", try folder.write(keys.text, to: "private"))
                #expect(try Wg.dump(left.name).publicKey == keys.publicKey.base64)
                // The other end does not know this key.
                #expect(try !pair.isReached(from: left))
                try Wg.run(
                    "set", right.name, "peer", left.keys.publicKey.base64, "remove", "peer", keys.publicKey.base64,
                    "allowed-ips", "\(left.inner4)/32", "endpoint", left.endpoint(.v4))
                try pair.ping(from: right)
                try pair.ping(from: left)
                #expect(try Wg.peer(keys.publicKey, of: right.name).latestHandshake > 0)
            }

            @Test("A pre-shared key that is set at both ends takes effect with the next handshake, without a gap")
            func presharedKeyChange() throws {
                let pair = try TunnelPair(.culvert, .wireguardGo)
                let (left, right) = (pair.left, pair.right)
                try pair.ping(from: left)
                let folder = try TemporaryFolder()
                let file = try folder.write(StaticKeys().text, to: "secret")
                try Wg.run("set", left.name, "peer", right.keys.publicKey.base64, "preshared-key", file)
                try pair.ping(from: left)
                try pair.ping(from: right)
                try Wg.run("set", right.name, "peer", left.keys.publicKey.base64, "preshared-key", file)
                try pair.restart(right)
                try Wg.run(
                    "set", right.name, "peer", left.keys.publicKey.base64, "preshared-key", file, "endpoint",
                    left.endpoint(.v4))
                try pair.ping(from: right)
                #expect(try right.peer(left).latestHandshake > 0)
            }
        }
    }
#endif
