// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import TunnelSystem

/// Commands for nft in the JSON of libnftables-json(5), for one table of the family `inet`.
struct TableCommands {
    let table: String

    private func command(_ verb: String, _ kind: String, _ members: [(String, JSON)]) -> JSON {
        .object(of: [
            (verb, .object(of: [(kind, .object(of: [("family", "inet"), ("table", .string(table))] + members))]))
        ])
    }

    /// The table itself, without content.
    var empty: JSON { ["add": ["table": ["family": "inet", "name": .string(table)]]] }

    /// A chain without a hook; other chains jump to it.
    func chain(_ name: String) -> JSON { command("add", "chain", [("name", .string(name))]) }

    /// A chain that the kernel calls at a hook.
    func chain(_ name: String, _ hook: String, type: String = "filter", priority: Int) -> JSON {
        command(
            "add", "chain",
            [
                ("name", .string(name)), ("type", .string(type)), ("hook", .string(hook)),
                ("prio", .integer(priority)), ("policy", "accept"),
            ])
    }

    /// A set of networks.
    /// - Parameter merges: whether a network may contain another one. Such a set is not changed later.
    func set(_ name: String, _ prefixes: [IPPrefix] = [], isIPv6: Bool, merges: Bool = true) -> JSON {
        var members: [(String, JSON)] = [
            ("name", .string(name)), ("type", isIPv6 ? "ipv6_addr" : "ipv4_addr"), ("flags", .array(["interval"])),
        ]
        if merges { members.append(("auto-merge", true)) }
        if !prefixes.isEmpty { members.append(("elem", .array(prefixes.map(NFT.prefix)))) }
        return command("add", "set", members)
    }

    /// A set of constants of a type of nft.
    func set(_ name: String, type: String, _ elements: [JSON]) -> JSON {
        command("add", "set", [("name", .string(name)), ("type", .string(type)), ("elem", .array(elements))])
    }

    /// A map from addresses, or networks, to verdicts.
    func verdictMap(_ name: String, isIPv6: Bool, ofNetworks: Bool = false) -> JSON {
        command(
            "add", "map",
            [
                ("name", .string(name)), ("type", isIPv6 ? "ipv6_addr" : "ipv4_addr"), ("map", "verdict"),
            ] + (ofNetworks ? [("flags", .array(["interval"]))] : []))
    }

    /// A set of pairs of addresses, or of networks. (The kernel needs much longer for a change of the latter.)
    func pairs(_ name: String, isIPv6: Bool, ofNetworks: Bool) -> JSON {
        let type: JSON = isIPv6 ? "ipv6_addr" : "ipv4_addr"
        return command(
            "add", "set",
            [("name", .string(name)), ("type", .array([type, type]))]
                + (ofNetworks ? [("flags", .array(["interval"]))] : []))
    }

