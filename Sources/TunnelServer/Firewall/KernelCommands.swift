// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelLinux
import TunnelSystem

/// Commands for nft as messages to the kernel, for small changes of clients.
///
/// nft reads all chains before each change, and the end of its process waits for the kernel's cleanup: among 10,000
/// clients that takes longer than the change itself.
///
/// nft lists the expressions like those that it makes itself (`nft --debug=netlink`). Source of the numbers:
/// linux/netfilter/nf_tables.h.
struct KernelCommands {
    private(set) var requests: [NetlinkRequest] = []

    /// The most bytes of commands. For a larger change, nft's own time does not matter.
    private static let mostBytes = 16_384

    /// - Parameter hostSets: The sets and maps of addresses or pairs of addresses. The kernel has other sets as intervals.
    /// - Returns: `nil` for a change that only nft can make: a large one, or one with a set of networks or ports.
    init?(_ commands: [String], hostSets: Set<String>) {
        guard commands.reduce(0, { $0 + $1.utf8.count }) <= Self.mostBytes else { return nil }
        for command in commands {
            guard let json = try? JSON.read(Array(command.utf8)), let verb = Self.onlyMember(json),
                let object = Self.onlyMember(verb.value), object.value["family"] == "inet",
                let table = object.value["table"]?.string,
                let request = Self.request(verb.name, object.name, of: table, object.value, hostSets)
            else { return nil }
            requests.append(request)
        }
    }

    private static func onlyMember(_ json: JSON) -> JSON.Member? {
        guard case .object(let members) = json, members.count == 1 else { return nil }
        return members[0]
    }

    private static func request(
        _ verb: String, _ kind: String, of table: String, _ object: JSON, _ hostSets: Set<String>
    ) -> NetlinkRequest? {
        func request(
            _ type: UInt16, _ flags: UInt16 = 0, _ attributes: [KernelExpression.Attribute]
        ) -> NetlinkRequest {
            var request = NetlinkRequest(type: type, flags: flags, body: FirewallMessage.header)
            request.append(1, table)
            for (kind, value) in attributes { request.append(kind, value) }
            return request
        }
        let name = object["name"]?.string.map(text)
        switch (verb, kind) {
        case ("add", "chain"):
            guard let name, object["hook"] == nil else { return nil }
            return request(FirewallMessage.newChain, Netlink.create, [(3, name)])
        case ("delete", "chain"):
            return name.map { request(FirewallMessage.deleteChain, 0, [(3, $0)]) }
        case ("flush", "chain"):
            return name.map { request(FirewallMessage.deleteRule, 0, [(2, $0)]) }
        case ("add", "rule"):
            guard let chain = object["chain"]?.string, let statements = object["expr"]?.list else { return nil }
            var expressions: [UInt8] = []
            for statement in statements {
                guard let list = KernelExpression.list(statement) else { return nil }
                for expression in list { expressions += attributes((1 | Netlink.nested, expression.bytes)) }
            }
            return request(
                FirewallMessage.newRule, Netlink.create | Netlink.append,
                [(2, text(chain)), (4 | Netlink.nested, expressions)])
        case ("add", "element"), ("delete", "element"):
            guard let set = object["name"]?.string, hostSets.contains(set), let list = object["elem"]?.list else {
                return nil
            }
            var elements: [UInt8] = []
            for item in list {
                guard let element = element(item) else { return nil }
                elements += attributes((1 | Netlink.nested, element))
            }
            let isNew = verb == "add"
            return request(
                isNew ? FirewallMessage.newElement : FirewallMessage.deleteElement, isNew ? Netlink.create : 0,
                [(2, text(set)), (3 | Netlink.nested, elements)])
        default: return nil
        }
    }

    /// `"10.66.0.2"`, `{"concat": ["10.66.0.2", "10.66.0.3"]}`, or `["10.66.0.2", {"goto": {"target": "client"}}]`.
    private static func element(_ item: JSON) -> [UInt8]? {
        if let pair = item.list {
            guard pair.count == 2, let key = key(pair[0]), let chain = pair[1]["goto"]?["target"]?.string else {
                return nil
            }
            return key + attributes((2 | Netlink.nested, KernelExpression.verdict(.goto, chain)))
        }
        return key(item)
    }

    private static func key(_ item: JSON) -> [UInt8]? {
        var bytes: [UInt8] = []
        for part in item["concat"]?.list ?? [item] {
            guard let address = part.string.flatMap({ try? IPAddress($0) }) else { return nil }
            bytes += address.bytes
        }
        return attributes((1 | Netlink.nested, attributes((1, bytes))))
    }

    fileprivate static func attributes(_ list: KernelExpression.Attribute...) -> [UInt8] {
        NetlinkRequest(list).body
    }

