// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelLinux
import Testing
import TunnelSystem

@testable import TunnelServer

@Suite struct KernelCommandsTests {
    private let firewall: ServerFirewall

    init() throws {
        firewall = ServerFirewall(
            try ServerNetworkSettings(name: "srv0", mtu: 1400, addresses: [InterfaceAddress("10.66.0.1/16")]),
            forwardedForClients: [])
    }

    private func requests(_ commands: [String]) -> [NetlinkRequest]? {
        KernelCommands(commands, hostSets: firewall.hostSets)?.requests
    }

    /// The messages for a change of one client's rules.
    private func requests(
        of prefix: String = "10.66.0.2", from old: [AccessRule] = [], to new: [AccessRule]?
    ) throws -> [NetlinkRequest]? {
        var clients = ServerClients()
        let prefix = try IPPrefix(prefix)
        _ = clients.changeRules([prefix: old], firewall)
        return requests(firewall.commands(for: clients.changeRules([prefix: new], firewall)))
    }

    private func attributes(_ request: NetlinkRequest) -> NetlinkAttributes {
        NetlinkReader(bytes: request.body).attributes(from: FirewallMessage.header.count)
    }

    @Test("Other rules of a client are messages for a new chain, its rules, the client's element, and the old chain")
    func otherRules() throws {
        let old = AccessRule(.deny, networks: [try IPPrefix("203.0.113.0/24")])
        let new = AccessRule(.deny, networks: [try IPPrefix("203.0.113.0/26")], transport: .tcp, ports: [80...90])
        let made = try #require(try requests(from: [old], to: [new]))
        let types = made.map(\.type)
        #expect(types.prefix(3) == [FirewallMessage.newChain, FirewallMessage.deleteRule, FirewallMessage.newRule])
        #expect(
            types.drop { $0 != FirewallMessage.deleteElement } == [
                FirewallMessage.deleteElement, FirewallMessage.newElement, FirewallMessage.deleteRule,
                FirewallMessage.deleteChain,
            ])
        #expect(made.allSatisfy { attributes($0).text(1) == firewall.tableName })
    }

    @Test("A network of whole bytes is compared by a mask, which all versions of nft list")
    func wholeBytes() throws {
        let made = try #require(try requests(to: [AccessRule(.deny, networks: [try IPPrefix("10.0.0.0/8")])]))
        let rules = made.filter { $0.type == FirewallMessage.newRule }.map { String(decoding: $0.body, as: UTF8.self) }
        // The chains of a client have no other masks than those of networks and of the state of connections.
        #expect(rules.contains { $0.contains("bitwise") && !$0.contains("meta") })
    }

    @Test("The message of an element has the client's address and its chain")
    func element() throws {
        let old = AccessRule(.deny, networks: [try IPPrefix("203.0.113.0/24")])
        let made = try #require(try requests(from: [old], to: []))
        let added = try #require(made.first { $0.type == FirewallMessage.newElement })
        #expect(attributes(added).text(2) == "clients4")
        let element = try #require(attributes(added).nested(3)?.nested(1))
        #expect(element.nested(1)?[1] == [10, 66, 0, 2])
        let verdict = try #require(element.nested(2)?.nested(2))
        // `NFT_GOTO` is -4.
        #expect(verdict[1] == [255, 255, 255, 252] && verdict.text(2) == ServerFirewall.standardChain)
    }

    @Test("A client that is removed needs no message about chains that all clients share")
    func removed() throws {
        let made = try #require(try requests(to: nil))
        #expect(made.map(\.type) == Array(repeating: FirewallMessage.deleteElement, count: 3))
        let pair = try #require(made.first { attributes($0).text(2) == "errorSources4" })
        #expect(attributes(pair).nested(3)?.nested(1)?.nested(1)?[1] == [10, 66, 0, 2, 10, 66, 0, 2])
    }

    @Test("Networks behind a client, lists of networks or ports, and large changes are left to nft")
    func onlyNFT() throws {
        #expect(try requests(of: "192.168.50.0/24", to: nil) == nil)
        #expect(try requests(of: "192.168.50.1/32", to: nil) == nil)
        let networks = try ["203.0.113.0/24", "198.51.100.0/24"].map { try IPPrefix($0) }
        #expect(try requests(to: [AccessRule(.deny, networks: networks)]) == nil)
        #expect(try requests(to: [AccessRule(.deny, transport: .tcp, ports: [80...80, 443...443])]) == nil)
        #expect(requests([firewall.commands.flush(map: "clients4").line]) == nil)
        #expect(requests([firewall.commands.chain("hooked", "input", priority: 0).line]) == nil)
        let many = (0..<1000).map { (prefix: IPPrefix(host: .v4(0x0a42_0002 + $0)), chain: "client") }
        #expect(requests([firewall.commands.elements("add", "clients4", many)]) == nil)
    }
}