    /// The elements of a set of pairs, as JSON text, since there may be many.
    /// - Parameter verb: `add` or `delete`.
    func elements(_ verb: String, _ name: String, _ pairs: [PrefixPair]) -> String {
        elements(verb, name, pairs.map { #"{"concat":[\#(Self.text($0.first)),\#(Self.text($0.second))]}"# })
    }

    private static func text(_ prefix: IPPrefix) -> String {
        let address = prefix.address.description
        return prefix.length == prefix.address.bitWidth
            ? "\"\(address)\"" : #"{"prefix":{"addr":"\#(address)","len":\#(prefix.length)}}"#
    }

    private func elements(_ verb: String, _ name: String, _ texts: [String]) -> String {
        #"{"\#(verb)":{"element":{"family":"inet","table":"\#(table)","name":"\#(name)","elem":["#
            + texts.joined(separator: ",") + "]}}}"
    }

    /// The elements of a set or a map, as JSON text, since there may be many.
    /// - Parameters:
    ///   - verb: `add` or `delete`.
    ///   - entries: addresses or networks. In a map each has the chain that its packets jump to; in a set the chain is empty.
    func elements(_ verb: String, _ name: String, _ entries: [(prefix: IPPrefix, chain: String)]) -> String {
        elements(
            verb, name,
            entries.map { entry in
                let key = Self.text(entry.prefix)
                return entry.chain.isEmpty ? key : "[" + key + #",{"goto":{"target":""# + entry.chain + #""}}]"#
            })
    }

    /// Removes all entries from a map.
    func flush(map: String) -> JSON { command("flush", "map", [("name", .string(map))]) }

    /// Removes all elements from a set.
    func flush(set: String) -> JSON { command("flush", "set", [("name", .string(set))]) }

    /// Removes all rules from a chain.
    func flush(chain: String) -> JSON { command("flush", "chain", [("name", .string(chain))]) }

    func delete(chain: String) -> JSON { command("delete", "chain", [("name", .string(chain))]) }

    func rule(_ chain: String, _ statements: JSON...) -> JSON {
        command("add", "rule", [("chain", .string(chain)), ("expr", .array(statements))])
    }

    /// A rule of a list of statements.
    func rule(_ chain: String, statements: JSON) -> JSON {
        command("add", "rule", [("chain", .string(chain)), ("expr", statements)])
    }
}

/// Expressions and statements of nftables.
enum NFT {
    static let accept: JSON = ["accept": .null]
    static let drop: JSON = ["drop": .null]
    /// Returns to the chain that jumped to this one.
    static let back: JSON = ["return": .null]
    static let counter: JSON = ["counter": .null]
    static let masquerade: JSON = ["masquerade": .null]
    /// Rejects the packet with an ICMP error: administratively prohibited.
    static let reject: JSON = ["reject": ["type": "icmpx", "expr": "admin-prohibited"]]

    /// Rejects the packet with a TCP reset to its sender.
    static let reset: JSON = ["reject": ["type": "tcp reset"]]
    /// The constants of ``constantSets``.
    static let (icmp, withPorts, hosts) = (named("icmpProtocols"), named("portProtocols"), named("hostTypes"))
    /// Sets that many chains use. For each set inside a rule, nft and the kernel have more work at every change of any rule.
    static let constantSets: [(name: String, type: String, elements: [JSON])] = [
        ("icmpProtocols", "inet_proto", ["icmp", "ipv6-icmp"]), ("portProtocols", "inet_proto", ["tcp", "udp"]),
        ("hostTypes", "fib_addrtype", ["unicast", "local"]),
    ]

    static func goto(_ chain: String) -> JSON { ["goto": ["target": .string(chain)]] }
    static func jump(_ chain: String) -> JSON { ["jump": ["target": .string(chain)]] }

    static func match(_ left: JSON, _ right: JSON, _ operation: String = "==") -> JSON {
        ["match": ["op": .string(operation), "left": left, "right": right]]
    }

    static func meta(_ key: String) -> JSON { ["meta": ["key": .string(key)]] }
    static func ct(_ key: String) -> JSON { ["ct": ["key": .string(key)]] }

    static func payload(_ header: String, _ field: String) -> JSON {
        ["payload": ["protocol": .string(header), "field": .string(field)]]
    }

    static func source(isIPv6: Bool) -> JSON { payload(isIPv6 ? "ip6" : "ip", "saddr") }
    static func destination(isIPv6: Bool) -> JSON { payload(isIPv6 ? "ip6" : "ip", "daddr") }

    /// The address that began the flow of the packet, for packets of either direction.
    static func originator(isIPv6: Bool) -> JSON {
        ["ct": ["key": isIPv6 ? "ip6 saddr" : "ip saddr", "dir": "original"]]
    }

    /// The destination of the flow: the source of its responses.
    static func responder(isIPv6: Bool) -> JSON {
        ["ct": ["key": isIPv6 ? "ip6 saddr" : "ip saddr", "dir": "reply"]]
    }

    /// The address at the end of the flow that the packet comes from.
    static func endpoint(isIPv6: Bool, isOriginal: Bool) -> JSON {
        isOriginal ? originator(isIPv6: isIPv6) : responder(isIPv6: isIPv6)
    }

    /// Matches packets in the direction of the flow's first packet, or with `false` those in the other direction.
    static func isOriginal(_ value: Bool) -> JSON { match(ct("direction"), value ? "original" : "reply") }

    /// The matches for the destination ports of a flow, one for the packets of each direction.
    static func bothWays(_ isKind: JSON, ports: JSON) -> [[JSON]] {
        [true, false].map { [isOriginal($0), isKind, match(payload("th", $0 ? "dport" : "sport"), ports)] }
    }

    /// An ICMP error about an existing flow.
    static let isError: [JSON] = [match(ct("state"), "related", "in"), match(meta("l4proto"), icmp)]

    static func marked(_ mark: UInt32) -> JSON { match(ct("mark"), .integer(mark)) }
    static func mark(_ mark: UInt32) -> JSON { ["mangle": ["key": ct("mark"), "value": .integer(mark)]] }

    /// The bit of a packet's mark that says that a server of this host forwards the packet.
    private static let serverBit: UInt32 = 0x2000_0000
    /// Marks a packet as one that a server forwards by its own rules, for the tables of the other servers.
    static let markAsServers: JSON = [
        "mangle": ["key": meta("mark"), "value": ["|": .array([meta("mark"), .integer(serverBit)])]]
    ]
    static let isServers = match(["&": .array([meta("mark"), .integer(serverBit)])], .integer(serverBit))

    static func ports(_ range: ClosedRange<UInt16>) -> JSON {
        range.count == 1
            ? .integer(range.lowerBound)
            : ["range": .array([.integer(range.lowerBound), .integer(range.upperBound)])]
    }

    /// The type of the destination in the routing table.
    static let destinationType: JSON = ["fib": ["result": "type", "flags": .array(["daddr"])]]

    static func prefix(_ prefix: IPPrefix) -> JSON {
        ["prefix": ["addr": .string(prefix.address.description), "len": .integer(prefix.length)]]
    }

    static func concatenation(_ parts: JSON...) -> JSON { ["concat": .array(parts)] }

    /// Whether the packet is the first one of its flow. (Of the other packets, the kernel knows the flow.)
    static let isFirst = match(["&": .array([ct("status"), "confirmed"])], .integer(0))

    /// Whether the rule has seen more flows than this that still exist. It counts the packet's flow.
    static func hasMoreFlows(than count: Int) -> JSON { ["ct count": ["val": .integer(count), "inv": true]] }

    /// Whether the source of the packet has more flows than this. The kernel holds the counts in a set with this name.
    static func hasMoreFlows(than count: Int, _ set: String, isIPv6: Bool) -> JSON {
        [
            "meter": [
                "name": .string(set), "size": .integer(1 << 20), "key": source(isIPv6: isIPv6),
                "stmt": hasMoreFlows(than: count),
            ]
        ]
    }

    static func any(_ values: [JSON]) -> JSON { ["set": .array(values)] }

    /// Matches any of these values. A single value needs no set.
    static func oneOf(_ values: [JSON]) -> JSON { values.count == 1 ? values[0] : any(values) }

    static func named(_ set: String) -> JSON { .string("@\(set)") }

    /// Applies the verdict of a map for a key. If the map has none, the next rule applies.
    static func verdict(_ key: JSON, _ map: JSON) -> JSON { ["vmap": ["key": key, "data": map]] }

    /// Matches the first packet of each direction of a TCP connection.
    static let isSyn = match(
        ["&": .array([payload("tcp", "flags"), .array(["syn", "rst"])])], "syn")

    /// Limits the segments that the receiver of the packet may send to `bytes`. The kernel never raises a lower limit.
    static func clampSegments(to bytes: Int) -> JSON {
        ["mangle": ["key": ["tcp option": ["name": "maxseg", "field": "size"]], "value": .integer(bytes)]]
    }

    /// The commands as one text for nft, which applies all of them or none.
    static func script(_ commands: [String]) -> String {
        #"{"nftables":["# + commands.joined(separator: ",") + "]}"
    }
}
