// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A network: an address and a prefix length. Host bits are always zero. It is encoded as its text.
public struct IPPrefix: Hashable, Sendable {
    /// The network's first address.
    public let address: IPAddress
    /// The prefix length in bits: 0 to 32 or 0 to 128.
    public let length: Int

    /// The network of the first `length` bits of `address`; `nil` if the family has fewer bits than that.
    public init?(_ address: IPAddress, length: Int) {
        guard (0...address.bitWidth).contains(length) else { return nil }
        self.init(holding: address, length: length)
    }

    /// Creates a network with a length that the caller has checked.
    init(holding address: IPAddress, length: Int) {
        self.address = IPAddress(
            isIPv6: address.isIPv6, value: address.value & Self.mask(length, isIPv6: address.isIPv6))
        self.length = length
    }

    /// The network of one address: all of its bits.
    public init(host address: IPAddress) {
        self.address = address
        length = address.bitWidth
    }

    /// `0.0.0.0/0`: every IPv4 address.
    public static let allIPv4 = IPPrefix(holding: .v4(0), length: 0)
    /// `::/0`: every IPv6 address.
    public static let allIPv6 = IPPrefix(holding: .v6(0, 0), length: 0)

    /// Whether it is of IPv6.
    public var isIPv6: Bool { address.isIPv6 }

    /// Whether this network contains `other`; `false` if `other` belongs to the other family.
    public func contains(_ other: IPAddress) -> Bool {
        other.isIPv6 == isIPv6 && (other.value ^ address.value) & mask == 0
    }

    /// Whether all addresses of `other` are in this network.
    public func contains(_ other: IPPrefix) -> Bool {
        other.length >= length && contains(other.address)
    }

    /// For IPv4, the mask as an address, such as 255.255.255.0; for IPv6 its equivalent.
    public var maskAddress: IPAddress { IPAddress(isIPv6: isIPv6, value: mask) }

    private var mask: UInt128 { Self.mask(length, isIPv6: isIPv6) }

    /// Whether the networks have an address in common.
    package func overlaps(_ other: IPPrefix) -> Bool { contains(other) || other.contains(self) }

    private static func mask(_ length: Int, isIPv6: Bool) -> UInt128 {
        let all: UInt128 = isIPv6 ? .max : UInt128(UInt32.max)
        // A shift by more than the width is zero.
        return all ^ (all >> UInt128(length))
    }

    /// Returns this network without the others, as the smallest number of networks, lowest address first.
    package func subtracting(_ others: [IPPrefix]) -> [IPPrefix] {
        if others.contains(where: { $0.contains(self) }) { return [] }
        let inside = others.filter { contains($0) }
        // A contained prefix that is not the whole network is longer, so this network has two halves.
        guard !inside.isEmpty, length < address.bitWidth else { return [self] }
        let step = UInt128(1) << UInt128(address.bitWidth - length - 1)
        return [address.value, address.value | step].flatMap { half in
            IPPrefix(holding: IPAddress(isIPv6: isIPv6, value: half), length: length + 1).subtracting(inside)
        }
    }
}

// MARK: - Text

extension IPPrefix: CustomStringConvertible, Codable {
    /// Parses `address[/length]`. Without a length it is a network of one address. Host bits are dropped.
    public init(_ text: some StringProtocol) throws(AddressTextError) {
        let bytes = ContiguousArray(text.utf8)
        try self.init(utf8: bytes.span)
    }

    package init(utf8 text: Span<UInt8>) throws(AddressTextError) {
        let (address, length) = try InterfaceAddress.parts(text)
        self.init(holding: address, length: length)
    }

    /// The network as `address/length`, always with the length.
    public var description: String {
        var text: [UInt8] = []
        appendText(to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// Appends ``description`` in UTF-8.
    package func appendText(to text: inout [UInt8]) {
        address.appendText(to: &text)
        text.append(UInt8(ascii: "/"))
        ASCII.appendDecimal(UInt64(length), to: &text)
    }

    /// Decodes the text.
    public init(from decoder: any Decoder) throws {
        self = try AddressTextError.decoded(from: decoder) { (text) throws(AddressTextError) in try IPPrefix(text) }
    }

    /// Encodes the text.
    public func encode(to encoder: any Encoder) throws {
        try description.encode(to: encoder)
    }
}
