// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
package import PacketTunnelLinux
import TunnelSystem

/// The firewall of a server: one nftables table, in which each packet of a client costs one look-up of its address.
///
/// - Verdict maps give the chain of a client: one map for flows that the client begins, one for flows towards it. A packet
///   from the tunnel is looked up by its source, a packet into the tunnel by its destination; a packet without an entry is
///   dropped. So one element adds, changes or removes a client. Clients with the same rules share a chain.
/// - A client's own rules come first. For flows that it begins, these follow: the assigned name servers (port 53), the
///   server's allowed services, the allowed networks, and the internet.
/// - A flow towards a client needs a rule of that client. A packet from outside with a client's source address is dropped.
/// - An allowed flow carries the mark of the chain that allowed it, and its next packets pass by that mark. New rules mean a
///   new mark: the flow's next packet, in either direction, goes through the rules again. A flow that is still allowed
///   continues, any other ends.
package struct ServerFirewall: Hashable, Sendable {
    package let settings: ServerNetworkSettings
    /// The families that are forwarded for clients of servers alone: those in which the host forwards nothing without them.
    package let forwardedForClients: Set<ForwardingMark>
    /// The policy for clients whose own rules do not decide, as text to compare with another policy.
    private var policyText: [String] = []

    package init(_ settings: ServerNetworkSettings, forwardedForClients: Set<ForwardingMark>) {
        self.settings = settings
        self.forwardedForClients = forwardedForClients
        policyText = (policy() + services() + sets()).map(\.line)
    }

    /// The chain for flows that clients without their own rules begin.
    package static let standardChain = "client"
    /// The chain for flows towards clients without their own rules.
    static let towardsChain = "towards"

    private var markedFamilies: [ForwardingMark] { forwardedForClients.sorted { !$0.isIPv6 && $1.isIPv6 } }

    /// Whether the host forwards nothing without servers, in all families of the clients' addresses.
    var isOnlyForwarder: Bool {
        Set(forwardedForClients.map(\.isIPv6)).isSuperset(of: settings.addresses.map(\.isIPv6))
    }

    package var tableName: String { LeakGuard.tableName(settings.name) }

    var commands: TableCommands { TableCommands(table: tableName) }

    /// The table without clients.
    var table: FirewallTable {
        var list = sets() + chains() + policy() + services() + arrivals() + errors() + flowLimit() + forwarding()
        list += translation() + marks() + segments()
        list += Self.families.flatMap { isIPv6 in
            Self.maps.map { commands.verdictMap($0.name(isIPv6), isIPv6: isIPv6, ofNetworks: $0.isOfNetworks) }
        }
        list += lookups()
        let own = [client, towards].flatMap { $0.ruleCommands(in: commands) }
        return FirewallTable(
            name: tableName, body: (list.map(\.line) + own).joined(separator: ","), form: .json)
    }

    // MARK: - Clients

    /// A map from clients to chains.
    struct ClientMap: Hashable {
        var isTowards: Bool
        var isOfNetworks: Bool

        func name(_ isIPv6: Bool) -> String {
            (isTowards ? "towards" : "clients") + (isOfNetworks ? "Nets" : "") + (isIPv6 ? "6" : "4")
        }
    }

    /// The maps of addresses come first, since nearly all packets are found there.
    private static let maps = [false, true].flatMap { isOfNetworks in
        [false, true].map { ClientMap(isTowards: $0, isOfNetworks: isOfNetworks) }
    }

    /// The set of the networks behind clients.
    private static func behind(_ isIPv6: Bool) -> String { isIPv6 ? "behind6" : "behind4" }

    /// Whether the number of flows of a source is limited.
    var limitsFlows: Bool { settings.flowsPerSource > 0 }

    /// Whether it is the address of a client, and not a network behind one.
    func isClient(_ prefix: IPPrefix) -> Bool {
        prefix.length == prefix.address.bitWidth && settings.networks.contains { $0.contains(prefix) }
    }

    /// A command that the kernel accepts if it has the table, and that changes nothing then.
    var probe: [String] { [commands.chain(Self.standardChain).line] }

    /// The commands that replace all clients in the table with these, including all chains that they use.
    func replace(_ clients: ServerClients) -> [String] {
        let elements = Self.families.flatMap { isIPv6 in
            Self.maps.map { commands.flush(map: $0.name(isIPv6)).line } + [
                commands.flush(set: Self.behind(isIPv6)).line
            ] + Self.pairSets(isIPv6).map { commands.flush(set: $0).line }
        }
        return elements
            + commands(for: ServerClients.Change(newChains: clients.chains))
            + commands(for: ServerClients.Change(added: clients.entries))
    }

    /// The commands for a change. Chains are created before the elements that use them, and removed after them.
    func commands(for change: ServerClients.Change) -> [String] {
        var list = change.newChains.flatMap { $0.made(in: commands) }
        let added = elements(change.added, otherThan: change.removed)
        let removed = elements(change.removed, otherThan: change.added)
        for (verb, elements) in [("delete", removed), ("add", added)] {
            for (name, entries) in elements.sorted(by: { $0.key < $1.key }) {
                list.append(commands.elements(verb, name, entries.map { ($0.key, $0.value) }))
            }
        }
        let (present, former) = (pairs(change.added), pairs(change.removed))
        for (verb, pairs, others) in [("delete", former, present), ("add", present, former)] {
            let changed = Dictionary(grouping: pairs.subtracting(others), by: Self.errorSources)
            for (name, changed) in changed.sorted(by: { $0.key < $1.key }) {
                list.append(commands.elements(verb, name, changed))
            }
        }
        return list + change.unusedChains.flatMap { $0.removed(from: commands) }
    }

    /// The content of the table's sets and maps for these clients.
    /// - Parameter fixed: the content of the sets that do not change.
    func contents(_ clients: ServerClients, fixed: TableContents) -> TableContents {
        var contents = fixed
        contents.elements.merge(elements(clients.entries, otherThan: [:])) { $1 }
        for pair in pairs(clients.entries) {
            contents.pairs[Self.errorSources(pair), default: []].insert(pair)
        }
        return contents
    }

    /// The names of the sets and maps of addresses, and of the sets of pairs of addresses, which change with clients.
    var hostSets: Set<String> {
        Set(
            Self.families.flatMap { isIPv6 in
                Self.maps.filter { !$0.isOfNetworks }.map { $0.name(isIPv6) } + [Self.pairSets(isIPv6)[0]]
            })
    }

    /// The names of the sets that do not change.
    var fixedSets: Set<String> { Set(addressSets.keys.map(\.name) + NFT.constantSets.map(\.name)) }

    /// The elements of sets and maps for these entries, without elements that other entries share.
    private func elements(
        _ entries: [IPPrefix: ServerClients.Entry], otherThan others: [IPPrefix: ServerClients.Entry]
    ) -> [String: [IPPrefix: String]] {
        var elements: [String: [IPPrefix: String]] = [:]
        for (prefix, chains) in entries {
            let other = others[prefix]
            let isOfNetworks = !isClient(prefix)
            for (isTowards, chain, before) in [
                (false, chains.from, other?.from), (true, chains.towards, other?.towards),
            ] where chain != before {
                let map = ClientMap(isTowards: isTowards, isOfNetworks: isOfNetworks)
                elements[map.name(prefix.isIPv6), default: [:]][prefix] = chain
            }
            if isOfNetworks, other == nil { elements[Self.behind(prefix.isIPv6), default: [:]][prefix] = "" }
        }
        return elements
    }

    /// The sources of ICMP errors, each with the end of a flow that the error may be about: both belong to one client.
    private func pairs(_ entries: [IPPrefix: ServerClients.Entry]) -> Set<PrefixPair> {
        var pairs: Set<PrefixPair> = []
        for (prefix, entry) in entries {
            pairs.insert(PrefixPair(prefix, prefix))
            for other in entry.prefixes where other.isIPv6 == prefix.isIPv6 { pairs.insert(PrefixPair(prefix, other)) }
        }
        return pairs
    }

    // MARK: - Chains of clients

    /// Makes the chain for flows from clients. All rules have the direction `out`.
    /// - Parameter network: The network behind a client that the chain is for. Its limit of flows needs a separate chain.
    func chain(from rules: [AccessRule], network: IPPrefix? = nil) -> RuleChain {
        let judged = rules.flatMap { rule in rule.matches.map { (rule.action, $0) } }
        // A flow that was allowed under other rules, or another policy, is checked again.
        let mark = ContentHash(policyText + judged.map { "\($0)\(JSON.array($1).line)" }).mark
        let through = [NFT.mark(mark), NFT.back]
        var list: [[JSON]] = []
        if let network, limitsFlows {
            let source = NFT.match(NFT.source(isIPv6: network.isIPv6), NFT.prefix(network))
            list.append([
                NFT.isFirst, source, NFT.hasMoreFlows(than: settings.flowsPerSource), NFT.counter, NFT.drop,
            ])
        }
        list += [
            [NFT.marked(mark), NFT.back], NFT.isError + [NFT.back],
            [NFT.match(NFT.destinationType, NFT.hosts, "!="), NFT.counter, NFT.drop],
        ]
        list += judged.map { action, matches in matches + (action == .allow ? through : [NFT.goto("refused")]) }
        list += [[NFT.jump("common")], through]
        return RuleChain(list.map { .array($0) })
    }

    /// Makes the chain for flows towards clients. All rules have the direction `in`.
    func chain(towards rules: [AccessRule]) -> RuleChain {
        var list = answers
        for rule in rules {
            for matches in rule.matches {
                list.append(matches + [rule.action == .allow ? NFT.back : NFT.goto(Self.towardsChain)])
            }
        }
        list.append([NFT.goto(Self.towardsChain)])
        return RuleChain(list.map { .array($0) })
    }

    private var client: RuleChain { RuleChain(name: Self.standardChain, chain(from: []).rules) }

    private var towards: RuleChain {
        let list = answers + [[fromTunnel, NFT.goto("refused")], [NFT.counter, NFT.drop]]
        return RuleChain(name: Self.towardsChain, list.map { .array($0) })
    }

    /// A client's responses to the server itself do not begin a flow. An ICMP error belongs to a flow that was allowed.
    private var answers: [[JSON]] {
        [
            [NFT.isOriginal(false), NFT.match(NFT.destinationType, "local"), NFT.back],
            NFT.isError + [NFT.back],
        ]
    }

    // MARK: - Parts

    private static let families = [false, true]

    /// The set that has a pair of ``pairs(_:)``.
    private static func errorSources(_ pair: PrefixPair) -> String {
        let isOfHosts = [pair.first, pair.second].allSatisfy { $0.length == $0.address.bitWidth }
        return pairSets(pair.first.isIPv6)[isOfHosts ? 0 : 1]
    }

    /// The sets for pairs of addresses, and for other pairs.
    private static func pairSets(_ isIPv6: Bool) -> [String] {
        ["errorSources", "errorSourcesNets"].map { $0 + (isIPv6 ? "6" : "4") }
    }

    /// The set in which the kernel counts the flows of each source.
    private static func flows(_ isIPv6: Bool) -> String { isIPv6 ? "flows6" : "flows4" }

    private var tunnel: JSON {
        settings.furtherTunnels.isEmpty ? .string(settings.name) : NFT.any(settings.tunnels.map { .string($0) })
    }
    private var fromTunnel: JSON { NFT.match(NFT.meta("iifname"), tunnel) }
    private var toTunnel: JSON { NFT.match(NFT.meta("oifname"), tunnel) }

    private struct AddressSet: Hashable {
        var name: String
        var isIPv6: Bool
    }

    /// Networks that do not change while the server runs.
    private var addressSets: [AddressSet: [IPPrefix]] {
        var sets: [AddressSet: [IPPrefix]] = [:]
        for isIPv6 in Self.families {
            for (name, prefixes) in [
                ("servers", settings.nameServers.map { IPPrefix(host: $0) }), ("allowed", settings.allowedNetworks),
                ("denied", ProtectedNetworks.ipv4 + ProtectedNetworks.ipv6),
            ] {
                sets[AddressSet(name: name + (isIPv6 ? "6" : "4"), isIPv6: isIPv6)] = AccessRule.distinct(
                    prefixes.filter { $0.isIPv6 == isIPv6 })
            }
        }
        return sets
    }

    private func sets() -> [JSON] {
        NFT.constantSets.map { commands.set($0.name, type: $0.type, $0.elements) }
            + addressSets.sorted { $0.key.name < $1.key.name }.map { set, prefixes in
                commands.set(set.name, prefixes, isIPv6: set.isIPv6)
            }
            + Self.families.flatMap { isIPv6 in
                [
                    commands.set(Self.behind(isIPv6), isIPv6: isIPv6, merges: false)
                ]
                    + Self.pairSets(isIPv6).enumerated().map { index, name in
                        commands.pairs(name, isIPv6: isIPv6, ofNetworks: index == 1)
                    }
            }
    }

    private func chains() -> [JSON] {
        [
            Self.standardChain, Self.towardsChain, "common", "services", "refused", "arriving", "beginning",
            "answering", "leaving", "reaching", "answered", "errors", "clamping",
        ].map { commands.chain($0) } + [
            // Before the kernel routes the packet, and before it tracks connections.
            commands.chain("outside", "prerouting", priority: -300),
            commands.chain("segments", "forward", priority: -150), commands.chain("input", "input", priority: 0),
            commands.chain("forwarding", "forward", priority: 0),
            commands.chain("translation", "postrouting", type: "nat", priority: 100),
        ] + markedFamilies.map { commands.chain($0.chain) }
    }

    /// The flows that any client may begin if its own rules do not decide. The chain returns if a flow is allowed.
    private func policy() -> [JSON] {
        func rule(_ statements: [JSON]) -> JSON { commands.rule("common", statements: .array(statements)) }
        let isName = NFT.match(NFT.meta("l4proto"), NFT.withPorts)
        var rules = Self.families.flatMap { isIPv6 in
            NFT.bothWays(isName, ports: .integer(53)).map { way in
                rule(
                    [NFT.match(NFT.responder(isIPv6: isIPv6), NFT.named("servers" + (isIPv6 ? "6" : "4")))] + way + [
                        NFT.back
                    ])
            }
        }
        rules += [
            rule([NFT.isOriginal(true), NFT.match(NFT.destinationType, "local"), NFT.goto("services")]),
            // To another client, whose rules are checked next.
            rule([fromTunnel, toTunnel, NFT.back]),
        ]
        for (set, verdict) in [("allowed", NFT.back), ("denied", NFT.goto("refused"))] {
            rules += Self.families.map { isIPv6 in
                rule([NFT.match(NFT.responder(isIPv6: isIPv6), NFT.named(set + (isIPv6 ? "6" : "4"))), verdict])
            }
        }
        rules += [
            rule([
                NFT.match(NFT.responder(isIPv6: true), NFT.prefix(ProtectedNetworks.globalIPv6), "!="),
                NFT.goto("refused"),
            ]),
            // An established connection gets a reset, so that both ends know that it has ended.
            commands.rule(
                "refused", NFT.match(NFT.ct("state"), "established", "in"), NFT.match(NFT.meta("l4proto"), "tcp"),
                NFT.counter, NFT.reset),
            commands.rule("refused", NFT.counter, NFT.reject),
        ]
        return rules
    }

    private func services() -> [JSON] {
        var rules: [JSON] = []
        if settings.answersPings {
            rules += ["icmp", "icmpv6"].map { header in
                commands.rule("services", NFT.match(NFT.payload(header, "type"), "echo-request"), NFT.back)
            }
        }
        for transport in [ServerNetworkSettings.Service.Transport.tcp, .udp] {
            let ports = Set(settings.services.filter { $0.transport == transport }.map(\.port)).sorted()
            guard !ports.isEmpty else { continue }
            rules.append(
                commands.rule(
                    "services",
                    NFT.match(NFT.payload(transport.rawValue, "dport"), NFT.any(ports.map { .integer($0) })),
                    NFT.back))
        }
        return rules + [commands.rule("services", NFT.goto("refused"))]
    }

    /// Packets from outside with a client's source address. The interface is compared once, for each packet of the host.
    private func arrivals() -> [JSON] {
        let isInside = NFT.match(NFT.meta("iifname"), NFT.any(settings.tunnels.map { .string($0) } + ["lo"]))
        let networks =
            settings.networks.map { ($0.isIPv6, NFT.prefix($0)) }
            + Self.families.map { ($0, NFT.named(Self.behind($0))) }
        return [commands.rule("outside", isInside, NFT.accept)]
            + networks.map { isIPv6, network in
                commands.rule("outside", NFT.match(NFT.source(isIPv6: isIPv6), network), NFT.counter, NFT.drop)
            }
    }

    /// ICMP errors from the tunnel: the source must be the client, or belong to it, at whose end the flow is. The kernel
    /// itself compares only the destination. Otherwise a client that guesses the ports of another's flow could end it.
    private func errors() -> [JSON] {
        let rules = Self.families.flatMap { isIPv6 in
            [true, false].flatMap { isOriginal in
                Self.pairSets(isIPv6).map { name in
                    commands.rule(
                        "errors", NFT.isOriginal(isOriginal),
                        NFT.match(
                            NFT.concatenation(
                                NFT.source(isIPv6: isIPv6), NFT.endpoint(isIPv6: isIPv6, isOriginal: isOriginal)),
                            NFT.named(name)), NFT.back)
                }
            }
        }
        return rules + [
            commands.rule("errors", NFT.counter, NFT.drop),
            commands.rule("arriving", statements: .array(NFT.isError + [NFT.jump("errors")])),
        ]
    }

    /// Drops the first packet of a flow whose source has too many, so that no client can fill the host's table of
    /// connections. The chain of a network behind a client has a limit for all of the network.
    private func flowLimit() -> [JSON] {
        guard limitsFlows else { return [] }
        return Self.families.map { isIPv6 in
            Self.flowLimit(settings.flowsPerSource, isIPv6: isIPv6, in: commands)
        }
    }

    private static func flowLimit(_ count: Int, isIPv6: Bool, in commands: TableCommands) -> JSON {
        commands.rule(
            "arriving", NFT.isFirst, NFT.match(NFT.source(isIPv6: isIPv6), NFT.named(behind(isIPv6)), "!="),
            NFT.hasMoreFlows(than: count, flows(isIPv6), isIPv6: isIPv6), NFT.counter, NFT.drop)
    }

    /// The commands for a table with only the limit of flows, which shows whether the kernel supports it.
    static var flowLimitProbe: [String] {
        let commands = TableCommands(table: "culvert-probe")
        return [
            commands.empty, commands.chain("arriving"), commands.set(behind(false), isIPv6: false, merges: false),
            flowLimit(1, isIPv6: false, in: commands),
        ].map(\.line)
    }

    private func forwarding() -> [JSON] {
        var rules = [
            commands.rule("input", fromTunnel, NFT.jump("arriving")), commands.rule("input", fromTunnel, NFT.accept),
            // A packet between two clients is checked against the rules of both.
            commands.rule("forwarding", fromTunnel, NFT.jump("arriving")),
            commands.rule("forwarding", toTunnel, NFT.jump("leaving")),
            commands.rule("forwarding", fromTunnel, NFT.accept), commands.rule("forwarding", toTunnel, NFT.accept),
        ]
        for mark in markedFamilies {
            let isFamily = NFT.match(NFT.meta("nfproto"), mark.isIPv6 ? "ipv6" : "ipv4")
            // The table of another server decides about its own packets.
            rules.append(commands.rule("forwarding", isFamily, NFT.isServers, NFT.accept))
            rules.append(commands.rule("forwarding", isFamily, NFT.counter, NFT.drop))
        }
        return rules
    }

    /// Marks the packets that this server forwards, and those of the interfaces that the settings permit, before any
    /// server's table drops the rest.
    private func marks() -> [JSON] {
        let others = settings.otherInterfaces.map { JSON.string($0) }
        let interfaces = NFT.any(settings.tunnels.map { .string($0) } + others)
        return ["iifname", "oifname"].map {
            commands.rule("segments", NFT.match(NFT.meta($0), interfaces), NFT.markAsServers)
        }
    }

    private func translation() -> [JSON] {
        settings.networks.filter { ($0.isIPv6 ? settings.way6 : settings.way4) == .masqueraded }.flatMap { network in
            [NFT.prefix(network), NFT.named(Self.behind(network.isIPv6))].map { sources in
                commands.rule(
                    "translation", NFT.match(NFT.source(isIPv6: network.isIPv6), sources),
                    NFT.match(NFT.meta("oifname"), tunnel, "!="), NFT.masquerade)
            }
        }
    }

    /// Limits TCP segments to the size of the tunnel, in case another host drops the ICMP messages about it (RFC 4459 section
    /// 3.2).
    private func segments() -> [JSON] {
        let rules = Self.families.flatMap { isIPv6 in
            [fromTunnel, toTunnel].map { way in
                commands.rule(
                    "clamping", way, NFT.match(NFT.meta("nfproto"), isIPv6 ? "ipv6" : "ipv4"),
                    NFT.clampSegments(to: max(settings.mtu - (isIPv6 ? 60 : 40), 500)))
            }
        }
        // Only the first packet of each direction gets to the rules.
        return rules + [commands.rule("segments", NFT.isSyn, NFT.jump("clamping"))]
    }

    private func lookups() -> [JSON] {
        func ways(_ chain: String, original: String, reply: String) -> [JSON] {
            let data = NFT.any([.array(["original", NFT.goto(original)]), .array(["reply", NFT.goto(reply)])])
            // A packet that does not belong to a connection is dropped.
            return [
                commands.rule(chain, NFT.verdict(NFT.ct("direction"), data)),
                commands.rule(chain, NFT.counter, NFT.drop),
            ]
        }
        func lookup(_ chain: String, _ key: (Bool) -> JSON, isTowards: Bool) -> [JSON] {
            Self.maps.filter { $0.isTowards == isTowards }.flatMap { map in
                Self.families.map { isIPv6 in
                    commands.rule(chain, NFT.verdict(key(isIPv6), NFT.named(map.name(isIPv6))))
                }
            }
        }
        var rules = ways("arriving", original: "beginning", reply: "answering")
        rules += ways("leaving", original: "reaching", reply: "answered")
        rules += lookup("beginning", NFT.source, isTowards: false) + lookup("answering", NFT.source, isTowards: true)
        rules += lookup("reaching", NFT.destination, isTowards: true)
        rules += lookup("answered", NFT.destination, isTowards: false)
        rules.append(commands.rule("reaching", fromTunnel, NFT.goto("refused")))
        rules += ["beginning", "answering", "reaching", "answered"].map { commands.rule($0, NFT.counter, NFT.drop) }
        return rules
    }
}