    fileprivate static func text(_ text: String) -> [UInt8] { Array(text.utf8) + [0] }
}

extension NetlinkRequest {
    /// Attributes without a message.
    fileprivate init(_ attributes: [KernelExpression.Attribute]) {
        self.init(type: 0, body: [])
        for (kind, value) in attributes { append(kind, value) }
    }
}

/// An expression of a rule in the kernel. A statement of nft is one or more of them.
struct KernelExpression {
    /// The attributes with the expression's name and parameters.
    let bytes: [UInt8]

    fileprivate init(_ name: String, _ parameters: [Attribute] = []) {
        bytes = KernelCommands.attributes(
            (1, KernelCommands.text(name)), (2 | Netlink.nested, NetlinkRequest(parameters).body))
    }

    /// An expression that loads a field into the register.
    fileprivate init(loading name: String, _ parameters: [Attribute]) {
        self.init(name, [(1, Self.register)] + parameters)
    }

    fileprivate typealias Attribute = (kind: UInt16, value: [UInt8])

    // MARK: - Statements

    /// - Returns: `nil` for a statement that no small change has.
    static func list(_ statement: JSON) -> [KernelExpression]? {
        switch statement {
        case NFT.accept: return [immediate(.accept)]
        case NFT.drop: return [immediate(.drop)]
        case NFT.back: return [immediate(.back)]
        case NFT.counter: return [KernelExpression("counter")]
        default: break
        }
        if let match = statement["match"] { return list(of: match) }
        if let chain = statement["goto"]?["target"]?.string { return [immediate(.goto, chain)] }
        if let chain = statement["jump"]?["target"]?.string { return [immediate(.jump, chain)] }
        guard let mark = statement["mangle"], mark["key"] == NFT.ct("mark"), case .integer(let value)? = mark["value"]
        else { return nil }
        return [
            KernelExpression("immediate", [(1, register), (2 | Netlink.nested, data(hostOrder(value)))]),
            KernelExpression("ct", [(2, number(3)), (4, register)]),
        ]
    }

    private static func list(of match: JSON) -> [KernelExpression]? {
        guard let operation = match["op"]?.string, let field = match["left"].flatMap(KernelField.init),
            let right = match["right"]
        else { return nil }
        let isEqual = operation == "=="
        if operation == "in" {
            guard let bits = field.value(right) else { return nil }
            return [field.load, masked(by: bits), comparison(.unequal, bits.map { _ in 0 })]
        }
        guard isEqual || operation == "!=" else { return nil }
        if let set = right.string, set.first == "@" {
            var lookup: [Attribute] = [(1, KernelCommands.text(String(set.dropFirst()))), (2, register)]
            // `NFT_LOOKUP_F_INV`.
            if !isEqual { lookup.append((5, number(1))) }
            return [field.load, KernelExpression("lookup", lookup)]
        }
        if let prefix = right["prefix"] {
            guard let address = prefix["addr"]?.string, case .integer(let length)? = prefix["len"],
                let network = try? IPPrefix("\(address)/\(length)"), network.length > 0,
                network.address.bytes.count == field.width
            else { return nil }
            let bytes = network.address.bytes
            // nft before 0.9.8 cannot list a comparison of fewer bytes than the field has.
            let mask = bytes.indices.map { index in
                UInt8(truncatingIfNeeded: 0xff00 >> min(max(network.length - 8 * index, 0), 8))
            }
            return [field.load, masked(by: mask), comparison(isEqual ? .equal : .unequal, bytes)]
        }
        if let range = right["range"]?.list {
            guard isEqual, range.count == 2, let first = field.value(range[0]), let last = field.value(range[1]) else {
                return nil
            }
            return [field.load, comparison(.atLeast, first), comparison(.atMost, last)]
        }
        return field.value(right).map { [field.load, comparison(isEqual ? .equal : .unequal, $0)] }
    }

    // MARK: - Expressions

    /// Verdicts, by their numbers in linux/netfilter.h and nf_tables.h.
    enum Verdict: Int32 {
        case drop = 0
        case accept = 1
        case jump = -3
        case goto = -4
        case back = -5
    }

    /// The value of a verdict.
    static func verdict(_ verdict: Verdict, _ chain: String? = nil) -> [UInt8] {
        let code = KernelCommands.attributes((1, number(UInt32(bitPattern: verdict.rawValue))))
        let target = chain.map { KernelCommands.attributes((2, KernelCommands.text($0))) } ?? []
        return KernelCommands.attributes((2 | Netlink.nested, code + target))
    }

