// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// The settings that a tunnel requests from the system: addresses, routes, DNS, MTU, proxies, and the packets that may
/// bypass the tunnel.
///
/// A provider creates this value, and a host applies it. In JSON, members with a default may be omitted.
public struct TunnelSettings: Hashable, Sendable {
    /// The server's address, for display. A tunnel's server uses its own name.
    public var remoteAddress: String
    /// The interface's addresses, each with the length of its on-link network.
    public var addresses: [InterfaceAddress]
    /// The networks that are routed into the tunnel.
    public var includedRoutes: [IPPrefix]
    /// The networks that are not routed into the tunnel although an included route contains them. They affect only
    /// routes. Settings with excluded routes are invalid under ``LeakPolicy/everything``. For exceptions under every
    /// policy use ``allowedNetworks``.
    public var excludedRoutes: [IPPrefix]
    /// Whether attached networks are reached directly, regardless of the routes and the leak policy.
    public var allowsLocalNetwork: Bool
    /// The name servers; `nil` keeps the system's.
    public var dns: DNSSettings?
    /// The largest IP packet in the tunnel, in bytes. `nil` computes it from the path's MTU and ``overhead``.
    public var mtu: Int?
    /// The bytes that the tunnel adds to a packet, including the outer IP and UDP headers. Used to compute an automatic
    /// MTU.
    public var overhead: Int
    /// The proxies for programs that use the system's settings; `nil` leaves the system's proxies unchanged.
    public var proxy: ProxySettings?
    /// The policy for packets that could bypass the tunnel.
    public var leakPolicy: LeakPolicy
    /// The networks that are reached outside the tunnel, on the local network or behind a router, regardless of the
    /// routes and the leak policy. No included route may be inside one of them. DNS queries that the tunnel's servers
    /// should answer are not sent to them.
    public var allowedNetworks: [IPPrefix]
    /// The addresses of the tunnel's servers that the provider knows. If the routes would send the packets for a server
    /// into the tunnel, the host routes these packets around it.
    public var serverAddresses: [IPAddress]

    /// Creates settings. ``validate()`` returns their problems.
    public init(
        remoteAddress: String, addresses: [InterfaceAddress], includedRoutes: [IPPrefix] = [],
        excludedRoutes: [IPPrefix] = [], allowsLocalNetwork: Bool = false, dns: DNSSettings? = nil,
        mtu: Int? = nil, overhead: Int = defaultOverhead, proxy: ProxySettings? = nil,
        leakPolicy: LeakPolicy = .routeBased, allowedNetworks: [IPPrefix] = [], serverAddresses: [IPAddress] = []
    ) {
        self.remoteAddress = remoteAddress
        self.addresses = addresses
        self.includedRoutes = includedRoutes
        self.excludedRoutes = excludedRoutes
        self.allowsLocalNetwork = allowsLocalNetwork
        self.dns = dns
        self.mtu = mtu
        self.overhead = overhead
        self.proxy = proxy
        self.leakPolicy = leakPolicy
        self.allowedNetworks = allowedNetworks
        self.serverAddresses = serverAddresses
    }

    /// WireGuard's overhead over IPv6: 40 bytes of IP, 8 of UDP, 32 of its own.
    public static let defaultOverhead = 80

    /// Returns the MTU for a path that carries IP packets of `pathMTU` bytes: ``mtu`` if it is set, otherwise `pathMTU`
    /// less ``overhead``. An automatic MTU is at least the minimum of IP: 1280 bytes with an IPv6 address (RFC 8200
    /// section 5), otherwise 576.
    public func effectiveMTU(pathMTU: Int = 1500) -> Int {
        mtu ?? max(pathMTU - overhead, leastMTU)
    }

    var leastMTU: Int { addresses.contains(where: \.isIPv6) ? 1280 : 576 }

    /// The networks that a host routes into the tunnel: all addresses of both families under ``LeakPolicy/everything``,
    /// otherwise the included routes.
    public var effectiveRoutes: [IPPrefix] {
        leakPolicy.routesEverything ? [.allIPv4, .allIPv6] : includedRoutes
    }

