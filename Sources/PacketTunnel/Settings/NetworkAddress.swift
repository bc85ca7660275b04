// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelIO

/// An IPv4 or IPv6 address without zone or port, in host order.
///
/// Its text is a dotted quad of four decimal numbers without leading zeros, or any form of RFC 4291 section 2.2; it is
/// written as RFC 5952 asks. It is coded as that text.
public enum NetworkAddress: Hashable, Sendable {
    /// An IPv4 address, first byte most significant.
    case v4(UInt32)
    /// The two halves of an IPv6 address, first byte most significant.
    case v6(UInt64, UInt64)

    /// `a.b.c.d`.
    public static func v4(_ a: UInt8, _ b: UInt8, _ c: UInt8, _ d: UInt8) -> NetworkAddress {
        .v4(UInt32(a) << 24 | UInt32(b) << 16 | UInt32(c) << 8 | UInt32(d))
    }

    /// Whether it is an IPv6 address.
    public var isIPv6: Bool {
        if case .v6 = self { true } else { false }
    }

    /// The number of its bits: 32 or 128.
    public var bitWidth: Int { isIPv6 ? 128 : 32 }

    /// The bytes in network order: four or sixteen.
    public var bytes: [UInt8] {
        switch self {
        case .v4(let address): (0..<4).map { UInt8(truncatingIfNeeded: address >> (24 - 8 * UInt32($0))) }
        case .v6(let high, let low):
            [high, low].flatMap { half in (0..<8).map { UInt8(truncatingIfNeeded: half >> (56 - 8 * UInt64($0))) } }
        }
    }

    /// The address of these bytes in network order; nil unless there are four or sixteen.
    public init?(bytes: some Collection<UInt8>) {
        let value = bytes.reduce(UInt128(0)) { $0 << 8 | UInt128($1) }
        switch bytes.count {
        case 4: self = .v4(UInt32(truncatingIfNeeded: value))
        case 16: self = .v6(UInt64(truncatingIfNeeded: value >> 64), UInt64(truncatingIfNeeded: value))
        default: return nil
        }
    }

    /// The address as a number, for masks and comparisons within a family.
    package var value: UInt128 {
        switch self {
        case .v4(let address): UInt128(address)
        case .v6(let high, let low): UInt128(high) << 64 | UInt128(low)
        }
    }

    /// The address of the same family with this value.
    package func sibling(_ value: UInt128) -> NetworkAddress {
        isIPv6
            ? .v6(UInt64(truncatingIfNeeded: value >> 64), UInt64(truncatingIfNeeded: value))
            : .v4(UInt32(truncatingIfNeeded: value))
    }
}

// MARK: - What kind of address it is

extension NetworkAddress {
    /// `0.0.0.0` or `::`.
    public var isUnspecified: Bool { value == 0 }

    /// 127.0.0.0/8 or `::1`.
    public var isLoopback: Bool {
        switch self {
        case .v4(let address): address >> 24 == 127
        case .v6(let high, let low): high == 0 && low == 1
        }
    }

    /// 224.0.0.0/4 or ff00::/8.
    public var isMulticast: Bool {
        switch self {
        case .v4(let address): address >> 28 == 0xe
        case .v6(let high, _): high >> 56 == 0xff
        }
    }

    /// 169.254.0.0/16 or fe80::/10.
    public var isLinkLocal: Bool {
        switch self {
        case .v4(let address): address >> 16 == 0xa9fe
        case .v6(let high, _): high >> 54 == 0x3fa
        }
    }

    /// 255.255.255.255.
    public var isBroadcast: Bool { self == .v4(0xffff_ffff) }
}

// MARK: - Text