    private static func immediate(_ kind: Verdict, _ chain: String? = nil) -> KernelExpression {
        // Register 0 holds the verdict.
        KernelExpression("immediate", [(1, number(0)), (2 | Netlink.nested, verdict(kind, chain))])
    }

    private enum Comparison: UInt32 { case equal, unequal, less, atMost, greater, atLeast }

    private static func comparison(_ kind: Comparison, _ value: [UInt8]) -> KernelExpression {
        KernelExpression("cmp", [(1, register), (2, number(kind.rawValue)), (3 | Netlink.nested, data(value))])
    }

    private static func masked(by mask: [UInt8]) -> KernelExpression {
        KernelExpression(
            "bitwise",
            [
                (1, register), (2, register), (3, number(UInt32(mask.count))), (4 | Netlink.nested, data(mask)),
                (5 | Netlink.nested, data(mask.map { _ in 0 })),
            ])
    }

    // MARK: - Values

    /// The register that a rule's matches use.
    private static let register = number(1)

    private static func data(_ value: [UInt8]) -> [UInt8] { KernelCommands.attributes((1, value)) }

    /// A parameter of 32 bits, which is big-endian.
    fileprivate static func number(_ value: UInt32) -> [UInt8] { NetlinkRequest.bytes(value.bigEndian) }

    fileprivate static func hostOrder(_ value: Int64) -> [UInt8] {
        NetlinkRequest.bytes(UInt32(truncatingIfNeeded: value))
    }
}

/// The left side of a match: a field of the packet or of its connection.
private struct KernelField {
    /// Loads the field into the register.
    let load: KernelExpression
    /// The number of bytes.
    let width: Int
    /// Whether the field has the byte order of the network, and not that of the host.
    private let isBigEndian: Bool

    init?(_ left: JSON) {
        func load(_ name: String, _ numbers: UInt32...) -> KernelExpression {
            KernelExpression(
                loading: name,
                numbers.enumerated().map { (UInt16($0.offset + 2), KernelExpression.number($0.element)) })
        }
        func connection(_ key: UInt32) -> KernelExpression { load("ct", key) }
        func meta(_ key: UInt32) -> KernelExpression { load("meta", key) }
        // `NFT_PAYLOAD_TRANSPORT_HEADER`, the offset, and the length.
        func port(_ offset: UInt32) -> KernelExpression { load("payload", 2, offset, 2) }
        switch left {
        case NFT.ct("state"): (self.load, width, isBigEndian) = (connection(0), 4, false)
        case NFT.ct("direction"): (self.load, width, isBigEndian) = (connection(1), 1, false)
        case NFT.ct("mark"): (self.load, width, isBigEndian) = (connection(3), 4, false)
        case NFT.meta("nfproto"): (self.load, width, isBigEndian) = (meta(15), 1, false)
        case NFT.meta("l4proto"): (self.load, width, isBigEndian) = (meta(16), 1, false)
        case NFT.payload("th", "sport"): (self.load, width, isBigEndian) = (port(0), 2, true)
        case NFT.payload("th", "dport"): (self.load, width, isBigEndian) = (port(2), 2, true)
        case NFT.destinationType:
            // `NFT_FIB_RESULT_ADDRTYPE` of `NFTA_FIB_F_DADDR`.
            self.load = load("fib", 3, 2)
            (width, isBigEndian) = (4, false)
        default:
            for isIPv6 in [false, true] {
                for isOriginal in [true, false] where left == NFT.endpoint(isIPv6: isIPv6, isOriginal: isOriginal) {
                    // `NFT_CT_SRC_IP` and `NFT_CT_SRC_IP6`.
                    self.load = KernelExpression(
                        loading: "ct", [(2, KernelExpression.number(isIPv6 ? 21 : 19)), (3, [isOriginal ? 0 : 1])])
                    (width, isBigEndian) = (isIPv6 ? 16 : 4, true)
                    return
                }
            }
            return nil
        }
    }

    /// The names of values, which differ between fields.
    private static let names: [String: Int64] = [
        "related": 4, "original": 0, "reply": 1, "ipv4": 2, "ipv6": 10, "tcp": 6, "udp": 17, "local": 2,
    ]

    /// The bytes of a number or a name.
    func value(_ json: JSON) -> [UInt8]? {
        let number: Int64
        if case .integer(let value) = json {
            number = value
        } else if let value = json.string.flatMap({ Self.names[$0] }) {
            number = value
        } else {
            return nil
        }
        switch width {
        case 1: return [UInt8(truncatingIfNeeded: number)]
        case 2: return NetlinkRequest.bytes(UInt16(truncatingIfNeeded: number).bigEndian)
        case 4: return isBigEndian ? nil : KernelExpression.hostOrder(number)
        default: return nil
        }
    }
}
