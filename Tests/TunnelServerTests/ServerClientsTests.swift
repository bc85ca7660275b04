// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelLinux
import Testing
import TunnelSystem

@testable import TunnelServer

extension ServerClients {
    /// Records the new rules of clients with one address or network each.
    mutating func changeRules(_ changes: [IPPrefix: [AccessRule]?], _ firewall: ServerFirewall) -> Change {
        change(changes.mapValues { rules in rules.map { ClientAccess(rules: $0) } }, firewall)
    }
}

@Suite struct ServerClientsTests {
    private let firewall: ServerFirewall

    init() throws {
        firewall = ServerFirewall(
            try ServerNetworkSettings(name: "srv0", mtu: 1400, addresses: [InterfaceAddress("10.66.0.1/16")]),
            forwardedForClients: [])
    }

    private func rule(
        _ action: AccessRule.Action, _ networks: [String] = [], _ transport: AccessRule.Transport = .any,
        _ ports: [ClosedRange<UInt16>] = [], direction: AccessRule.Direction = .out
    ) throws -> AccessRule {
        AccessRule(
            action, direction: direction, networks: try networks.map { try IPPrefix($0) }, transport: transport,
            ports: ports)
    }

    @Test(
        "Clients with equal rules share a chain, which is created before the first is admitted and removed after the last"
    )
    func shares() throws {
        let rules = [try rule(.deny, ["203.0.113.0/24"])]
        var clients = ServerClients()
        let first = clients.changeRules([try IPPrefix("10.66.0.2"): rules], firewall)
        #expect(first.newChains.count == 1)
        let commands = firewall.commands(for: first)
        let made = try #require(commands.firstIndex { $0.contains(#""add":{"chain""#) })
        let named = try #require(commands.firstIndex { $0.contains(#""add":{"element""#) })
        #expect(made < named)
        let second = clients.changeRules([try IPPrefix("10.66.0.3"): rules], firewall)
        #expect(second.newChains.isEmpty)
        #expect(Set(clients.entries.values).count == 1)
        #expect(clients.changeRules([try IPPrefix("10.66.0.2"): nil], firewall).unusedChains.isEmpty)
        let last = clients.changeRules([try IPPrefix("10.66.0.3"): nil], firewall)
        #expect(last.unusedChains.map(\.name) == first.newChains.map(\.name))
        let taken = firewall.commands(for: last)
        #expect(taken.last?.contains(#""delete":{"chain""#) == true)
        #expect(clients.isEmpty && clients.chains.isEmpty)
    }

