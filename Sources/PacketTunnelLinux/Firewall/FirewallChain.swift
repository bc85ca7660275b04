// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
package import NetworkAddresses
import TunnelSystem

/// A chain of rules that the kernel calls for arriving or leaving packets. Its table can be loaded by messages to the
/// kernel, which takes less than a millisecond; the start of nft takes several.
package struct FirewallChain: Hashable, Sendable {
    /// The hooks, by their numbers in linux/netfilter.h.
    package enum Hook: UInt32, Sendable {
        case prerouting = 0
        case postrouting = 4
    }

    /// The priorities, by their numbers in linux/netfilter_ipv4.h.
    package enum Priority: Int32, Sendable {
        case raw = -300
        case mangle = -150
    }

    /// A part of a rule: a condition or an action.
    package enum Statement: Hashable, Sendable {
        case doesNotArrive(at: String)
        case destination(IPAddress)
        case sourceIsNotOfHost
        case isUDP
        case hasMark(UInt32)
        case connectionHasMark(UInt32)
        case setMark(UInt32)
        case setConnectionMark(UInt32)
        case drop
    }

    var name: String
    var hook: Hook
    var priority: Priority
    var rules: [[Statement]]

    // MARK: - As text

    /// The chain in a table's body, as nft(8) has it.
    var text: String {
        let rules = rules.map { $0.map(\.text).joined(separator: " ") }
        return Self.text(name, ["type filter hook \(hook) priority \(priority); policy accept;"] + rules)
    }

    static func text(_ name: String, _ lines: [String]) -> String {
        "  chain \(name) {\n" + lines.map { "    \($0)\n" }.joined() + "  }\n"
    }

    // MARK: - As messages

    /// Returns the messages that add the chain to a table.
    func requests(table: String) -> [NetlinkRequest] {
        let place = NetlinkRequest.attributes(
            (1, KernelExpression.number(hook.rawValue)),
            (2, KernelExpression.number(UInt32(bitPattern: priority.rawValue))))
        let chain = FirewallMessage.request(
            FirewallMessage.newChain, Netlink.create, table: table,
            [
                (3, NetlinkRequest.text(name)), (4 | Netlink.nested, place), (5, KernelExpression.number(Self.accept)),
                (7, NetlinkRequest.text("filter")),
            ])
        return [chain]
            + rules.map { FirewallMessage.newRule(table: table, chain: name, $0.flatMap(\.expressions)) }
    }

    /// `NF_ACCEPT`, the policy.
    private static let accept: UInt32 = 1
}

extension FirewallChain.Statement {
    fileprivate var text: String {
        switch self {
        case .doesNotArrive(let interface): "iifname != \"\(interface)\""
        case .destination(let address): "\(address.isIPv6 ? "ip6" : "ip") daddr \(address)"
        case .sourceIsNotOfHost: "fib saddr type != local"
        case .isUDP: "meta l4proto udp"
        case .hasMark(let mark): "meta mark \(mark)"
        case .connectionHasMark(let mark): "ct mark \(mark)"
        case .setMark(let mark): "meta mark set \(mark)"
        case .setConnectionMark(let mark): "ct mark set \(mark)"
        case .drop: "drop"
        }
    }

    fileprivate var expressions: [KernelExpression] {
        switch self {
        case .doesNotArrive(let interface):
            [.meta(.inputInterface), .comparison(.unequal, Self.padded(interface))]
        case .destination(let address):
            [
                .meta(.family), .comparison(.equal, [UInt8(address.isIPv6 ? AF_INET6 : AF_INET)]),
                .payload(.network, offset: address.isIPv6 ? 24 : 16, length: UInt32(address.bytes.count)),
                .comparison(.equal, address.bytes),
            ]
        case .sourceIsNotOfHost:
            // `RTN_LOCAL`.
            [.addressType(ofSource: true), .comparison(.unequal, NetlinkRequest.bytes(UInt32(2)))]
        case .isUDP: [.meta(.transport), .comparison(.equal, [UInt8(IPPROTO_UDP)])]
        case .hasMark(let mark): [.meta(.mark), .comparison(.equal, NetlinkRequest.bytes(mark))]
        case .connectionHasMark(let mark): [.connection(.mark), .comparison(.equal, NetlinkRequest.bytes(mark))]
        case .setMark(let mark): KernelExpression.setMark(mark, ofConnection: false)
        case .setConnectionMark(let mark): KernelExpression.setMark(mark, ofConnection: true)
        case .drop: [.verdict(.drop)]
        }
    }

    /// The name of an interface as the kernel compares it: `IFNAMSIZ` bytes.
    private static func padded(_ name: String) -> [UInt8] {
        Array((Array(name.utf8) + [UInt8](repeating: 0, count: 16)).prefix(16))
    }
}
