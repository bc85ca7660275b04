// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

/// An expression of a rule in the kernel. A statement of nft is one or more of them.
///
/// nft lists the expressions like those that it makes itself (`nft --debug=netlink`). Source of the numbers:
/// linux/netfilter/nf_tables.h.
package struct KernelExpression: Hashable, Sendable {
    /// The attributes with the expression's name and parameters.
    package let bytes: [UInt8]

    package init(_ name: String, _ parameters: [NetlinkRequest.Attribute] = []) {
        bytes = NetlinkRequest.attributes(
            (1, NetlinkRequest.text(name)), (2 | Netlink.nested, NetlinkRequest.attributes(parameters)))
    }

    /// An expression that loads a field into the register.
    package init(loading name: String, _ parameters: [NetlinkRequest.Attribute]) {
        self.init(name, [(1, Self.register)] + parameters)
    }

    /// The register that a rule's matches use.
    private static let register = number(1)

    // MARK: - Verdicts

    /// Verdicts, by their numbers in linux/netfilter.h and nf_tables.h.
    package enum Verdict: Int32 {
        case drop = 0
        case accept = 1
        case jump = -3
        case goto = -4
        case back = -5
    }

    /// Returns the value of a verdict.
    package static func value(_ verdict: Verdict, _ chain: String? = nil) -> [UInt8] {
        let code = NetlinkRequest.attributes((1, number(UInt32(bitPattern: verdict.rawValue))))
        let target = chain.map { NetlinkRequest.attributes((2, NetlinkRequest.text($0))) } ?? []
        return NetlinkRequest.attributes((2 | Netlink.nested, code + target))
    }

    package static func verdict(_ kind: Verdict, _ chain: String? = nil) -> KernelExpression {
        // Register 0 holds the verdict.
        KernelExpression("immediate", [(1, number(0)), (2 | Netlink.nested, value(kind, chain))])
    }

    // MARK: - Matches

    package enum Comparison: UInt32 { case equal, unequal, less, atMost, greater, atLeast }

    package static func comparison(_ kind: Comparison, _ value: [UInt8]) -> KernelExpression {
        KernelExpression("cmp", [(1, register), (2, number(kind.rawValue)), (3 | Netlink.nested, data(value))])
    }

    package static func masked(by mask: [UInt8]) -> KernelExpression {
        KernelExpression(
            "bitwise",
            [
                (1, register), (2, register), (3, number(UInt32(mask.count))), (4 | Netlink.nested, data(mask)),
                (5 | Netlink.nested, data(mask.map { _ in 0 })),
            ])
    }

    /// Looks up the register in a set.
    package static func lookup(in set: String, isInverted: Bool) -> KernelExpression {
        var parameters: [NetlinkRequest.Attribute] = [(1, NetlinkRequest.text(set)), (2, register)]
        // `NFT_LOOKUP_F_INV`.
        if isInverted { parameters.append((5, number(1))) }
        return KernelExpression("lookup", parameters)
    }

    // MARK: - Fields

    /// The keys of `meta` that rules use.
    package enum MetaKey: UInt32 {
        case mark = 3
        case inputInterface = 6
        case family = 15
        case transport = 16
    }

    package static func meta(_ key: MetaKey) -> KernelExpression { loading("meta", key.rawValue) }

    /// The keys of `ct` that rules use.
    package enum ConnectionKey: UInt32 {
        case state = 0
        case direction = 1
        case mark = 3
    }

    package static func connection(_ key: ConnectionKey) -> KernelExpression { loading("ct", key.rawValue) }

    /// A part of a packet, from the start of a header.
    package enum Header: UInt32 { case network = 1, transport }

    package static func payload(_ header: Header, offset: UInt32, length: UInt32) -> KernelExpression {
        loading("payload", header.rawValue, offset, length)
    }

    /// The type of an address in the routing table (`NFT_FIB_RESULT_ADDRTYPE`).
    package static func addressType(ofSource isSource: Bool) -> KernelExpression {
        loading("fib", 3, isSource ? 1 : 2)
    }

    private static func loading(_ name: String, _ numbers: UInt32...) -> KernelExpression {
        KernelExpression(
            loading: name, numbers.enumerated().map { (UInt16($0.offset + 2), number($0.element)) })
    }

    // MARK: - Marks

    /// Sets the mark of the packet, or of its connection.
    package static func setMark(_ mark: UInt32, ofConnection: Bool) -> [KernelExpression] {
        let value = KernelExpression(
            "immediate", [(1, register), (2 | Netlink.nested, data(NetlinkRequest.bytes(mark)))])
        return [
            value,
            ofConnection
                ? KernelExpression("ct", [(2, number(ConnectionKey.mark.rawValue)), (4, register)])
                : KernelExpression("meta", [(2, number(MetaKey.mark.rawValue)), (3, register)]),
        ]
    }

    /// Returns the marks of packets or connections that a rule compares or sets, from the list of its expressions.
    static func marks(in expressions: [UInt8]) -> Set<UInt32> {
        var marks: Set<UInt32> = []
        var isMarkLoaded = false
        var immediate: UInt32?
        NetlinkReader(bytes: expressions).forEachAttribute(from: 0) { _, bytes in
            let expression = NetlinkReader(bytes: bytes).attributes(from: 0)
            guard let parameters = expression.nested(2) else { return }
            var mark: UInt32?
            switch expression.text(1) {
            // Both have a destination register if they load a field, and the same number for the mark.
            case "meta", "ct":
                let isMark = parameters.number(2) == MetaKey.mark.rawValue.bigEndian
                isMarkLoaded = isMark && parameters[1] != nil
                if isMark, parameters[1] == nil { mark = immediate }
            case "cmp": if isMarkLoaded { mark = parameters.nested(3)?.number(1) }
            case "immediate": immediate = parameters.nested(2)?.number(1)
            default: isMarkLoaded = false
            }
            if let mark, mark != 0 { marks.insert(mark) }
        }
        return marks
    }

    // MARK: - Values

    private static func data(_ value: [UInt8]) -> [UInt8] { NetlinkRequest.attributes((1, value)) }

    /// A parameter of 32 bits, which is big-endian.
    package static func number(_ value: UInt32) -> [UInt8] { NetlinkRequest.bytes(value.bigEndian) }
}

