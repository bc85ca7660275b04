// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// An address and the number of its leading bits that name a network, as in `10.1.2.3/24`.
///
/// As the address of an interface all of it counts; as a route only ``network`` does. It is coded as its text.
public struct NetworkPrefix: Hashable, Sendable {
    /// The address, with the bits behind the prefix as they were given.
    public let address: NetworkAddress
    /// The number of leading bits: 0 to 32 or 0 to 128.
    public let length: Int

    /// A prefix; nil when the family has fewer bits than `length`, or it is negative.
    public init?(_ address: NetworkAddress, length: Int) {
        guard (0...address.bitWidth).contains(length) else { return nil }
        self.address = address
        self.length = length
    }

    /// The prefix of one address: all of its bits.
    public init(host address: NetworkAddress) {
        self.address = address
        length = address.bitWidth
    }

    private init(unchecked address: NetworkAddress, length: Int) {
        self.address = address
        self.length = length
    }

    /// `0.0.0.0/0`: every IPv4 address.
    public static let allIPv4 = NetworkPrefix(unchecked: .v4(0), length: 0)
    /// `::/0`: every IPv6 address.
    public static let allIPv6 = NetworkPrefix(unchecked: .v6(0, 0), length: 0)

    /// Whether it is of IPv6.
    public var isIPv6: Bool { address.isIPv6 }

    /// The same prefix with the bits behind it zero.
    public var network: NetworkPrefix {
        NetworkPrefix(unchecked: address.sibling(address.value & mask), length: length)
    }

    /// Whether the bits behind the prefix are zero, as a route wants them.
    public var isNetwork: Bool { address.value & mask == address.value }

    /// Whether `other` is of the same family and in this network.
    public func contains(_ other: NetworkAddress) -> Bool {
        other.isIPv6 == isIPv6 && (other.value ^ address.value) & mask == 0
    }

    /// Whether all addresses of `other` are in this network.
    public func contains(_ other: NetworkPrefix) -> Bool {
        other.length >= length && contains(other.address)
    }

    /// For IPv4, the mask as an address, such as 255.255.255.0; for IPv6 its equivalent.
    public var maskAddress: NetworkAddress { address.sibling(mask) }

    private var mask: UInt128 {
        let all: UInt128 = isIPv6 ? .max : UInt128(UInt32.max)
        return all ^ (length == address.bitWidth ? 0 : all >> UInt128(length))
    }
}

extension NetworkPrefix: LosslessStringConvertible, Codable {
    /// A prefix from its text, such as `10.0.0.0/8`; an address alone is a prefix of all of its bits. Nil when it is neither.
    public init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let address = NetworkAddress(String(first)) else { return nil }
        guard parts.count == 2 else {
            self.init(host: address)
            return
        }
        let digits = parts[1].utf8
        guard (1...3).contains(digits.count), digits.allSatisfy({ (48...57).contains($0) }),
            digits.count == 1 || digits.first != 48, let length = Int(parts[1])
        else { return nil }
        self.init(address, length: length)
    }

    /// The address, a slash and the length.
    public var description: String { "\(address)/\(length)" }

    /// Decodes the text.
    public init(from decoder: any Decoder) throws {
        let text = try decoder.singleValueContainer().decode(String.self)
        guard let prefix = NetworkPrefix(text) else {
            throw DecodingError.dataCorrupted(
                .init(
                    codingPath: decoder.codingPath,
                    debugDescription: "'\(text)' is no prefix: an address, a slash and up to 32 or 128 bits"))
        }
        self = prefix
    }

    /// Encodes the text.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
