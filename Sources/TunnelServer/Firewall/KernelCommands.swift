// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelLinux
import TunnelSystem

/// Commands for nft as messages to the kernel, for small changes of clients.
///
/// nft reads all chains before each change, and the end of its process waits for the kernel's cleanup: among 10,000
/// clients that takes longer than the change itself.
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
        func request(_ type: UInt16, _ flags: UInt16 = 0, _ attributes: [NetlinkRequest.Attribute]) -> NetlinkRequest {
            FirewallMessage.request(type, flags, table: table, attributes)
        }
        let name = object["name"]?.string.map(NetlinkRequest.text)
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
            var expressions: [KernelExpression] = []
            for statement in statements {
                guard let list = KernelExpression.list(statement) else { return nil }
                expressions += list
            }
            return FirewallMessage.newRule(table: table, chain: chain, expressions)
        case ("add", "element"), ("delete", "element"):
            guard let set = object["name"]?.string, hostSets.contains(set), let list = object["elem"]?.list else {
                return nil
            }
            var elements: [UInt8] = []
            for item in list {
                guard let element = element(item) else { return nil }
                elements += NetlinkRequest.attributes((1 | Netlink.nested, element))
            }
            let isNew = verb == "add"
            return request(
                isNew ? FirewallMessage.newElement : FirewallMessage.deleteElement, isNew ? Netlink.create : 0,
                [(2, NetlinkRequest.text(set)), (3 | Netlink.nested, elements)])
        default: return nil
        }
    }

    /// `"10.66.0.2"`, `{"concat": ["10.66.0.2", "10.66.0.3"]}`, or `["10.66.0.2", {"goto": {"target": "client"}}]`.
    private static func element(_ item: JSON) -> [UInt8]? {
        if let pair = item.list {
            guard pair.count == 2, let key = key(pair[0]), let chain = pair[1]["goto"]?["target"]?.string else {
                return nil
            }
            return key + NetlinkRequest.attributes((2 | Netlink.nested, KernelExpression.value(.goto, chain)))
        }
        return key(item)
    }

    private static func key(_ item: JSON) -> [UInt8]? {
        var bytes: [UInt8] = []
        for part in item["concat"]?.list ?? [item] {
            guard let address = part.string.flatMap({ try? IPAddress($0) }) else { return nil }
            bytes += address.bytes
        }
        return NetlinkRequest.attributes((1 | Netlink.nested, NetlinkRequest.attributes((1, bytes))))
    }
}

extension KernelExpression {
    /// - Returns: `nil` for a statement that no small change has.
    static func list(_ statement: JSON) -> [KernelExpression]? {
        switch statement {
        case NFT.accept: return [verdict(.accept)]
        case NFT.drop: return [verdict(.drop)]
        case NFT.back: return [verdict(.back)]
        case NFT.counter: return [KernelExpression("counter")]
        default: break
        }
        if let match = statement["match"] { return list(of: match) }
        if let chain = statement["goto"]?["target"]?.string { return [verdict(.goto, chain)] }
        if let chain = statement["jump"]?["target"]?.string { return [verdict(.jump, chain)] }
        guard let mark = statement["mangle"], mark["key"] == NFT.ct("mark"), case .integer(let value)? = mark["value"]
        else { return nil }
        return setMark(UInt32(truncatingIfNeeded: value), ofConnection: true)
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
            return [field.load, lookup(in: String(set.dropFirst()), isInverted: !isEqual)]
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
        switch left {
        case NFT.ct("state"): (load, width, isBigEndian) = (.connection(.state), 4, false)
        case NFT.ct("direction"): (load, width, isBigEndian) = (.connection(.direction), 1, false)
        case NFT.ct("mark"): (load, width, isBigEndian) = (.connection(.mark), 4, false)
        case NFT.meta("nfproto"): (load, width, isBigEndian) = (.meta(.family), 1, false)
        case NFT.meta("l4proto"): (load, width, isBigEndian) = (.meta(.transport), 1, false)
        case NFT.payload("th", "sport"): (load, width, isBigEndian) = (Self.port(0), 2, true)
        case NFT.payload("th", "dport"): (load, width, isBigEndian) = (Self.port(2), 2, true)
        case NFT.destinationType: (load, width, isBigEndian) = (.addressType(ofSource: false), 4, false)
        default:
            for isIPv6 in [false, true] {
                for isOriginal in [true, false] where left == NFT.endpoint(isIPv6: isIPv6, isOriginal: isOriginal) {
                    // `NFT_CT_SRC_IP` and `NFT_CT_SRC_IP6`.
                    load = KernelExpression(
                        loading: "ct", [(2, KernelExpression.number(isIPv6 ? 21 : 19)), (3, [isOriginal ? 0 : 1])])
                    (width, isBigEndian) = (isIPv6 ? 16 : 4, true)
                    return
                }
            }
            return nil
        }
    }

    private static func port(_ offset: UInt32) -> KernelExpression { .payload(.transport, offset: offset, length: 2) }

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
        case 4: return isBigEndian ? nil : NetlinkRequest.bytes(UInt32(truncatingIfNeeded: number))
        default: return nil
        }
    }
}