    @Test("Other rules for one of ten thousand clients remove one element and add one")
    func isOneElement() throws {
        var clients = ServerClients()
        let all: [IPPrefix: [AccessRule]?] = Dictionary(
            uniqueKeysWithValues: (2..<10_002).map {
                (IPPrefix(host: .v4(0x0a42_0000 + UInt32($0))), [])
            })
        _ = clients.changeRules(all, firewall)
        let change = clients.changeRules(
            [try IPPrefix("10.66.0.9"): [try rule(.allow, ["10.0.0.0/8"])]], firewall)
        let elements = firewall.commands(for: change).filter { $0.contains("element") }
        #expect(elements.count == 2)
        for element in elements { #expect(element.contains("clients4") && element.split(separator: "goto").count == 2) }
        // Equal rules are not a change.
        let same = clients.changeRules(
            [try IPPrefix("10.66.0.9"): [try rule(.allow, ["10.0.0.0/8"])]], firewall)
        #expect(firewall.commands(for: same).isEmpty)
    }

    @Test(
        "A list of rules with single networks and ports adds no set, which nft would read at every change")
    func makesNoSets() throws {
        var clients = ServerClients()
        let rules = [
            try rule(.deny, ["203.0.113.0/24"], .tcp, [443...443]),
            try rule(.allow, ["2001:db8::/32"], .any, [53...60]),
            try rule(.deny, ["198.51.100.7/32"], .icmp), try rule(.allow, direction: .in),
        ]
        let made = clients.changeRules([try IPPrefix("10.66.0.2"): rules], firewall)
        #expect(made.newChains.count == 2)
        let commands = firewall.commands(for: made)
        #expect(commands.allSatisfy { !$0.contains(#""set":["#) }, "\(commands)")
        // The sets that the rules name are in the table, and are compared with nft's listing.
        for (name, _, _) in NFT.constantSets {
            #expect(commands.contains { $0.contains("@\(name)\"") })
            #expect(firewall.table.script.contains(#""set":{"family":"inet","table":"culvert_srv0","name":"\#(name)""#))
            #expect(firewall.fixedSets.contains(name))
        }
        // Two networks need a set.
        let two = clients.changeRules(
            [try IPPrefix("10.66.0.3"): [try rule(.deny, ["203.0.113.0/24", "198.51.100.0/24"])]], firewall)
        #expect(firewall.commands(for: two).contains { $0.contains(#""set":["#) })
    }

    @Test("A chain that lost its last client can be made again, by rules that lead to the same chain too")
    func madeAgain() throws {
        var clients = ServerClients()
        let address = try IPPrefix("10.66.0.2")
        // The smaller network is in the larger one.
        let equal = [
            [try rule(.deny, ["203.0.113.0/24"])], [try rule(.deny, ["203.0.113.0/24", "203.0.113.7/32"])],
        ]
        for rules in equal {
            let first = clients.changeRules([address: rules], firewall)
            #expect(first.newChains.count == (rules == equal[0] ? 1 : 0))
        }
        #expect(clients.changeRules([address: nil], firewall).unusedChains.count == 1)
        for rules in equal.reversed() {
            #expect(clients.changeRules([address: rules], firewall).newChains.count == 1)
            #expect(clients.changeRules([address: nil], firewall).unusedChains.count == 1)
        }
        #expect(clients.isEmpty && clients.chains.isEmpty)
    }

    @Test(
        "A network behind a client is in the maps of networks, and among the sources that come out of the tunnel alone")
    func subnets() throws {
        var clients = ServerClients()
        let change = clients.changeRules(
            [try IPPrefix("10.66.0.2"): [], try IPPrefix("192.168.9.0/24"): []], firewall)
        let commands = firewall.commands(for: change).filter { $0.contains("element") }
        #expect(commands.count == 7)
        for name in [
            "clients4", "towards4", "clientsNets4", "towardsNets4", "behind4", "errorSources4", "errorSourcesNets4",
        ] {
            #expect(commands.count { $0.contains("\"\(name)\"") } == 1, "\(name)")
        }
        #expect(clients.subnets(firewall) == [try IPPrefix("192.168.9.0/24")])
        let expected = firewall.contents(clients, fixed: TableContents())
        #expect(expected.elements["behind4"] == [try IPPrefix("192.168.9.0/24"): ""])
        // A network has its own limit of flows, and so its own chain.
        let limit = try #require(clients.chains.first)
        #expect(clients.chains.count == 1 && limit.rules[0].line.contains("ct count"))
        #expect(expected.elements["clientsNets4"] == [try IPPrefix("192.168.9.0/24"): limit.name])
        #expect(expected.pairs["errorSources4"]?.count == 1 && expected.pairs["errorSourcesNets4"]?.count == 1)
    }

    @Test("A chain has a name and a mark of its content, and another mark for another common policy")
    func names() throws {
        let rules = [try rule(.allow, ["192.0.2.0/24"], .tcp, [443...443])]
        let chain = firewall.chain(from: rules)
        #expect(chain.name.hasPrefix("rules-") && chain.name.count == 22)
        #expect(firewall.chain(from: rules).name == chain.name)
        #expect(firewall.chain(from: [try rule(.deny, ["192.0.2.0/24"], .tcp, [443...443])]).name != chain.name)
        let towards = [try rule(.allow, ["192.0.2.0/24"], .tcp, [443...443], direction: .in)]
        #expect(firewall.chain(towards: towards).name != chain.name)
        var settings = firewall.settings
        settings.allowedNetworks = [try IPPrefix("10.9.0.0/16")]
        let other = ServerFirewall(settings, forwardedForClients: [])
        #expect(other.chain(from: rules).rules.first != chain.rules.first)
        #expect(ContentHash([]).mark != 0 && ContentHash(["a", "b"]) != ContentHash(["ab", ""]))
    }

    @Test("Nested networks and ports of a rule are merged, since nft refuses overlaps")
    func merges() throws {
        let networks = ["10.0.0.0/8", "10.1.0.0/16", "192.168.0.0/24", "10.0.0.0/8"].map { try? IPPrefix($0) }
        #expect(
            AccessRule.distinct(networks.compactMap(\.self)).map(\.description) == ["10.0.0.0/8", "192.168.0.0/24"])
        #expect(AccessRule.merged([8000...9000, 80...80, 81...90, 8500...9500]) == [80...90, 8000...9500])
        #expect(AccessRule.merged([0...65535, 5...6]) == [0...65535])
    }

