// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelLinux
import Testing
import TunnelSystem

@testable import TunnelServer

@Suite struct ServerClientsTests {
    private let firewall: ServerFirewall

    init() throws {
        firewall = ServerFirewall(
            try ServerNetworkSettings(name: "srv0", mtu: 1400, addresses: [InterfaceAddress("10.66.0.1/16")]),
            forwardedForClients: [])
    }

    private func rule(
        _ action: AccessRule.Action, _ networks: [String] = [], _ transport: AccessRule.Transport = .any,
        _ ports: [ClosedRange<UInt16>] = []
    ) throws -> AccessRule {
        try #require(
            AccessRule(action, networks: networks.map { try IPPrefix($0) }, transport: transport, ports: ports))
    }

    @Test("Clients with the same rules share a chain, which is made before the first is let in and goes after the last")
    func shares() throws {
        let rules = ClientRules(from: [try rule(.deny, ["203.0.113.0/24"])])
        var clients = ServerClients()
        let first = clients.change([try IPPrefix("10.66.0.2"): rules], firewall)
        #expect(first.newChains.count == 1)
        let commands = firewall.commands(for: first)
        let made = try #require(commands.firstIndex { $0.contains(#""add":{"chain""#) })
        let named = try #require(commands.firstIndex { $0.contains(#""add":{"element""#) })
        #expect(made < named)
        let second = clients.change([try IPPrefix("10.66.0.3"): rules], firewall)
        #expect(second.newChains.isEmpty)
        #expect(Set(clients.entries.values).count == 1)
        #expect(clients.change([try IPPrefix("10.66.0.2"): nil], firewall).unusedChains.isEmpty)
        let last = clients.change([try IPPrefix("10.66.0.3"): nil], firewall)
        #expect(last.unusedChains.map(\.name) == first.newChains.map(\.name))
        let taken = firewall.commands(for: last)
        #expect(taken.last?.contains(#""delete":{"chain""#) == true)
        #expect(clients.isEmpty && clients.chains.isEmpty)
    }

    @Test("Other rules for one of ten thousand clients are one element that goes and one that comes")
    func isOneElement() throws {
        var clients = ServerClients()
        let all: [IPPrefix: ClientRules?] = Dictionary(
            uniqueKeysWithValues: (2..<10_002).map {
                (IPPrefix(host: .v4(0x0a42_0000 + UInt32($0))), ClientRules())
            })
        _ = clients.change(all, firewall)
        let change = clients.change(
            [try IPPrefix("10.66.0.9"): ClientRules(from: [try rule(.allow, ["10.0.0.0/8"])])], firewall)
        let elements = firewall.commands(for: change).filter { $0.contains("element") }
        #expect(elements.count == 2)
        for element in elements { #expect(element.contains("clients4") && element.split(separator: "goto").count == 2) }
        // The same rules again are no change.
        let same = clients.change(
            [try IPPrefix("10.66.0.9"): ClientRules(from: [try rule(.allow, ["10.0.0.0/8"])])], firewall)
        #expect(firewall.commands(for: same).isEmpty)
    }

    @Test(
        "A network behind a client is in the maps of networks, and among the sources that come out of the tunnel alone")
    func subnets() throws {
        var clients = ServerClients()
        let change = clients.change(
            [try IPPrefix("10.66.0.2"): ClientRules(), try IPPrefix("192.168.9.0/24"): ClientRules()], firewall)
        let commands = firewall.commands(for: change)
        #expect(commands.count == 5)
        for name in ["clients4", "towards4", "clientsNets4", "towardsNets4", "behind4"] {
            #expect(commands.count { $0.contains("\"\(name)\"") } == 1, "\(name)")
        }
        #expect(clients.subnets(firewall) == [try IPPrefix("192.168.9.0/24")])
        let expected = firewall.contents(clients, fixed: TableContents())
        #expect(expected.elements["behind4"] == [try IPPrefix("192.168.9.0/24"): ""])
        #expect(expected.elements["clientsNets4"] == [try IPPrefix("192.168.9.0/24"): "client"])
    }

    @Test("A chain has a name and a mark of its content, and another mark when the policy for all is another one")
    func names() throws {
        let rules = [try rule(.allow, ["192.0.2.0/24"], .tcp, [443...443])]
        let chain = firewall.chain(from: rules)
        #expect(chain.name.hasPrefix("rules-") && chain.name.count == 22)
        #expect(firewall.chain(from: rules).name == chain.name)
        #expect(firewall.chain(from: [try rule(.deny, ["192.0.2.0/24"], .tcp, [443...443])]).name != chain.name)
        #expect(firewall.chain(towards: rules).name != chain.name)
        var settings = firewall.settings
        settings.allowedNetworks = [try IPPrefix("10.9.0.0/16")]
        let other = ServerFirewall(settings, forwardedForClients: [])
        #expect(other.chain(from: rules).rules.first != chain.rules.first)
        #expect(ContentHash([]).mark != 0 && ContentHash(["a", "b"]) != ContentHash(["ab", ""]))
    }

    @Test("Networks and ports of a rule that lie in one another are one, since nft takes no others")
    func merges() throws {
        let networks = ["10.0.0.0/8", "10.1.0.0/16", "192.168.0.0/24", "10.0.0.0/8"].map { try? IPPrefix($0) }
        #expect(
            AccessRule.distinct(networks.compactMap(\.self)).map(\.description) == ["10.0.0.0/8", "192.168.0.0/24"])
        #expect(AccessRule.merged([8000...9000, 80...80, 81...90, 8500...9500]) == [80...90, 8000...9500])
        #expect(AccessRule.merged([0...65535, 5...6]) == [0...65535])
    }

    @Test("ICMP has no ports, and a rule that names some is none")
    func icmpPorts() {
        #expect(AccessRule(.allow, transport: .icmp, ports: [1...2]) == nil)
        #expect(AccessRule(.allow, transport: .icmp) != nil)
    }

    @Test("A rule fits a flow's packets in both directions, by the end that it goes to")
    func directions() throws {
        let matches = try rule(.allow, ["192.0.2.0/24", "2001:db8::/32"], .any, [80...90]).matches(isTowards: false)
        // Two families, two directions.
        #expect(matches.count == 4)
        let text = matches.map { JSON.array($0).line }
        #expect(text.count { $0.contains("dport") && $0.contains("original") } == 2)
        #expect(text.count { $0.contains("sport") && $0.contains(#""ip6 saddr""#) } == 1)
        #expect(try rule(.deny).matches(isTowards: true) == [[]])
        let all = try rule(.allow, ["0.0.0.0/0", "10.0.0.0/8"]).matches(isTowards: true)
        #expect(all.count == 1 && JSON.array(all[0]).line.contains("nfproto"))
    }
}
