// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import PacketTunnel

/// The firewall of a tunnel. It blocks packets that bypass the tunnel's routes (``LeakPolicy``), and packets from the
/// local network to the tunnel's addresses that do not arrive through the tunnel.
///
/// It is one nftables table. It filters outgoing packets, including forwarded ones. It rejects the host's own packets
/// where they are created, so that programs get an error immediately. It cannot filter the frames of raw sockets
/// (`AF_PACKET`), which some DHCP clients use.
package struct LeakGuard: Hashable, Sendable {
    /// The tunnel.
    package var name: String
    /// The policy in effect.
    package var policy: LeakPolicy
    /// The mark of the tunnel's own packets.
    package var mark: UInt32
    /// The settings in effect, or `nil` before there are any.
    package var settings: TunnelSettings?
    /// The networks that are routed into the tunnel, without excluded ones.
    package var tunnelled: [IPPrefix]
    /// The networks that count as local (``LocalNetworks``).
    package var localNetworks: [IPPrefix]
    /// Whether packets are routed by the tunnel's mark, and the kernel accepts the rules for that.
    package var routesByMark: Bool

    package init(
        name: String, policy: LeakPolicy, mark: UInt32, settings: TunnelSettings? = nil,
        tunnelled: [IPPrefix] = [], localNetworks: [IPPrefix] = [], routesByMark: Bool = false
    ) {
        self.name = name
        self.policy = policy
        self.mark = mark
        self.settings = settings
        self.tunnelled = tunnelled
        self.localNetworks = localNetworks
        self.routesByMark = routesByMark
    }

    /// Returns the name of the table, which is unique for each tunnel. Interface names may contain two characters that
    /// table names may not. Each is replaced, preceded by an escape character that interface names cannot contain.
    package static func tableName(_ name: String) -> String {
        "culvert_"
            + name.map { character in
                switch character {
                case "=": "/e"
                case "+": "/p"
                default: String(character)
                }
            }
            .joined()
    }

    /// Returns the leak policy of a tunnel from the rules of its table in the kernel.
    static func policy(of tunnel: String, in firewall: FirewallSocket) throws(LinuxNetworkError) -> LeakPolicy {
        let rules = try firewall.firstExpressions(inChain: forwardChain, of: tableName(tunnel))
        guard !rules.isEmpty else { return .routeBased }
        // Only `everything` drops packets regardless of their destination.
        return rules.contains("counter") ? .everything : .enforcedRoutes
    }

    /// The chain for forwarded packets, which only strict policies have.
    private static let forwardChain = "forwarding"

    /// The table, or `nil` if there is nothing to guard.
    package var table: FirewallTable? {
        let holdsBack = policy.holdsBeforeSettings || (!policy.leavesDecisionToRoutes && settings != nil)
        guard holdsBack || routesByMark else { return nil }
        let chains = routesByMark ? spoofingChains : []
        let name = Self.tableName(name)
        guard holdsBack else { return FirewallTable(name: name, chains: chains) }
        return FirewallTable(name: name, body: leakChains + chains.map(\.text).joined())
    }

    // MARK: - Leaks

    private var leakChains: String {
        var text = ""
        let local =
            (settings?.allowsLocalNetwork == true ? localNetworks + Self.linkScope : [])
            + (settings?.allowedNetworks ?? [])
        text += Self.set("local4", local, isIPv6: false) + Self.set("local6", local, isIPv6: true)
        // DHCP leases are renewed even if the local network is not allowed.
        let servers = localNetworks + Self.leaseServers
        text += Self.set("dhcp4", servers, isIPv6: false) + Self.set("dhcp6", servers, isIPv6: true)
        if policy.refusesTunnelledOnly {
            text += Self.set("tunnelled4", tunnelled, isIPv6: false)
            text += Self.set("tunnelled6", tunnelled, isIPv6: true)
        }
        text += FirewallChain.text("own", own) + FirewallChain.text("beside", beside(local))
        let judged = ["jump own", "jump beside"]
        // The chain runs before other address translation of outgoing packets, and after all routing.
        text += FirewallChain.text(
            "output",
            ["type filter hook output priority filter; policy accept;"] + judged
                + refused.map { "\($0)counter reject with icmpx admin-prohibited" })
        // The exceptions for the host's own packets do not apply to forwarded packets.
        text += FirewallChain.text(
            Self.forwardChain,
            [
                "type filter hook forward priority filter; policy accept;", "oifname \"\(name)\" accept", "jump beside",
            ] + refused.map { "\($0)counter drop" })
        text += FirewallChain.text(
            "leaving",
            ["type filter hook postrouting priority filter; policy accept;"] + judged
                + refused.map { "\($0)counter drop" })
        return text
    }

    /// The rules that allow the host's own packets: within the host, into the tunnel, to the tunnel's server, and for
    /// its links.
    private var own: [String] {
        [
            "oifname \"lo\" accept",
            "oifname \"\(name)\" accept",
            "meta l4proto udp meta mark \(mark) accept",
            "udp sport 68 udp dport 67 ip daddr @dhcp4 accept",
            "udp sport 546 udp dport 547 ip6 daddr @dhcp6 accept",
            // RFC 4861: a router has not forwarded the packet.
            "ip6 hoplimit 255 icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert } accept",
            // RFC 3810: a switch with snooping forwards neighbour discovery only to hosts that joined the group.
            "ip6 hoplimit 1 icmpv6 type { mld-listener-report, mld-listener-done, mld2-listener-report } accept",
        ]
    }

    /// The rules that allow networks outside the tunnel.
    private func beside(_ local: [IPPrefix]) -> [String] {
        var rules: [String] = []
        // DNS queries may not be sent to name servers of the local network either.
        if policy.refusesAllLookups || asksTunnelForAllNames { rules += Self.lookups.map { $0 + "return" } }
        if local.contains(where: { !$0.isIPv6 }) { rules.append("ip daddr @local4 accept") }
        if local.contains(where: \.isIPv6) { rules.append("ip6 daddr @local6 accept") }
        return rules
    }

    private static let lookups = ["udp dport { 53, 853 } ", "tcp dport { 53, 853 } "]

    /// Whether all DNS queries belong to the tunnel. The firewall cannot see the name in a query.
    private var asksTunnelForAllNames: Bool {
        guard let dns = settings?.dns else { return false }
        return !dns.servers.isEmpty && dns.matchDomains.isEmpty
    }

    /// The conditions of the rules that reject packets.
    private var refused: [String] {
        guard policy.refusesTunnelledOnly else { return [""] }
        var matches: [String] = []
        if tunnelled.contains(where: { !$0.isIPv6 }) { matches.append("ip daddr @tunnelled4 ") }
        if tunnelled.contains(where: \.isIPv6) { matches.append("ip6 daddr @tunnelled6 ") }
        return matches + (asksTunnelForAllNames ? Self.lookups : [])
    }

    /// Destinations that no router forwards: multicast groups, broadcast, and IPv6 link-local addresses. Some routers
    /// forward IPv4 link-local addresses (clouds provide services there), so these count only if the host itself has
    /// such an address.
    private static let linkScope = [
        "224.0.0.0/24", "255.255.255.255/32", "fe80::/10", "ff02::/16",
    ].compactMap { try? IPPrefix($0) }

    /// The destinations of DHCP: all hosts on the link, and servers on it (RFC 2131, RFC 8415).
    private static let leaseServers = ["255.255.255.255", "fe80::/10", "ff02::1:2"].compactMap { try? IPPrefix($0) }

    // MARK: - Spoofing

    /// The chains against spoofing, as in wg-quick(8). Packets to the tunnel's addresses must arrive through the
    /// tunnel. Answers to the tunnel's own packets get its mark, so that the kernel accepts their source.
    private var spoofingChains: [FirewallChain] {
        let drops = (settings?.addresses ?? []).map { address -> [FirewallChain.Statement] in
            [.doesNotArrive(at: name), .destination(address.address), .sourceIsNotOfHost, .drop]
        }
        return [
            FirewallChain(name: "arriving", hook: .prerouting, priority: .raw, rules: drops),
            FirewallChain(
                name: "answers", hook: .prerouting, priority: .mangle,
                rules: [[.isUDP, .connectionHasMark(mark), .setMark(mark)]]),
            FirewallChain(
                name: "questions", hook: .postrouting, priority: .mangle,
                rules: [[.isUDP, .hasMark(mark), .setConnectionMark(mark)]]),
        ]
    }

    // MARK: - Text

    /// Returns a set of the prefixes of one family, or an empty text if there are none.
    private static func set(_ name: String, _ prefixes: [IPPrefix], isIPv6: Bool) -> String {
        let elements = prefixes.filter { $0.isIPv6 == isIPv6 }.map(\.description)
        guard !elements.isEmpty else { return "" }
        let type = isIPv6 ? "ipv6_addr" : "ipv4_addr"
        return "  set \(name) {\n    type \(type)\n    flags interval\n    auto-merge\n"
            + "    elements = { \(elements.joined(separator: ", ")) }\n  }\n"
    }
}
