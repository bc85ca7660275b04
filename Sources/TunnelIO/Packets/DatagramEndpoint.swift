// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The remote end of a UDP datagram and, where known, the local address and interface it used.
///
/// A plain value without references, since there is one per datagram. Addresses are in host order: an IPv4 address in
/// the low 32 bits of `low`, an IPv6 address in `high` and `low`.
public struct DatagramEndpoint: Hashable, Sendable {
    /// Whether the addresses are IPv6.
    public var isIPv6: Bool
    /// The remote port in host order.
    public var port: UInt16
    /// The scope of a link-local IPv6 address; otherwise zero.
    public var scopeID: UInt32
    /// The first half of the remote IPv6 address; zero for IPv4.
    public var high: UInt64
    /// The second half of the remote IPv6 address, or the IPv4 address.
    public var low: UInt64
    /// The interface the datagram arrived on, to leave by again; zero when unknown (then routing decides).
    public var sourceInterface: UInt32
    /// The first half of the local IPv6 address the datagram was sent to; zero for IPv4 or when unknown.
    public var sourceHigh: UInt64
    /// The second half of the local IPv6 address, or the local IPv4 address; zero when unknown.
    public var sourceLow: UInt64

    /// An endpoint.
    public init(
        isIPv6: Bool, high: UInt64, low: UInt64, port: UInt16, scopeID: UInt32 = 0, sourceInterface: UInt32 = 0,
        sourceHigh: UInt64 = 0, sourceLow: UInt64 = 0
    ) {
        self.isIPv6 = isIPv6
        self.port = port
        self.scopeID = scopeID
        self.high = high
        self.low = low
        self.sourceInterface = sourceInterface
        self.sourceHigh = sourceHigh
        self.sourceLow = sourceLow
    }

    /// No endpoint: what packets of a TUN device have.
    public static let none = DatagramEndpoint(isIPv6: false, high: 0, low: 0, port: 0)

    /// `127.0.0.1` with the given port.
    public static func loopback(port: UInt16) -> DatagramEndpoint {
        DatagramEndpoint(isIPv6: false, high: 0, low: 0x7f00_0001, port: port)
    }
}
