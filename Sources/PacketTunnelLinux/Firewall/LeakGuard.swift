// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import PacketTunnel

/// What a firewall adds to a tunnel's routes: that nothing gets around them (``LeakPolicy``), and that nobody on the
/// local network reaches the tunnel's addresses from outside of it.
///
/// It is one table of nftables of the tunnel's own. It judges packets when they leave for good, forwarded ones as well, and
/// refuses the machine's own where they begin, so that programs get an error at once. Sockets that make frames
/// themselves (`AF_PACKET`), as some DHCP clients do, are not seen by any firewall of this kind.
package struct LeakGuard: Hashable, Sendable {
    /// The tunnel.
    package var name: String
    /// The policy in force.
    package var policy: LeakPolicy
    /// The mark of the tunnel's own packets.
    package var mark: UInt32
    /// The settings in force; nil before there are any.
    package var settings: TunnelSettings?
    /// The networks that are the tunnel's, nothing excluded among them.
    package var tunnelled: [IPPrefix]
    /// The networks that count as local (``LocalNetworks``).
    package var localNetworks: [IPPrefix]
    /// Whether packets are routed by the tunnel's mark.
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

    /// The table's name, of each tunnel another one. Two signs that interfaces may have in their names are none that tables may, and
    /// stand behind one that interfaces may not.
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

    /// The leak policy of a tunnel whose table nft lists like this.
    static func policy(in listing: String) -> LeakPolicy {
        let lines = listing.split(separator: "\n").map { $0.drop { $0.isWhitespace } }
        guard lines.contains(where: { $0.hasPrefix("type filter hook forward ") }) else { return .routeBased }
        // A refusal without a condition on the destination.
        return lines.contains { $0.hasPrefix("counter ") } ? .everything : .enforcedRoutes
    }

    /// The table; nil where there is nothing to guard.
    package var table: FirewallTable? {
        let holdsBack = policy.holdsBeforeSettings || (!policy.leavesDecisionToRoutes && settings != nil)
        guard holdsBack || routesByMark else { return nil }
        var body = ""
        if holdsBack { body += leakChains }
        if routesByMark { body += spoofingChains }
        return FirewallTable(name: Self.tableName(name), body: body)
    }

    // MARK: - Leaks

    private var leakChains: String {
        var text = ""
        let local =
            (settings?.allowsLocalNetwork == true ? localNetworks + Self.linkScope : [])
            + (settings?.allowedNetworks ?? [])
        text += Self.set("local4", local, isIPv6: false) + Self.set("local6", local, isIPv6: true)
        // Leases are renewed also where the local network is not let through.
        let servers = localNetworks + Self.leaseServers
        text += Self.set("dhcp4", servers, isIPv6: false) + Self.set("dhcp6", servers, isIPv6: true)
        if policy.refusesTunnelledOnly {
            text += Self.set("tunnelled4", tunnelled, isIPv6: false)
            text += Self.set("tunnelled6", tunnelled, isIPv6: true)
        }
        text += Self.chain("own", own) + Self.chain("beside", beside(local))
        let judged = ["jump own", "jump beside"]
        // Before others change addresses on the way out, and after all routing is done.
        text += Self.chain(
            "output",
            ["type filter hook output priority filter; policy accept;"] + judged
                + refused.map { "\($0)counter reject with icmpx admin-prohibited" })
        // What others send through this host has none of its own exceptions.
        text += Self.chain(
            "forwarding",
            [
                "type filter hook forward priority filter; policy accept;", "oifname \"\(name)\" accept", "jump beside",
            ] + refused.map { "\($0)counter drop" })
        text += Self.chain(
            "leaving",
            ["type filter hook postrouting priority filter; policy accept;"] + judged
                + refused.map { "\($0)counter drop" })
        return text
    }

    /// What the host itself sends: to itself, into the tunnel, to the tunnel's server, and what its links need.
    private var own: [String] {
        [
            "oifname \"lo\" accept",
            "oifname \"\(name)\" accept",
            "meta l4proto udp meta mark \(mark) accept",
            "udp sport 68 udp dport 67 ip daddr @dhcp4 accept",
            "udp sport 546 udp dport 547 ip6 daddr @dhcp6 accept",
            // RFC 4861: not what came over a router.
            "ip6 hoplimit 255 icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert } accept",
            // RFC 3810: switches that listen forward neighbour discovery only to who asked for it.
            "ip6 hoplimit 1 icmpv6 type { mld-listener-report, mld-listener-done, mld2-listener-report } accept",
        ]
    }

    /// What is reached beside the tunnel.
    private func beside(_ local: [IPPrefix]) -> [String] {
        var rules: [String] = []
        // Name servers of the local network are no exception to whom names are asked of.
        if policy.refusesAllLookups || asksTunnelForAllNames { rules += Self.lookups.map { $0 + "return" } }
        if local.contains(where: { !$0.isIPv6 }) { rules.append("ip daddr @local4 accept") }
        if local.contains(where: \.isIPv6) { rules.append("ip6 daddr @local6 accept") }
        return rules
    }

    private static let lookups = ["udp dport { 53, 853 } ", "tcp dport { 53, 853 } "]

    /// Which name is asked for cannot be seen here.
    private var asksTunnelForAllNames: Bool {
        guard let dns = settings?.dns else { return false }
        return !dns.servers.isEmpty && dns.matchDomains.isEmpty
    }

    /// What comes before the verdict for packets that are refused.
    private var refused: [String] {
        guard policy.refusesTunnelledOnly else { return [""] }
        var matches: [String] = []
        if tunnelled.contains(where: { !$0.isIPv6 }) { matches.append("ip daddr @tunnelled4 ") }
        if tunnelled.contains(where: \.isIPv6) { matches.append("ip6 daddr @tunnelled6 ") }
        return matches + (asksTunnelForAllNames ? Self.lookups : [])
    }

    /// What no router forwards: groups, broadcasts, and link-local addresses of IPv6. Those of IPv4 are routed where nobody is
    /// careful (clouds answer at one of them), and count where the host has such an address itself.
    private static let linkScope = [
        "224.0.0.0/24", "255.255.255.255/32", "fe80::/10", "ff02::/16",
    ].compactMap { try? IPPrefix($0) }

    /// Where leases are asked for: at everybody on the link, and at servers on it (RFC 2131, RFC 8415).
    private static let leaseServers = ["255.255.255.255", "fe80::/10", "ff02::1:2"].compactMap { try? IPPrefix($0) }

    // MARK: - Spoofing

    /// As wg-quick(8) has it: packets for the tunnel's addresses come out of the tunnel; and the answers to the tunnel's
    /// own packets have its mark, by which the kernel finds their source to be on the right side.
    private var spoofingChains: String {
        let drops = (settings?.addresses ?? []).map { address in
            "iifname != \"\(name)\" \(address.isIPv6 ? "ip6" : "ip") daddr \(address.address) "
                + "fib saddr type != local drop"
        }
        return Self.chain("arriving", ["type filter hook prerouting priority raw; policy accept;"] + drops)
            + Self.chain(
                "answers",
                [
                    "type filter hook prerouting priority mangle; policy accept;",
                    "meta l4proto udp ct mark \(mark) meta mark set \(mark)",
                ])
            + Self.chain(
                "questions",
                [
                    "type filter hook postrouting priority mangle; policy accept;",
                    "meta l4proto udp meta mark \(mark) ct mark set \(mark)",
                ])
    }

    // MARK: - Text

    private static func chain(_ name: String, _ lines: [String]) -> String {
        "  chain \(name) {\n" + lines.map { "    \($0)\n" }.joined() + "  }\n"
    }

    /// A set of the prefixes of a family; nothing without any.
    private static func set(_ name: String, _ prefixes: [IPPrefix], isIPv6: Bool) -> String {
        let elements = prefixes.filter { $0.isIPv6 == isIPv6 }.map(\.description)
        guard !elements.isEmpty else { return "" }
        let type = isIPv6 ? "ipv6_addr" : "ipv4_addr"
        return "  set \(name) {\n    type \(type)\n    flags interval\n    auto-merge\n"
            + "    elements = { \(elements.joined(separator: ", ")) }\n  }\n"
    }
}