    /// The statements of the client's chains for `out` and for `in`. A chain that all clients share is shown by its name.
    private func statements(_ rules: [AccessRule]) throws -> [[String]] {
        var clients = ServerClients()
        let prefix = try IPPrefix("10.66.0.2")
        _ = clients.changeRules([prefix: rules], firewall)
        let chains = try #require(clients.entries[prefix])
        func lines(_ name: String) -> [String] {
            clients.chains.first { $0.name == name }?.rules.map(\.line) ?? [name]
        }
        return [lines(chains.from), lines(chains.towards)]
    }

    @Test("A rule that allows ports of ICMP is left out, and one that denies ports of ICMP denies all ICMP")
    func icmpPorts() throws {
        for direction in AccessRule.Direction.allCases {
            let ports = [1...2 as ClosedRange<UInt16>]
            let allow = try rule(.allow, ["192.0.2.0/24"], .icmp, ports, direction: direction)
            #expect(try statements([allow]) == [[ServerFirewall.standardChain], [ServerFirewall.towardsChain]])
            let deny = try rule(.deny, ["192.0.2.0/24"], .icmp, ports, direction: direction)
            let all = try rule(.deny, ["192.0.2.0/24"], .icmp, direction: direction)
            #expect(try statements([allow, deny]) == statements([all]))
            #expect(try statements([all]) != statements([]))
        }
    }

    @Test("The rules of each direction keep their order, in the chain of that direction only")
    func directionsApart() throws {
        let out = [try rule(.allow, [], .tcp, [80...80]), try rule(.deny, [], .udp)]
        let towards = [try rule(.deny, [], .tcp, direction: .in), try rule(.allow, [], .udp, direction: .in)]
        let mixed = try statements([towards[0], out[0], out[1], towards[1]])
        #expect(mixed[0] == firewall.chain(from: out).rules.map(\.line))
        #expect(mixed[1] == firewall.chain(towards: towards).rules.map(\.line))
        #expect(try statements(out)[1] == [ServerFirewall.towardsChain])
        #expect(try statements(towards)[0] == [ServerFirewall.standardChain])
    }

    @Test("A rule fits a flow's packets in both directions, by the end that it goes to")
    func directions() throws {
        let matches = try rule(.allow, ["192.0.2.0/24", "2001:db8::/32"], .any, [80...90]).matches
        // Two families, two directions.
        #expect(matches.count == 4)
        let text = matches.map { JSON.array($0).line }
        #expect(text.count { $0.contains("dport") && $0.contains("original") } == 2)
        #expect(text.count { $0.contains("sport") && $0.contains(#""ip6 saddr""#) } == 1)
        #expect(try rule(.deny, direction: .in).matches == [[]])
        let all = try rule(.allow, ["0.0.0.0/0", "10.0.0.0/8"], direction: .in).matches
        #expect(all.count == 1 && JSON.array(all[0]).line.contains("nfproto"))
    }
}
