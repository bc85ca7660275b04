// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import PacketTunnelLinux
import TunnelSystem

/// The firewall of a server: one table of nftables, in which a packet of a client costs one look-up of its source.
///
/// - A packet that comes out of the tunnel goes where the verdict map of its family says for its source; a source without an
///   entry is dropped. So a client comes and goes with one element.
/// - Flows that were let through go on. Of new ones: the name servers given out (port 53), the server's own services that were
///   allowed, networks that were allowed, and the internet.
/// - Nothing begins a flow towards a client. What pretends to be one from elsewhere is dropped.
package struct ServerFirewall: Hashable, Sendable {
    package var settings: ServerNetworkSettings
    /// The families that are forwarded for clients alone: those in which the host forwarded nothing before.
    package var forwardedForClients: Set<Family>

    package enum Family: String, Hashable, Sendable, CaseIterable {
        case ipv4, ipv6

        package init(isIPv6: Bool) { self = isIPv6 ? .ipv6 : .ipv4 }
    }

    package init(_ settings: ServerNetworkSettings, forwardedForClients: Set<Family>) {
        self.settings = settings
        self.forwardedForClients = forwardedForClients
    }

    /// The chain that packets of an ordinary client go to.
    package static let standardChain = "client"

    static func map(isIPv6: Bool) -> String { isIPv6 ? "clients6" : "clients4" }

    package var tableName: String { LeakGuard.tableName(settings.name) }

    private var commands: TableCommands { TableCommands(table: tableName) }

    /// The table with these clients: of each address the chain that its packets go to.
    package func table(clients: [IPAddress: String]) -> FirewallTable {
        var list = sets() + chains() + client() + services() + arrivals() + forwarding() + translation() + segments()
        list += Self.families.map { commands.verdictMap(Self.map(isIPv6: $0), isIPv6: $0) }
        list += lookups()
        return FirewallTable(
            name: tableName, body: (list.map(\.line) + add(clients)).joined(separator: ","), form: .json)
    }

    /// The commands that make these entries.
    func add(_ clients: [IPAddress: String]) -> [String] { elements("add", clients) }

    /// The commands that take them away.
    func remove(_ clients: [IPAddress: String]) -> [String] { elements("delete", clients) }

    /// The commands that make these entries the only ones.
    func replace(_ clients: [IPAddress: String]) -> [String] {
        Self.families.map { commands.flush(Self.map(isIPv6: $0)).line } + add(clients)
    }

    private func elements(_ verb: String, _ clients: [IPAddress: String]) -> [String] {
        Self.families.compactMap { isIPv6 in
            let entries = clients.filter { $0.key.isIPv6 == isIPv6 }.map { (address: $0.key, chain: $0.value) }
            return entries.isEmpty ? nil : commands.elements(verb, Self.map(isIPv6: isIPv6), entries)
        }
    }

    // MARK: - Parts

    private static let families = [false, true]
    private var tunnel: JSON { .string(settings.name) }
    private var fromTunnel: JSON { NFT.match(NFT.meta("iifname"), tunnel) }
    private var toTunnel: JSON { NFT.match(NFT.meta("oifname"), tunnel) }

    private func sets() -> [JSON] {
        Self.families.flatMap { isIPv6 -> [JSON] in
            let suffix = isIPv6 ? "6" : "4"
            func set(_ name: String, _ prefixes: [IPPrefix]) -> JSON {
                commands.set(name + suffix, prefixes.filter { $0.isIPv6 == isIPv6 }, isIPv6: isIPv6)
            }
            return [
                set("servers", settings.nameServers.map { IPPrefix(host: $0) }), set("others", settings.networks),
                set("allowed", settings.allowedNetworks),
                set("denied", ProtectedNetworks.ipv4 + ProtectedNetworks.ipv6),
            ]
        }
    }

    private func chains() -> [JSON] {
        [
            commands.chain(Self.standardChain), commands.chain("services"), commands.chain("refused"),
            commands.chain("arriving"),
            // Before the kernel looks who the packet is for, and before connections are tracked.
            commands.chain("outside", "prerouting", priority: -300),
            commands.chain("segments", "forward", priority: -150), commands.chain("input", "input", priority: 0),
            commands.chain("forwarding", "forward", priority: 0),
            commands.chain("translation", "postrouting", type: "nat", priority: 100),
        ]
    }

    /// What a client may begin.
    private func client() -> [JSON] {
        let chain = Self.standardChain
        let states = NFT.any([
            .array(["established", NFT.accept]), .array(["related", NFT.accept]), .array(["invalid", NFT.drop]),
        ])
        var rules = [commands.rule(chain, NFT.verdict(NFT.ct("state"), states))]
        rules += Self.families.map { isIPv6 in
            commands.rule(
                chain, NFT.match(NFT.destination(isIPv6: isIPv6), NFT.named("servers" + (isIPv6 ? "6" : "4"))),
                NFT.match(NFT.meta("l4proto"), NFT.any(["tcp", "udp"])),
                NFT.match(NFT.payload("th", "dport"), .integer(53)), NFT.accept)
        }
        rules += [
            commands.rule(chain, NFT.match(NFT.destinationType, "local"), NFT.goto("services")),
            commands.rule(chain, NFT.match(NFT.destinationType, "unicast", "!="), NFT.counter, NFT.drop),
        ]
        for (set, verdict) in [
            ("others", NFT.goto("refused")), ("allowed", NFT.accept), ("denied", NFT.goto("refused")),
        ] {
            rules += Self.families.map { isIPv6 in
                commands.rule(
                    chain, NFT.match(NFT.destination(isIPv6: isIPv6), NFT.named(set + (isIPv6 ? "6" : "4"))), verdict)
            }
        }
        rules += [
            commands.rule(
                chain,
                NFT.match(NFT.destination(isIPv6: true), NFT.prefix(ProtectedNetworks.globalIPv6), "!="),
                NFT.goto("refused")),
            commands.rule(chain, NFT.accept), commands.rule("refused", NFT.counter, NFT.reject),
        ]
        return rules
    }

    private func services() -> [JSON] {
        var rules: [JSON] = []
        if settings.answersPings {
            rules += ["icmp", "icmpv6"].map { header in
                commands.rule("services", NFT.match(NFT.payload(header, "type"), "echo-request"), NFT.accept)
            }
        }
        for transport in [ServerNetworkSettings.Service.Transport.tcp, .udp] {
            let ports = Set(settings.services.filter { $0.transport == transport }.map(\.port)).sorted()
            guard !ports.isEmpty else { continue }
            rules.append(
                commands.rule(
                    "services",
                    NFT.match(NFT.payload(transport.rawValue, "dport"), NFT.any(ports.map { .integer($0) })),
                    NFT.accept))
        }
        return rules + [commands.rule("services", NFT.goto("refused"))]
    }

    /// What comes from elsewhere with a client's source.
    private func arrivals() -> [JSON] {
        settings.networks.map { network in
            commands.rule(
                "outside", NFT.match(NFT.meta("iifname"), NFT.any([tunnel, "lo"]), "!="),
                NFT.match(NFT.source(isIPv6: network.isIPv6), NFT.prefix(network)), NFT.counter, NFT.drop)
        }
    }

    private func forwarding() -> [JSON] {
        let answers = NFT.match(NFT.ct("state"), .array(["established", "related"]), "in")
        var rules = [
            commands.rule("input", fromTunnel, NFT.goto("arriving")),
            commands.rule("forwarding", fromTunnel, NFT.goto("arriving")),
            commands.rule("forwarding", toTunnel, answers, NFT.accept),
            commands.rule("forwarding", toTunnel, NFT.counter, NFT.drop),
        ]
        let others = settings.otherInterfaces.map { JSON.string($0) }
        for family in Family.allCases where forwardedForClients.contains(family) {
            let isFamily = NFT.match(NFT.meta("nfproto"), .string(family.rawValue))
            for direction in ["iifname", "oifname"] where !others.isEmpty {
                rules.append(
                    commands.rule("forwarding", isFamily, NFT.match(NFT.meta(direction), NFT.any(others)), NFT.accept))
            }
            rules.append(commands.rule("forwarding", isFamily, NFT.counter, NFT.drop))
        }
        return rules
    }

    private func translation() -> [JSON] {
        settings.networks.compactMap { network in
            guard (network.isIPv6 ? settings.way6 : settings.way4) == .masqueraded else { return nil }
            return commands.rule(
                "translation", NFT.match(NFT.source(isIPv6: network.isIPv6), NFT.prefix(network)),
                NFT.match(NFT.meta("oifname"), tunnel, "!="), NFT.masquerade)
        }
    }

    /// Segments that fit into the tunnel, whoever drops the messages that would say so (RFC 4459 section 3.2).
    private func segments() -> [JSON] {
        Self.families.flatMap { isIPv6 in
            [fromTunnel, toTunnel].map { way in
                commands.rule(
                    "segments", way, NFT.match(NFT.meta("nfproto"), isIPv6 ? "ipv6" : "ipv4"), NFT.isSyn,
                    NFT.clampSegments(to: max(settings.mtu - (isIPv6 ? 60 : 40), 500)))
            }
        }
    }

    private func lookups() -> [JSON] {
        Self.families.map { isIPv6 in
            commands.rule(
                "arriving",
                NFT.verdict(NFT.source(isIPv6: isIPv6), NFT.named(Self.map(isIPv6: isIPv6))))
        } + [commands.rule("arriving", NFT.counter, NFT.drop)]
    }
}