    /// Returns the routes that contain one of these addresses, except routes to all addresses or to half of them.
    package func routes(holding addresses: some Sequence<IPAddress>) -> Set<IPPrefix> {
        let routes = Set(effectiveRoutes.filter { $0.length > 1 })
        // Look up each address once per prefix length, which is fast for any number of routes and addresses.
        let lengths = [false, true].map { isIPv6 in Set(routes.lazy.filter { $0.isIPv6 == isIPv6 }.map(\.length)) }
        var found: Set<IPPrefix> = []
        for address in addresses {
            for length in lengths[address.isIPv6 ? 1 : 0] {
                if let prefix = IPPrefix(address, length: length), routes.contains(prefix) { found.insert(prefix) }
            }
        }
        return found
    }

    /// Returns the class of a packet to `destination`, except for the provider's own packets, the link's own packets
    /// and DNS queries. The local network and allowed networks take precedence over all routes. Of the routes, the most
    /// specific one counts; of equal routes, the excluded one.
    ///
    /// - Parameters:
    ///   - destination: The packet's destination.
    ///   - onLink: Whether the destination is in an attached network.
    ///   - isBoundElsewhere: Whether the sender binds to another interface than the tunnel's.
    public func trafficClass(
        of destination: IPAddress, onLink: Bool = false, isBoundElsewhere: Bool = false
    ) -> LeakPolicy.TrafficClass {
        if destination.isLoopback { return .loopback }
        if onLink, allowsLocalNetwork { return .localNetwork }
        if allowedNetworks.contains(where: { $0.contains(destination) }) { return .allowedNetwork }
        func longest(_ routes: [IPPrefix]) -> Int? {
            routes.lazy.filter { $0.contains(destination) }.map(\.length).max()
        }
        let excluded = longest(excludedRoutes)
        guard let included = longest(effectiveRoutes) else { return excluded == nil ? .unrouted : .excluded }
        if let excluded, excluded >= included { return .excluded }
        return isBoundElsewhere ? .includedBoundElsewhere : .included
    }

    /// Returns the class of a DNS query for `name`.
    public func trafficClass(ofLookup name: String) -> LeakPolicy.TrafficClass {
        dns?.answers(name) == true ? .tunnelDNS : .otherDNS
    }
}

extension TunnelSettings: Codable {
    private enum CodingKeys: String, CodingKey {
        case remoteAddress, addresses, includedRoutes, excludedRoutes, allowsLocalNetwork, dns, mtu, overhead, proxy
        case leakPolicy, allowedNetworks, serverAddresses
    }

    /// Decodes; omitted members have their defaults.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            remoteAddress: try container.decode(String.self, forKey: .remoteAddress),
            addresses: try container.decode([InterfaceAddress].self, forKey: .addresses),
            includedRoutes: try Self.routes(in: container, .includedRoutes),
            excludedRoutes: try Self.routes(in: container, .excludedRoutes),
            allowsLocalNetwork: try container.decodeIfPresent(Bool.self, forKey: .allowsLocalNetwork) ?? false,
            dns: try container.decodeIfPresent(DNSSettings.self, forKey: .dns),
            mtu: try container.decodeIfPresent(Int.self, forKey: .mtu),
            overhead: try container.decodeIfPresent(Int.self, forKey: .overhead) ?? Self.defaultOverhead,
            proxy: try container.decodeIfPresent(ProxySettings.self, forKey: .proxy),
            leakPolicy: try container.decodeIfPresent(LeakPolicy.self, forKey: .leakPolicy) ?? .routeBased,
            allowedNetworks: try Self.routes(in: container, .allowedNetworks),
            serverAddresses: try container.decodeIfPresent([IPAddress].self, forKey: .serverAddresses) ?? [])
    }

    /// Decodes networks, which must have no bits after their prefixes: it would not be clear whether the network or the
    /// one address was meant.
    private static func routes(
        in container: KeyedDecodingContainer<CodingKeys>, _ key: CodingKeys
    ) throws -> [IPPrefix] {
        try (container.decodeIfPresent([InterfaceAddress].self, forKey: key) ?? []).map { route in
            guard route.network.address == route.address else {
                throw DecodingError.dataCorruptedError(
                    forKey: key, in: container,
                    debugDescription: "\(route) has bits set after its prefix: write \(route.network) or "
                        + "\(IPPrefix(host: route.address))")
            }
            return route.network
        }
    }
}