extension NetlinkRequest {
    package typealias Attribute = (kind: UInt16, value: [UInt8])

    /// Returns attributes without a message.
    package static func attributes(_ list: [Attribute]) -> [UInt8] {
        var request = NetlinkRequest(type: 0, body: [])
        for (kind, value) in list { request.append(kind, value) }
        return request.body
    }

    package static func attributes(_ list: Attribute...) -> [UInt8] { attributes(list) }

    /// Returns a text with its final zero.
    package static func text(_ text: String) -> [UInt8] { Array(text.utf8) + [0] }
}

extension FirewallMessage {
    /// Returns a request about a part of a table of the family `inet`.
    package static func request(
        _ type: UInt16, _ flags: UInt16 = 0, table: String, _ attributes: [NetlinkRequest.Attribute] = []
    ) -> NetlinkRequest {
        var request = NetlinkRequest(type: type, flags: flags, body: header)
        request.append(1, table)
        for (kind, value) in attributes { request.append(kind, value) }
        return request
    }

    /// Returns a request that appends a rule to a chain.
    package static func newRule(
        table: String, chain: String, _ expressions: [KernelExpression]
    ) -> NetlinkRequest {
        let list = expressions.flatMap { NetlinkRequest.attributes((1 | Netlink.nested, $0.bytes)) }
        return request(
            newRule, Netlink.create | Netlink.append, table: table,
            [(2, NetlinkRequest.text(chain)), (4 | Netlink.nested, list)])
    }
}
