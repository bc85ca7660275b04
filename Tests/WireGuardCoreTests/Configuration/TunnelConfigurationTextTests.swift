// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing
import WireGuardCore

@Suite("Writing wg-quick files")
struct TunnelConfigurationTextTests {
    @Test(
        "A configuration that is parsed, written and parsed again is equal",
        arguments: [
            Sample.wholeFile, Sample.interface(), Sample.peer(),
            Sample.interface("FwMark = off", "Table = off", "ListenPort = 0"),
            Sample.interface("Table = vpn", "DNS = a.example, 1.1.1.1, b.example", "Address = ::ffff:1.2.3.4/96"),
            Sample.peer("Endpoint = [fe80::1%eth0]:5", "AllowedIPs = -10.0.0.0/8", "PersistentKeepalive = 1"),
            Sample.peer("AllowedIPs = 10.0.0.0/8, +10.1.0.0/16"),
        ])
    func roundTrip(text: String) throws {
        let configuration = try TunnelConfiguration.parse(text)
        let written = try configuration.wgQuickText()
        #expect(try TunnelConfiguration.parse(written) == configuration)
        #expect(try TunnelConfiguration.parse(written).wgQuickText() == written)
    }

    @Test("The text has the order and spelling of wg-quick's own files")
    func text() throws {
        let configuration = try TunnelConfiguration.parse(
            Sample.interface("MTU=1280", "Address=10.0.0.2/24")
                + "[Peer]\nPublicKey=\(Sample.peerText)\nAllowedIPs=0.0.0.0/0,::/0\nEndpoint=a.example:1\n")
        #expect(
            try configuration.wgQuickText() == """
                [Interface]
                PrivateKey = \(Sample.privateText)
                Address = 10.0.0.2/24
                MTU = 1280

                [Peer]
                PublicKey = \(Sample.peerText)
                AllowedIPs = 0.0.0.0/0, ::/0
                Endpoint = a.example:1

                """)
    }

    @Test(
        "A command that a file cannot hold is refused, not written as something else",
        arguments: ["", " x", "x ", "echo # y", "a\nb", "a\r\nPostUp = b", "a\u{0}", "a\u{2028}b"])
    func commands(command: String) {
        var configuration = TunnelConfiguration()
        configuration.interface.postUp = [command]
        let error = #expect(throws: UnwritableConfiguration.self) { try configuration.wgQuickText() }
        #expect(error?.key == "PostUp")
    }

    @Test(
        "Search domains and tables that a file cannot hold are refused",
        arguments: ["a\nPostUp = b", "", "a b", "a,b", "8.8", "a#"])
    func names(name: String) {
        var configuration = TunnelConfiguration()
        configuration.interface.dnsSearchDomains = [name]
        #expect(throws: UnwritableConfiguration.self) { try configuration.wgQuickText() }
        configuration.interface.dnsSearchDomains = []
        configuration.interface.table = .named(name)
        #expect(throws: UnwritableConfiguration.self) { try configuration.wgQuickText() }
    }

    @Test("A configuration that the parser would refuse is not written")
    func refused() throws {
        var small = TunnelConfiguration()
        small.interface.mtu = 575
        #expect(throws: UnwritableConfiguration.self) { try small.wgQuickText() }
        let peer = PeerConfiguration(publicKey: Sample.publicKey(3))
        #expect(throws: UnwritableConfiguration.self) { try TunnelConfiguration(peers: [peer, peer]).wgQuickText() }
        var named = TunnelConfiguration()
        named.interface.table = .named("AUTO")
        #expect(throws: UnwritableConfiguration.self) { try named.wgQuickText() }
    }

    @Test("The effective networks are those that a rule of changes leaves")
    func effectiveAllowedIPs() throws {
        var peer = PeerConfiguration(publicKey: Sample.publicKey(3))
        let (a, b) = (try IPPrefix("10.0.0.0/8"), try IPPrefix("::/0"))
        peer.allowedIPsRule = .changes([.add(a), .add(b), .remove(a)])
        #expect(peer.allowedIPs == [b])
        peer.allowedIPs = [a]
        #expect(peer.allowedIPsRule == .exactly([a]))
    }
}
