// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The two Internet protocol versions.
public enum IPFamily: UInt8, Hashable, Sendable, CaseIterable {
    /// Internet Protocol version 4 (RFC 791).
    case v4 = 4
    /// Internet Protocol version 6 (RFC 8200).
    case v6 = 6

    /// The number of bits of an address: 32 or 128.
    @inlinable public var bitWidth: Int { self == .v4 ? 32 : 128 }
}

/// An IPv4 or IPv6 address without zone or port: a plain value of fixed size. It is encoded as its text.
public struct IPAddress: Hashable, Sendable {
    /// The first eight bytes of an IPv6 address, in host order; zero for IPv4.
    public let high: UInt64
    /// The last eight bytes of an IPv6 address, or the four bytes of an IPv4 address, in host order.
    public let low: UInt64
    /// Whether it is an IPv6 address.
    public let isIPv6: Bool

    /// For IPv4, `high` is zero and `low` has 32 bits.
    @inlinable
    package init(isIPv6: Bool, high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
        self.isIPv6 = isIPv6
    }

    /// An IPv4 address from its value, first byte most significant.
    @inlinable
    public static func v4(_ value: UInt32) -> IPAddress {
        IPAddress(isIPv6: false, high: 0, low: UInt64(value))
    }

    /// `a.b.c.d`.
    @inlinable
    public static func v4(_ a: UInt8, _ b: UInt8, _ c: UInt8, _ d: UInt8) -> IPAddress {
        .v4(UInt32(a) << 24 | UInt32(b) << 16 | UInt32(c) << 8 | UInt32(d))
    }

    /// An IPv6 address from its two halves, first byte most significant.
    @inlinable
    public static func v6(_ high: UInt64, _ low: UInt64) -> IPAddress {
        IPAddress(isIPv6: true, high: high, low: low)
    }

    /// Creates the address with these bytes in network order; `nil` unless there are four or sixteen.
    public init?(bytes: some Collection<UInt8>) {
        let count = bytes.count
        guard count == 4 || count == 16 else { return nil }
        self.init(isIPv6: count == 16, value: bytes.reduce(UInt128(0)) { $0 << 8 | UInt128($1) })
    }

    /// The bytes in network order: four or sixteen.
    public var bytes: [UInt8] {
        (0..<bitWidth / 8).map { UInt8(truncatingIfNeeded: value >> UInt128(bitWidth - 8 - 8 * $0)) }
    }

    /// The protocol version.
    @inlinable public var family: IPFamily { isIPv6 ? .v6 : .v4 }

    /// The number of its bits: 32 or 128.
    @inlinable public var bitWidth: Int { isIPv6 ? 128 : 32 }

    /// The address as a number, for masks and comparisons within a family.
    @inlinable package var value: UInt128 { UInt128(high) << 64 | UInt128(low) }

    /// The address of this family with this value.
    @inlinable
    package init(isIPv6: Bool, value: UInt128) {
        self.init(
            isIPv6: isIPv6, high: UInt64(truncatingIfNeeded: value >> 64), low: UInt64(truncatingIfNeeded: value))
    }

    /// Whether family and bits are the same.
    @inlinable
    public static func == (a: IPAddress, b: IPAddress) -> Bool {
        a.low == b.low && a.high == b.high && a.isIPv6 == b.isIPv6
    }

    /// Feeds family and bits to a hasher.
    @inlinable
    public func hash(into hasher: inout Hasher) {
        hasher.combine(high)
        hasher.combine(low)
        hasher.combine(isIPv6)
    }
}

// MARK: - Kinds of addresses

extension IPAddress {
    /// `0.0.0.0` or `::`.
    @inlinable public var isUnspecified: Bool { high | low == 0 }

    /// 127.0.0.0/8 or `::1`.
    public var isLoopback: Bool { isIPv6 ? high == 0 && low == 1 : low >> 24 == 127 }

    /// 224.0.0.0/4 or ff00::/8.
    public var isMulticast: Bool { isIPv6 ? high >> 56 == 0xff : low >> 28 == 0xe }

    /// 169.254.0.0/16 or fe80::/10.
    public var isLinkLocal: Bool { isIPv6 ? high >> 54 == 0x3fa : low >> 16 == 0xa9fe }

    /// 255.255.255.255.
    public var isBroadcast: Bool { self == .v4(255, 255, 255, 255) }
}
