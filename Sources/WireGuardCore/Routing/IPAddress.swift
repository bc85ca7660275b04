// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The two Internet protocol versions.
public enum IPFamily: UInt8, Hashable, Sendable, CaseIterable {
    /// Internet Protocol version 4 (RFC 791).
    case v4 = 4
    /// Internet Protocol version 6 (RFC 8200).
    case v6 = 6

    /// The number of bits of an address: 32 or 128.
    public var bitWidth: Int { self == .v4 ? 32 : 128 }
}

/// An IPv4 or IPv6 address without zone or port.
public struct IPAddress: Hashable, Sendable {
    /// The protocol version.
    public let family: IPFamily
    /// The first eight bytes of an IPv6 address, in host order; zero for IPv4.
    package let high: UInt64
    /// The last eight bytes of an IPv6 address, or the four bytes of an IPv4 address, in host order.
    package let low: UInt64

    package init(family: IPFamily, high: UInt64, low: UInt64) {
        self.family = family
        self.high = high
        self.low = low
    }

    /// An IPv4 address from its value, first byte most significant.
    public init(v4 value: UInt32) {
        self.init(family: .v4, high: 0, low: UInt64(value))
    }

    /// An IPv6 address from its two halves, first byte most significant.
    public init(v6High high: UInt64, low: UInt64) {
        self.init(family: .v6, high: high, low: low)
    }

    /// Whether every bit is zero (`0.0.0.0` or `::`).
    public var isUnspecified: Bool { high | low == 0 }
}

/// A network: an address and the number of leading bits that count. Host bits are always zero.
public struct IPPrefix: Hashable, Sendable {
    /// The network's first address.
    public let address: IPAddress
    /// The number of leading bits that count: 0 to 32 or 0 to 128.
    public let length: Int

    /// The network of the first `length` bits of `address`; nil when the family has fewer bits than that.
    public init?(_ address: IPAddress, length: Int) {
        guard length >= 0, length <= address.family.bitWidth else { return nil }
        let width = address.family.bitWidth
        func mask(_ bits: Int, of width: Int) -> UInt64 {
            let clear = width - min(max(bits, 0), width)
            return clear == 64 ? 0 : ~UInt64(0) << UInt64(clear)
        }
        switch address.family {
        case .v4:
            self.address = IPAddress(
                family: .v4, high: 0, low: address.low & mask(length, of: width) & 0xffff_ffff)
        case .v6:
            self.address = IPAddress(
                family: .v6, high: address.high & mask(length, of: 64), low: address.low & mask(length - 64, of: 64))
        }
        self.length = length
    }
}

/// Where a peer's datagrams go, and how this host was last reached from there.
public struct Endpoint: Hashable, Sendable {
    /// The peer's address.
    public var address: IPAddress
    /// The peer's UDP port.
    public var port: UInt16
    /// The interface index that gives a link-local IPv6 address its meaning; otherwise zero.
    public var scopeID: UInt32
    /// The local address and interface that the peer's last datagram arrived at, so that replies leave from there.
    ///
    /// It is a hint that the socket layer fills in and takes back; equality of endpoints ignores it.
    public var source: EndpointSource

    /// An endpoint.
    public init(address: IPAddress, port: UInt16, scopeID: UInt32 = 0, source: EndpointSource = .unspecified) {
        self.address = address
        self.port = port
        self.scopeID = scopeID
        self.source = source
    }

    /// Whether address, port and scope are the same.
    public static func == (a: Endpoint, b: Endpoint) -> Bool {
        a.address == b.address && a.port == b.port && a.scopeID == b.scopeID
    }

    /// Feeds address, port and scope to a hasher.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(address)
        hasher.combine(port)
        hasher.combine(scopeID)
    }
}

/// The local end of a path: which of this host's addresses and interfaces a datagram arrived at.
public struct EndpointSource: Hashable, Sendable {
    /// The interface index, or zero.
    public var interfaceIndex: UInt32
    /// The local address in the halves of ``IPAddress``, in the family of the endpoint; zero when unknown.
    package var high: UInt64
    package var low: UInt64

    package init(interfaceIndex: UInt32, high: UInt64, low: UInt64) {
        self.interfaceIndex = interfaceIndex
        self.high = high
        self.low = low
    }

    /// No preference: routing decides.
    public static let unspecified = EndpointSource(interfaceIndex: 0, high: 0, low: 0)
}
