// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import PacketTunnelLinux
import Testing
import TunnelSystem

@testable import TunnelServer

@Suite struct ServerFirewallTests {
    private func settings() throws -> ServerNetworkSettings {
        try ServerNetworkSettings(
            name: "srv0", mtu: 1400, addresses: [InterfaceAddress("10.66.0.1/24"), InterfaceAddress("fd00:66::1/64")])
    }

    @Test("The table is JSON, and a client is one element of one map for each of its addresses")
    func isJSON() throws {
        let firewall = ServerFirewall(try settings(), forwardedForClients: [])
        let address = try IPAddress("10.66.0.2")
        let script = firewall.table(clients: [address: ServerFirewall.standardChain]).script
        let count = try commandCount(script)
        #expect(count > 20)
        let added = firewall.add([address: "client"])
        #expect(
            added == [
                #"{"add":{"element":{"family":"inet","table":"culvert_srv0","name":"clients4","#
                    + #""elem":[["10.66.0.2",{"goto":{"target":"client"}}]]}}}"#
            ])
        #expect(firewall.remove([:]).isEmpty)
    }

    @Test("Segments are clamped to what fits into the tunnel's MTU, for each family")
    func clamps() throws {
        let body = ServerFirewall(try settings(), forwardedForClients: []).table(clients: [:]).body
        #expect(body.contains(#""value":1360"#) && body.contains(#""value":1340"#))
    }

    @Test("A routed family is not masqueraded, and one that is masqueraded keeps its source inside the tunnel")
    func masquerades() throws {
        var settings = try settings()
        settings.way6 = .routed
        let body = ServerFirewall(settings, forwardedForClients: []).table(clients: [:]).body
        #expect(body.split(separator: "masquerade").count == 2)
    }

    @Test("Only a family that the host did not forward before is forwarded for clients alone")
    func forwardsFamilies() throws {
        var settings = try settings()
        settings.otherInterfaces = ["eth1"]
        /// The rules of the chain beside those of the tunnel.
        func rules(_ families: Set<ServerFirewall.Family>) throws -> [String] {
            let body = ServerFirewall(settings, forwardedForClients: families).table(clients: [:]).body
            return body.split(separator: #"{"add":"#).map(String.init).filter {
                $0.contains(#""chain":"forwarding""#) && !$0.contains(#""right":"srv0""#)
            }
        }
        #expect(try rules([]).isEmpty)
        for family in ServerFirewall.Family.allCases {
            let found = try rules([family])
            #expect(found.count == 3 && found.count { $0.contains("eth1") } == 2)
            for rule in found { #expect(rule.contains(#"{"meta":{"key":"nfproto"}},"right":"\#(family)""#), "\(rule)") }
            #expect(found.last?.contains("drop") == true)
        }
        #expect(try rules([.ipv4, .ipv6]).count == 6)
    }

    @Test("What nft lists of a map is read back: other verdicts, and maps without elements, too")
    func readsListings() throws {
        let listing = try VerdictListing(
            json: """
                {"nftables": [{"metainfo": {"version": "1.0.6"}}, {"map": {"family": "inet", "name": "clients4",
                "elem": [["10.66.0.2", {"goto": {"target": "client"}}], ["10.66.0.3", {"drop": null}]]}}]}
                """)
        #expect(listing.entries == [try IPAddress("10.66.0.2"): "client", try IPAddress("10.66.0.3"): ""])
        #expect(try VerdictListing(json: #"{"nftables": [{"map": {"name": "clients6"}}]}"#).entries.isEmpty)
    }

    @Test("No private, shared, link-local or metadata address passes for the internet")
    func protects() throws {
        for text in [
            "10.1.2.3", "172.31.0.1", "192.168.1.1", "100.100.100.200", "169.254.169.254", "168.63.129.16", "127.0.0.1",
            "192.0.0.192", "0.0.0.0", "255.255.255.255", "224.0.0.251",
        ] {
            let address = try IPAddress(text)
            #expect(ProtectedNetworks.ipv4.contains { $0.contains(address) }, "\(text)")
        }
        for text in [
            "fd00:ec2::254", "fe80::1", "::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::1", "ff02::1",
        ] {
            let address = try IPAddress(text)
            let isPublic =
                ProtectedNetworks.globalIPv6.contains(address)
                && !ProtectedNetworks.ipv6.contains { $0.contains(address) }
            #expect(!isPublic, "\(text)")
        }
        #expect(ProtectedNetworks.globalIPv6.contains(try IPAddress("2606:4700::1111")))
    }
}

private struct Script: Decodable {
    struct Anything: Decodable {}
    let nftables: [Anything]
}

/// The number of commands of a script.
private func commandCount(_ script: String) throws -> Int {
    try JSONDecoder().decode(Script.self, from: Data(script.utf8)).nftables.count
}
