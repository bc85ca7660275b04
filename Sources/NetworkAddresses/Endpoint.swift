// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The remote end of UDP datagrams and, if known, the local address and interface that they use.
///
/// It is a plain value without references, because there is one for each datagram.
public struct Endpoint: Hashable, Sendable {
    /// The remote address.
    public var address: IPAddress
    /// The remote UDP port in host order.
    public var port: UInt16
    /// The interface index of a link-local IPv6 address; otherwise 0.
    public var scopeID: UInt32
    /// The local address and interface at which the last datagram arrived, so that replies are sent from there.
    ///
    /// It is a hint that the socket layer sets and uses. Comparing endpoints ignores it.
    public var source: EndpointSource

    /// An endpoint.
    @inlinable
    public init(address: IPAddress, port: UInt16, scopeID: UInt32 = 0, source: EndpointSource = .unspecified) {
        self.address = address
        self.port = port
        self.scopeID = scopeID
        self.source = source
    }

    /// No endpoint, as for packets of a TUN device.
    @inlinable public static var unspecified: Endpoint { Endpoint(address: .v4(0), port: 0) }

    /// `127.0.0.1` with the given port.
    @inlinable
    public static func loopback(port: UInt16) -> Endpoint {
        Endpoint(address: .v4(127, 0, 0, 1), port: port)
    }

    /// Whether its addresses are IPv6.
    @inlinable public var isIPv6: Bool { address.isIPv6 }

    /// Whether address, port and scope are equal.
    @inlinable
    public static func == (a: Endpoint, b: Endpoint) -> Bool {
        a.address == b.address && a.port == b.port && a.scopeID == b.scopeID
    }

    /// Whether the remote and the local ends are both equal.
    @inlinable
    public func hasSameEnds(as other: Endpoint) -> Bool {
        self == other && source == other.source
    }

    /// Feeds address, port and scope to a hasher.
    @inlinable
    public func hash(into hasher: inout Hasher) {
        hasher.combine(address)
        hasher.combine(port)
        hasher.combine(scopeID)
    }
}

/// The local end of a path: the address and interface of this host at which a datagram arrived.
public struct EndpointSource: Hashable, Sendable {
    /// The interface index; 0 if it is not known, in which case routing decides.
    public var interfaceIndex: UInt32
    /// The first half of the local address as in ``IPAddress``, in the endpoint's family; 0 if it is not known.
    public var high: UInt64
    /// The second half of the local IPv6 address, or the local IPv4 address; 0 if it is not known.
    public var low: UInt64

    /// A local end.
    @inlinable
    public init(interfaceIndex: UInt32, high: UInt64, low: UInt64) {
        self.interfaceIndex = interfaceIndex
        self.high = high
        self.low = low
    }

    /// No preference: routing decides.
    @inlinable public static var unspecified: EndpointSource { EndpointSource(interfaceIndex: 0, high: 0, low: 0) }

    /// Whether interface and address are the same.
    @inlinable
    public static func == (a: EndpointSource, b: EndpointSource) -> Bool {
        a.low == b.low && a.high == b.high && a.interfaceIndex == b.interfaceIndex
    }
}
