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

    /// A chain that others jump to.
    func chain(_ name: String) -> JSON { command("add", "chain", [("name", .string(name))]) }

    /// A chain that the kernel calls.
    func chain(_ name: String, _ hook: String, type: String = "filter", priority: Int) -> JSON {
        command(
            "add", "chain",
            [
                ("name", .string(name)), ("type", .string(type)), ("hook", .string(hook)),
                ("prio", .integer(priority)), ("policy", "accept"),
            ])
    }

    /// A set of networks.
    func set(_ name: String, _ prefixes: [IPPrefix], isIPv6: Bool) -> JSON {
        var members: [(String, JSON)] = [
            ("name", .string(name)), ("type", isIPv6 ? "ipv6_addr" : "ipv4_addr"), ("flags", .array(["interval"])),
            ("auto-merge", true),
        ]
        if !prefixes.isEmpty { members.append(("elem", .array(prefixes.map(NFT.prefix)))) }
        return command("add", "set", members)
    }

    /// A map from addresses to verdicts.
    func verdictMap(_ name: String, isIPv6: Bool) -> JSON {
        command(
            "add", "map",
            [
                ("name", .string(name)), ("type", isIPv6 ? "ipv6_addr" : "ipv4_addr"), ("map", "verdict"),
            ])
    }

    /// Entries of a map of verdicts: each packet from one of these addresses goes to the chain.
    ///
    /// Text at once, since there may be many.
    /// - Parameter verb: `add` or `delete`.
    func elements(_ verb: String, _ map: String, _ entries: [(address: IPAddress, chain: String)]) -> String {
        var text =
            #"{"\#(verb)":{"element":{"family":"inet","table":"\#(table)","name":"\#(map)","elem":["#
        for (index, entry) in entries.enumerated() {
            if index > 0 { text += "," }
            text += #"[""# + entry.address.description + #"",{"goto":{"target":""# + entry.chain + #""}}]"#
        }
        return text + "]}}}"
    }

    /// Takes all entries out of a map.
    func flush(_ map: String) -> JSON { command("flush", "map", [("name", .string(map))]) }

    func rule(_ chain: String, _ statements: JSON...) -> JSON {
        command("add", "rule", [("chain", .string(chain)), ("expr", .array(statements))])
    }
}

/// Expressions and statements of nftables.
enum NFT {
    static let accept: JSON = ["accept": .null]
    static let drop: JSON = ["drop": .null]
    static let counter: JSON = ["counter": .null]
    static let masquerade: JSON = ["masquerade": .null]
    /// An error message that says that an administrator does not want it.
    static let reject: JSON = ["reject": ["type": "icmpx", "expr": "admin-prohibited"]]

    static func goto(_ chain: String) -> JSON { ["goto": ["target": .string(chain)]] }

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

    /// What kind of destination the routing table says that it is.
    static let destinationType: JSON = ["fib": ["result": "type", "flags": .array(["daddr"])]]

    static func prefix(_ prefix: IPPrefix) -> JSON {
        ["prefix": ["addr": .string(prefix.address.description), "len": .integer(prefix.length)]]
    }

    static func any(_ values: [JSON]) -> JSON { ["set": .array(values)] }

    static func named(_ set: String) -> JSON { .string("@\(set)") }

    /// The verdict that a map has for a key; the next rule where it has none.
    static func verdict(_ key: JSON, _ map: JSON) -> JSON { ["vmap": ["key": key, "data": map]] }

    /// A new connection's first packets.
    static let isSyn = match(
        ["&": .array([payload("tcp", "flags"), .array(["syn", "rst"])])], "syn")

    /// Makes the segments that the other side may send no longer than this. The kernel never makes them longer.
    static func clampSegments(to bytes: Int) -> JSON {
        ["mangle": ["key": ["tcp option": ["name": "maxseg", "field": "size"]], "value": .integer(bytes)]]
    }

    /// All commands in one piece of text for nft, carried out together or not at all.
    static func script(_ commands: [String]) -> String {
        #"{"nftables":["# + commands.joined(separator: ",") + "]}"
    }
}
