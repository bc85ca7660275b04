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

    private func table(
        _ settings: ServerNetworkSettings, _ families: Set<ForwardingMark> = []
    ) -> FirewallTable {
        ServerFirewall(settings, forwardedForClients: families).table
    }

    @Test(
        "The table is JSON, and a client is one element in each map, for flows from it and to it, and one for its errors"
    )
    func isJSON() throws {
        let firewall = ServerFirewall(try settings(), forwardedForClients: [])
        var clients = ServerClients()
        let change = clients.changeRules([try IPPrefix("10.66.0.2"): []], firewall)
        let count = try commandCount(firewall.table.script)
        #expect(count > 20)
        #expect(
            firewall.commands(for: change)
                == [
                    ("clients4", #"["10.66.0.2",{"goto":{"target":"client"}}]"#),
                    ("towards4", #"["10.66.0.2",{"goto":{"target":"towards"}}]"#),
                    ("errorSources4", #"{"concat":["10.66.0.2","10.66.0.2"]}"#),
                ].map { name, element in
                    #"{"add":{"element":{"family":"inet","table":"culvert_srv0","name":"\#(name)","#
                        + #""elem":[\#(element)]}}}"#
                })
        #expect(firewall.commands(for: clients.changeRules([try IPPrefix("10.66.0.3"): nil], firewall)).isEmpty)
    }

    @Test("Segments are clamped to the tunnel's MTU, for each family")
    func clamps() throws {
        let body = table(try settings()).body
        #expect(body.contains(#""value":1360"#) && body.contains(#""value":1340"#))
    }

    @Test("With several tunnels each rule about the tunnel names all of them, and a single one is named as before")
    func furtherTunnels() throws {
        var settings = try settings()
        let one = table(settings).body
        settings.furtherTunnels = ["login0"]
        let two = table(settings).body
        #expect(!one.contains("login0"))
        let ways = [#"{"key":"iifname"}},"right""#, #"{"key":"oifname"}},"right""#]
        for way in ways {
            #expect(one.split(separator: way).count == two.split(separator: way).count)
            // None is about the first one alone.
            #expect(!two.contains(way + #":"srv0""#))
        }
        #expect(two.contains(#"{"set":["srv0","login0","lo"]}"#) && two.contains(#"{"set":["srv0","login0"]}"#))
    }

    @Test("A routed family is not masqueraded, and one that is masqueraded keeps its source inside the tunnel")
    func masquerades() throws {
        var settings = try settings()
        settings.way6 = .routed
        let body = table(settings).body
        // Of clients, and of networks behind them.
        #expect(body.split(separator: "masquerade").count == 3)
    }

    @Test("Only a family that the host did not forward before is forwarded for clients alone")
    func forwardsFamilies() throws {
        var settings = try settings()
        settings.otherInterfaces = ["eth1"]
        /// The rules of the chain other than those of the tunnel.
        func rules(_ families: Set<ForwardingMark>) throws -> [String] {
            let body = table(settings, families).body
            return body.split(separator: #"{"add":"#).map(String.init).filter {
                $0.contains(#""chain":"forwarding""#) && !$0.contains(#""right":"srv0""#)
            }
        }
        #expect(try rules([]).isEmpty)
        let marks = [false, true].map { ForwardingMark(isIPv6: $0, newestInterface: 7) }
        for (mark, family) in zip(marks, ["ipv4", "ipv6"]) {
            let found = try rules([mark])
            // Packets of another server pass, and those of interfaces that any server permits.
            #expect(found.count == 2 && found.first?.contains(#"{"meta":{"key":"mark"}}"#) == true)
            for rule in found { #expect(rule.contains(#"{"meta":{"key":"nfproto"}},"right":"\#(family)""#), "\(rule)") }
            #expect(found.last?.contains("drop") == true)
        }
        #expect(try rules(Set(marks)).count == 4)
        let permitted = table(settings, []).body.split(separator: #"{"add":"#).filter {
            $0.contains(#""mangle":{"key":{"meta""#)
        }
        #expect(permitted.count == 2 && permitted.allSatisfy { $0.contains(#"{"set":["srv0","eth1"]}"#) })
    }

    @Test(
        "nft's listing of sets and maps is read back: networks, other verdicts, ranges, and maps without elements, too"
    )
    func readsListings() throws {
        let contents = TableContents(
            listing: """
                table inet culvert_srv0 {
                \tset denied4 {
                \t\ttype ipv4_addr
                \t\tflags interval
                \t\tauto-merge
                \t\telements = { 10.0.0.0/8, 224.0.0.0-255.255.255.254 }
                \t}

                \tmap clients4 {
                \t\ttype ipv4_addr : verdict
                \t\telements = { 10.66.0.2 : goto client,
                \t\t\t     10.66.0.3 : drop, 10.66.0.4 : goto rules-1 }
                \t}

                \tmap clientsNets6 {
                \t\ttype ipv6_addr : verdict
                \t\tflags interval
                \t\telements = { fd01::/64 : goto client }
                \t}

                \tmap clients6 {
                \t\ttype ipv6_addr : verdict
                \t}

                \tset errorSources4 {
                \t\ttype ipv4_addr . ipv4_addr
                \t\tflags interval
                \t\telements = { 10.66.0.2 . 10.66.0.2,
                \t\t\t     10.66.0.2 . 192.168.7.0/24 }
                \t}

                \tset flows4 {
                \t\ttype ipv4_addr
                \t\tsize 65535
                \t\tflags dynamic
                \t\telements = { 10.66.0.2 ct count over 4096 }
                \t}

                \tchain beginning {
                \t\tip saddr vmap @clients4
                \t}
                }
                """)
        #expect(
            contents.elements == [
                "denied4": [try IPPrefix("10.0.0.0/8"): ""],
                "clients4": [
                    try IPPrefix("10.66.0.2"): "client", try IPPrefix("10.66.0.3"): "",
                    try IPPrefix("10.66.0.4"): "rules-1",
                ], "clientsNets6": [try IPPrefix("fd01::/64"): "client"],
            ])
        let address = try IPPrefix("10.66.0.2")
        #expect(
            contents.pairs == [
                "errorSources4": [
                    PrefixPair(address, address), PrefixPair(address, try IPPrefix("192.168.7.0/24")),
                ]
            ])
        #expect(contents.others == ["denied4": ["224.0.0.0-255.255.255.254"]])
        #expect(contents.only(["clients4"]).elements.keys.sorted() == ["clients4"])
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