extension NetworkAddress: LosslessStringConvertible, Codable {
    /// An address from its text; nil when it is none.
    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        if bytes.contains(UInt8(ascii: ":")) {
            guard let groups = Self.groups(bytes) else { return nil }
            self = .v6(Self.join(groups[..<4]), Self.join(groups[4...]))
        } else {
            guard let address = Self.quad(bytes[...]) else { return nil }
            self = .v4(address)
        }
    }

    private static func join(_ groups: ArraySlice<UInt16>) -> UInt64 { groups.reduce(0) { $0 << 16 | UInt64($1) } }

    private static func quad(_ text: ArraySlice<UInt8>) -> UInt32? {
        let parts = text.split(separator: UInt8(ascii: "."), maxSplits: 4, omittingEmptySubsequences: false)
        guard parts.count == 4 else { return nil }
        var address: UInt32 = 0
        for part in parts {
            // Others read 010 as 8: what is read in two ways is refused.
            guard (1...3).contains(part.count), part.first != UInt8(ascii: "0") || part.count == 1,
                let number = number(part, radix: 10), number <= 255
            else { return nil }
            address = address << 8 | number
        }
        return address
    }

    private static func number(_ digits: ArraySlice<UInt8>, radix: UInt32) -> UInt32? {
        var value: UInt32 = 0
        for digit in digits {
            guard let digit = Character(UnicodeScalar(digit)).hexDigitValue, digit < radix else { return nil }
            value = value * radix + UInt32(digit)
        }
        return value
    }

    /// The eight groups of an IPv6 address.
    private static func groups(_ text: [UInt8]) -> [UInt16]? {
        let colon = UInt8(ascii: ":")
        guard text.count <= 45 else { return nil }
        // "::" stands for one or more zero groups, once at most.
        if let gap = text.indices.dropLast().first(where: { text[$0] == colon && text[$0 + 1] == colon }) {
            guard let head = list(text[..<gap], mayEndInQuad: false),
                let tail = list(text[(gap + 2)...], mayEndInQuad: true), head.count + tail.count <= 7
            else { return nil }
            return head + Array(repeating: 0, count: 8 - head.count - tail.count) + tail
        }
        guard let all = list(text[...], mayEndInQuad: true), all.count == 8 else { return nil }
        return all
    }

    private static func list(_ text: ArraySlice<UInt8>, mayEndInQuad: Bool) -> [UInt16]? {
        guard !text.isEmpty else { return [] }
        let parts = text.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
        var groups: [UInt16] = []
        for (index, part) in parts.enumerated() {
            if mayEndInQuad, index == parts.count - 1, part.contains(UInt8(ascii: ".")) {
                guard let address = quad(part) else { return nil }
                groups += [UInt16(address >> 16), UInt16(address & 0xffff)]
            } else {
                guard (1...4).contains(part.count), let group = number(part, radix: 16) else { return nil }
                groups.append(UInt16(group))
            }
        }
        return groups
    }

    /// The address in its family's usual form.
    public var description: String {
        switch self {
        case .v4: return bytes.map(String.init).joined(separator: ".")
        case .v6(let high, let low):
            if high == 0, low >> 32 == 0xffff {
                return "::ffff:\(NetworkAddress.v4(UInt32(truncatingIfNeeded: low)))"
            }
            let groups = (0..<8).map { UInt16(truncatingIfNeeded: value >> (112 - 16 * UInt128($0))) }
            let words = groups.map { String($0, radix: 16) }
            // The first of the longest runs of at least two zero groups is left out (RFC 5952 section 4.2).
            var gap = 0..<0
            var start = 0
            while start < 8 {
                let end = groups[start...].firstIndex { $0 != 0 } ?? 8
                if end - start >= 2, end - start > gap.count { gap = start..<end }
                start = max(end, start + 1)
            }
            guard !gap.isEmpty else { return words.joined(separator: ":") }
            return words[..<gap.lowerBound].joined(separator: ":") + "::"
                + words[gap.upperBound...].joined(separator: ":")
        }
    }

    /// Decodes the text.
    public init(from decoder: any Decoder) throws {
        let text = try decoder.singleValueContainer().decode(String.self)
        guard let address = NetworkAddress(text) else {
            throw DecodingError.dataCorrupted(
                .init(codingPath: decoder.codingPath, debugDescription: "'\(text)' is no IPv4 or IPv6 address"))
        }
        self = address
    }

    /// Encodes the text.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}

extension NetworkAddress {
    /// The same address for packets that are built.
    package var forPackets: PacketBuilder.Address {
        switch self {
        case .v4(let address): .v4(address)
        case .v6(let high, let low): .v6(high, low)
        }
    }
}
