// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnel
import Testing
import TunnelSystem

@testable import PacketTunnelLinux

@Suite("The firewall of a tunnel")
struct LeakGuardTests {
    private func settings(
        local: Bool = false, policy: LeakPolicy = .enforcedRoutes, dns: DNSSettings? = nil
    ) throws -> TunnelSettings {
        TunnelSettings(
            remoteAddress: "vpn.example.org", addresses: [try InterfaceAddress("10.9.0.2/24")],
            includedRoutes: [.allIPv4], allowsLocalNetwork: local, dns: dns, leakPolicy: policy)
    }

    @Test("Routes that need no mark and a policy that holds nothing back need no firewall")
    func none() throws {
        #expect(LeakGuard(name: "cvt0", policy: .routeBased, mark: 5).table == nil)
        // Before there are settings, no network belongs to the tunnel.
        #expect(LeakGuard(name: "cvt0", policy: .enforcedRoutes, mark: 5).table == nil)
        #expect(LeakGuard(name: "cvt0", policy: .everything, mark: 5).table != nil)
    }

    @Test("Everything is held back before there are settings")
    func everything() throws {
        let table = try #require(
            LeakGuard(
                name: "cvt0", policy: .everything, mark: 51_820, localNetworks: [try IPPrefix("192.168.7.0/24")]
            )
            .table)
        #expect(
            table.script == """
                add table inet culvert_cvt0
                delete table inet culvert_cvt0
                table inet culvert_cvt0 {
                  set dhcp4 {
                    type ipv4_addr
                    flags interval
                    auto-merge
                    elements = { 192.168.7.0/24, 255.255.255.255/32 }
                  }
                  set dhcp6 {
                    type ipv6_addr
                    flags interval
                    auto-merge
                    elements = { fe80::/10, ff02::1:2/128 }
                  }
                  chain own {
                    oifname "lo" accept
                    oifname "cvt0" accept
                    meta l4proto udp meta mark 51820 accept
                    udp sport 68 udp dport 67 ip daddr @dhcp4 accept
                    udp sport 546 udp dport 547 ip6 daddr @dhcp6 accept
                    ip6 hoplimit 255 icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert } accept
                    ip6 hoplimit 1 icmpv6 type { mld-listener-report, mld-listener-done, mld2-listener-report } accept
                  }
                  chain beside {
                    udp dport { 53, 853 } return
                    tcp dport { 53, 853 } return
                  }
                  chain output {
                    type filter hook output priority filter; policy accept;
                    jump own
                    jump beside
                    counter reject with icmpx admin-prohibited
                  }
                  chain forwarding {
                    type filter hook forward priority filter; policy accept;
                    oifname "cvt0" accept
                    jump beside
                    counter drop
                  }
                  chain leaving {
                    type filter hook postrouting priority filter; policy accept;
                    jump own
                    jump beside
                    counter drop
                  }
                }

                """)
    }

    @Test("Enforced routes block packets of the tunnel's networks, and lookups that it answers")
    func enforced() throws {
        let guardian = LeakGuard(
            name: "cvt0", policy: .enforcedRoutes, mark: 51_820,
            settings: try settings(dns: try LinuxSamples.dns()),
            tunnelled: [try IPPrefix("10.0.0.0/8"), try IPPrefix("fd00::/8")])
        let body = try #require(guardian.table).body
        #expect(body.contains("elements = { 10.0.0.0/8 }"))
        #expect(body.contains("    ip daddr @tunnelled4 counter drop\n    ip6 daddr @tunnelled6 counter drop\n"))
        #expect(body.contains("    udp dport { 53, 853 } counter drop\n"))
        #expect(!body.contains("    counter drop\n"), "the rest may leave")
        #expect(!body.contains("local4"))
        #expect(!body.contains("prerouting"))
        let forwarding = try #require(body.components(separatedBy: "chain forwarding").last)
        #expect(forwarding.prefix { $0 != "}" }.contains("ip daddr @tunnelled4 counter drop"))
    }

    @Test("Split name lookups cannot be distinguished here, so they are not blocked")
    func splitLookups() throws {
        var dns = try LinuxSamples.dns()
        dns.matchDomains = ["corp.example"]
        let guardian = LeakGuard(
            name: "cvt0", policy: .enforcedRoutes, mark: 1, settings: try settings(dns: dns),
            tunnelled: [.allIPv4])
        #expect(try #require(guardian.table).body.contains("dport { 53") == false)
    }

    @Test("The local network is reached if the settings allow it", arguments: LeakPolicy.allCases.dropFirst())
    func local(_ policy: LeakPolicy) throws {
        let network = try IPPrefix("192.168.7.0/24")
        for isAllowed in [true, false] {
            let guardian = LeakGuard(
                name: "cvt0", policy: policy, mark: 1, settings: try settings(local: isAllowed, policy: policy),
                tunnelled: [.allIPv4], localNetworks: [network])
            let body = try #require(guardian.table).body
            #expect(body.contains("ip daddr @local4 accept") == isAllowed)
            // Leases are renewed in any case.
            #expect(body.components(separatedBy: "192.168.7.0/24").count == (isAllowed ? 3 : 2))
        }
    }

    @Test("Allowed networks are let out, the host's own packets and forwarded ones", arguments: [true, false])
    func allowed(_ local: Bool) throws {
        var settings = try settings(local: local, policy: .everything)
        settings.allowedNetworks = [try IPPrefix("198.51.100.0/24"), try IPPrefix("2001:db8:5::/48")]
        let body = try #require(LeakGuard(name: "cvt0", policy: .everything, mark: 1, settings: settings).table).body
        #expect(body.contains("198.51.100.0/24") && body.contains("2001:db8:5::/48"))
        #expect(body.contains("ip daddr @local4 accept") && body.contains("ip6 daddr @local6 accept"))
        #expect(body.contains("224.0.0.0/24") == local)
        // Only where the host has such an address itself: clouds answer there.
        #expect(!body.contains("169.254.0.0/16"))
    }

    @Test("Routing by mark guards the tunnel's addresses and marks answers")
    func spoofing() throws {
        let guardian = LeakGuard(
            name: "cvt0", policy: .routeBased, mark: 51_820, settings: try settings(policy: .routeBased),
            routesByMark: true)
        let body = try #require(guardian.table).body
        #expect(body.contains("iifname != \"cvt0\" ip daddr 10.9.0.2 fib saddr type != local drop"))
        #expect(body.contains("meta l4proto udp ct mark 51820 meta mark set 51820"))
        #expect(!body.contains("reject"))
    }

    @Test("The first load of a table deletes nothing, and fails if the table exists")
    func firstLoad() {
        for form in [FirewallTable.Form.statements, .json] {
            let table = FirewallTable(name: "culvert_cvt0", body: "", form: form)
            #expect(table.firstScript.contains("create"))
            #expect(!table.firstScript.contains("delete"))
            #expect(table.script.contains("delete"))
        }
    }

    @Test("A table of chains is also known as messages, one for each chain and rule; a table with sets is not")
    func chains() throws {
        let spoofing = LeakGuard(
            name: "cvt0", policy: .routeBased, mark: 7, settings: try settings(), routesByMark: true)
        let table = try #require(spoofing.table)
        let chains = try #require(table.chains)
        let lines = table.body.split(separator: "\n").filter { $0.hasPrefix("    ") }
        let types = chains.flatMap { $0.requests(table: table.name) }.map(\.type)
        // The first line of a chain is its hook.
        #expect(types.count == lines.count && types.count == 6)
        #expect(types.count { $0 == FirewallMessage.newChain } == chains.count)
        let leaks = LeakGuard(
            name: "cvt0", policy: .everything, mark: 7, settings: try settings(), routesByMark: true)
        #expect(try #require(leaks.table).chains == nil)
    }

    @Test("A tunnel's mark is found in the messages of its rules, whether a rule compares or sets it")
    func marks() throws {
        let spoofing = LeakGuard(
            name: "cvt0", policy: .routeBased, mark: 51_820, settings: try settings(), routesByMark: true)
        let requests = try #require(spoofing.table?.chains).flatMap { $0.requests(table: "culvert_cvt0") }
        let rules = requests.filter { $0.type == FirewallMessage.newRule }.compactMap { request in
            NetlinkReader(bytes: request.body).attributes(from: FirewallMessage.header.count)[4]
        }
        #expect(rules.map { KernelExpression.marks(in: $0) } == [[], [51_820], [51_820]])
        func marks(_ expressions: [KernelExpression]) -> Set<UInt32> {
            KernelExpression.marks(in: expressions.flatMap { NetlinkRequest.attributes((1, $0.bytes)) })
        }
        #expect(marks(KernelExpression.setMark(7, ofConnection: true)) == [7])
        #expect(marks(KernelExpression.setMark(8, ofConnection: false)) == [8])
        let number = KernelExpression.comparison(.equal, NetlinkRequest.bytes(UInt32(9)))
        #expect(marks([.meta(.mark), number]) == [9] && marks([.connection(.mark), number]) == [9])
        // Other fields with that value are not marks. Zero is not a mark.
        #expect(marks([.meta(.transport), number]).isEmpty && marks([.connection(.state), number]).isEmpty)
        #expect(marks([.meta(.mark), .addressType(ofSource: true), number]).isEmpty)
        #expect(marks(KernelExpression.setMark(0, ofConnection: false)).isEmpty)
    }

    @Test("Names of interfaces become names of tables")
    func tableName() {
        #expect(LeakGuard.tableName("wg0.a-b_c") == "culvert_wg0.a-b_c")
        #expect(LeakGuard.tableName("a=b+") == "culvert_a/eb/p")
        #expect(Set(["a=", "a_eq", "a+", "a_plus", "a", "ae", "ap"].map(LeakGuard.tableName)).count == 7)
    }
}
