// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelLinux
import TunnelSystem

/// A firewall chain for a list of rules. Clients with the same list share it.
struct RuleChain: Sendable {
    /// The name. For a list of clients' rules, it contains a hash of the rules.
    let name: String
    /// The statements of each rule.
    let rules: [JSON]

    init(_ rules: [JSON]) {
        self.rules = rules
        name = FirewallTable.ownedChains + ContentHash(rules.map(\.line)).digits
    }

    init(name: String, _ rules: [JSON]) {
        self.name = name
        self.rules = rules
    }

    /// The commands that give the chain its rules and no others, even if another process has created a chain with its name.
    func made(in table: TableCommands) -> [String] {
        [table.chain(name).line, table.flush(chain: name).line] + ruleCommands(in: table)
    }

    /// The commands that add the rules to a chain without rules.
    func ruleCommands(in table: TableCommands) -> [String] { rules.map { table.rule(name, statements: $0).line } }

    /// The commands that remove the chain.
    func removed(from table: TableCommands) -> [String] {
        [table.flush(chain: name).line, table.delete(chain: name).line]
    }

    /// A copy with another name.
    var renamed: RuleChain { RuleChain(name: name + "-", rules) }
}

/// FNV-1a with 64 bits. It distinguishes lists of rules; it does not resist deliberate collisions.
struct ContentHash: Hashable, Sendable {
    private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

    init(_ parts: [String]) {
        for part in parts {
            for byte in part.utf8 { add(byte) }
            add(0)
        }
    }

    private mutating func add(_ byte: UInt8) {
        value = (value ^ UInt64(byte)) &* 0x100_0000_01b3
    }

    /// Sixteen hexadecimal digits.
    var digits: String {
        let text = String(value, radix: 16)
        return String(repeating: "0", count: 16 - text.utf8.count) + text
    }

    /// The mark of a connection, which has 32 bits. Zero means that the connection has no mark.
    var mark: UInt32 {
        let mark = UInt32(truncatingIfNeeded: value ^ value >> 32)
        return mark == 0 ? 1 : mark
    }
}

extension AccessRule {
    /// The matches of nftables for this rule, one list of expressions for each family and direction. A packet matches a list
    /// if it matches all of its expressions.
    ///
    /// A match does not depend on the packet's direction, so a later packet gets the same result as the first packet of its
    /// flow. The destination of a flow is the source of its responses; this is also right if the address was translated.
    var matches: [[JSON]] { peers.flatMap { peer in ways.map { peer + $0 } } }

    private var peers: [[JSON]] {
        guard !networks.isEmpty else { return [[]] }
        return [false, true].compactMap { isIPv6 in
            let prefixes = Self.distinct(networks.filter { $0.isIPv6 == isIPv6 })
            guard let first = prefixes.first else { return nil }
            if first.length == 0 { return [NFT.match(NFT.meta("nfproto"), isIPv6 ? "ipv6" : "ipv4")] }
            let peer = direction == .in ? NFT.originator(isIPv6: isIPv6) : NFT.responder(isIPv6: isIPv6)
            return [NFT.match(peer, NFT.oneOf(prefixes.map(NFT.prefix)))]
        }
    }

    /// The matches for transport and ports.
    private var ways: [[JSON]] {
        let kind: JSON? =
            switch transport {
            case .any: ports.isEmpty ? nil : NFT.withPorts
            case .tcp: "tcp"
            case .udp: "udp"
            case .icmp: NFT.icmp
            }
        guard let kind else { return [[]] }
        let isKind = NFT.match(NFT.meta("l4proto"), kind)
        guard !ports.isEmpty else { return [[isKind]] }
        return NFT.bothWays(isKind, ports: NFT.oneOf(Self.merged(ports).map(NFT.ports)))
    }

    /// Returns the networks that no other one in the list contains.
    static func distinct(_ networks: [IPPrefix]) -> [IPPrefix] {
        var kept: [IPPrefix] = []
        for network in networks.sorted(by: { $0.length < $1.length }) {
            if !kept.contains(where: { $0.contains(network) }) { kept.append(network) }
        }
        return kept
    }

    /// Joins ranges that overlap or are adjacent, and returns the result in ascending order.
    static func merged(_ ports: [ClosedRange<UInt16>]) -> [ClosedRange<UInt16>] {
        var merged: [ClosedRange<UInt16>] = []
        for range in ports.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if let last = merged.last, Int(range.lowerBound) <= Int(last.upperBound) + 1 {
                merged[merged.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
            } else {
                merged.append(range)
            }
        }
        return merged
    }
}
