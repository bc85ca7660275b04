// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// A policy rule: it selects the routing table for some packets (ip-rule(8)).
package struct PolicyRule: Hashable, Sendable, Codable, CustomStringConvertible {
    /// Whether the rule is for IPv6 rather than IPv4.
    package var isIPv6: Bool
    /// The preference: the kernel evaluates rules in ascending order.
    package var priority: UInt32
    /// The table to search; 0 if the rule refuses packets (``isProhibition``).
    package var table: UInt32
    /// The mark of the packets that the rule selects; `nil` for all packets.
    package var mark: UInt32?
    /// Whether the rule selects the packets without the mark instead.
    package var isInverted: Bool
    /// The prefix length up to which matches in the table are ignored; `nil` to ignore none.
    package var suppressedPrefixLength: UInt32?
    /// Whether the rule refuses packets instead of searching a table.
    package var isProhibition = false

    package init(
        isIPv6: Bool, priority: UInt32, table: UInt32, mark: UInt32? = nil, isInverted: Bool = false,
        suppressedPrefixLength: UInt32? = nil
    ) {
        self.isIPv6 = isIPv6
        self.priority = priority
        self.table = table
        self.mark = mark
        self.isInverted = isInverted
        self.suppressedPrefixLength = suppressedPrefixLength
    }

    /// Returns a rule that refuses the packets of a family without the mark, if no earlier rule routes them.
    static func prohibition(isIPv6: Bool, priority: UInt32, mark: UInt32) -> PolicyRule {
        var rule = PolicyRule(isIPv6: isIPv6, priority: priority, table: 0, mark: mark, isInverted: true)
        rule.isProhibition = true
        return rule
    }

    package var description: String {
        var text = "\(isIPv6 ? "IPv6" : "IPv4") rule \(priority):"
        if let mark { text += "\(isInverted ? " not" : "") mark \(mark)" }
        text += isProhibition ? " prohibit" : " table \(table)"
        if let suppressedPrefixLength { text += " suppress_prefixlength \(suppressedPrefixLength)" }
        return text
    }

    /// Attribute kinds and numbers, by their names in linux/fib_rules.h.
    private enum Attribute {
        static let priority: UInt16 = 6
        static let mark: UInt16 = 10
        static let suppressedPrefixLength: UInt16 = 14
        static let table: UInt16 = 15
        static let mask: UInt16 = 16
        static let protocolNumber: UInt16 = 21
    }

    /// The attributes that this type reads. A rule with any other attribute belongs to another program.
    private static let known: Set<UInt16> = [
        Attribute.priority, Attribute.mark, Attribute.suppressedPrefixLength, Attribute.table, Attribute.mask,
        Attribute.protocolNumber, 13,
    ]
    private static let fixedLength = 12
    private static let inverted: UInt32 = 2
    private static let toTable: UInt8 = 1
    private static let noAction: UInt8 = 3
    private static let prohibit: UInt8 = 8
    /// The rule of VRF devices, `FRA_L3MDEV`. A tunnel does not take their packets.
    private static let vrfDevice: UInt16 = 19
    /// Conditions other than addresses and the mark: interfaces, tunnel ID, users, protocol and ports.
    private static let conditions: Set<UInt16> = [3, 12, 17, 20, 22, 23, 24]

    /// The message that makes or deletes the rule.
    func request(type: UInt16, flags: UInt16) -> NetlinkRequest {
        var request = NetlinkRequest(
            type: type, flags: flags,
            body: [
                UInt8(isIPv6 ? AF_INET6 : AF_INET), 0, 0, 0, UInt8(table < 256 ? table : 0), 0, 0,
                isProhibition ? Self.prohibit : Self.toTable,
            ] + NetlinkRequest.bytes(isInverted ? Self.inverted : 0))
        request.append(Attribute.priority, priority)
        request.append(Attribute.table, table)
        if let mark {
            request.append(Attribute.mark, mark)
            request.append(Attribute.mask, UInt32.max)
        }
        if let suppressedPrefixLength {
            request.append(Attribute.suppressedPrefixLength, suppressedPrefixLength)
        }
        return request
    }

    /// A rule that the kernel listed, and whether this type describes it completely.
    struct Found: Hashable {
        var rule: PolicyRule
        var isWhole: Bool
        /// Whether the rule may divert packets from later rules: it searches a table other than that of the host's own
        /// addresses, continues at another rule, or refuses packets.
        var divertsPackets: Bool
        /// Whether the rule applies to all packets, or to all without a mark.
        var isForAllPackets: Bool
    }

    /// Parses a message of type `RTM_NEWRULE`. Returns `nil` if the rule is not for IPv4 or IPv6.
    static func parse(_ body: [UInt8]) -> Found? {
        let reader = NetlinkReader(bytes: body)
        guard body.count >= fixedLength, let family = reader.number(at: 0, as: UInt8.self),
            let shortTable = reader.number(at: 4, as: UInt8.self),
            let action = reader.number(at: 7, as: UInt8.self),
            let flags = reader.number(at: 8, as: UInt32.self),
            family == UInt8(AF_INET) || family == UInt8(AF_INET6)
        else { return nil }
        let attributes = reader.attributes(from: fixedLength)
        let suppressed = attributes.number(Attribute.suppressedPrefixLength)
        let mask = attributes.number(Attribute.mask)
        var rule = PolicyRule(
            isIPv6: family == UInt8(AF_INET6), priority: attributes.number(Attribute.priority) ?? 0,
            table: attributes.number(Attribute.table) ?? UInt32(shortTable),
            mark: attributes.number(Attribute.mark), isInverted: flags & inverted != 0,
            // The kernel encodes "none" as -1.
            suppressedPrefixLength: suppressed == .max ? nil : suppressed)
        rule.isProhibition = action == prohibit
        let lengths = body[1] | body[2] | body[3]
        let isWhole =
            (action == toTable || action == prohibit) && lengths == 0 && known.isSuperset(of: attributes.keys)
            && (mask == nil || mask == .max)
        let isVRF = attributes[vrfDevice].map { $0.contains { $0 != 0 } } ?? false
        let isForAllPackets =
            lengths == 0 && conditions.isDisjoint(with: attributes.keys) && (rule.mark == nil) != rule.isInverted
        return Found(
            rule: rule, isWhole: isWhole,
            divertsPackets: action != noAction && !isVRF && !(action == toTable && rule.table == Route.localTable),
            isForAllPackets: isForAllPackets)
    }
}
