// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// The settings that a tunnel requests from the system: addresses, routes, DNS, MTU, proxies, and the packets that may leave
/// outside it.
///
/// A plain value that a provider makes and a host applies. In JSON, members with a default may be omitted.
public struct TunnelSettings: Hashable, Sendable {
    /// The server, as it is shown to the user; the end that listens uses its own name.
    public var remoteAddress: String
    /// The interface's addresses, each with the length of its on-link network.
    public var addresses: [InterfaceAddress]
    /// The networks that are reached through the tunnel.
    public var includedRoutes: [IPPrefix]
    /// The networks that are not routed into it, although an included route contains them. They concern routes only. Settings
    /// with excluded routes and the policy ``LeakPolicy/everything`` are invalid. For exceptions under every policy use
    /// ``allowedNetworks``.
    public var excludedRoutes: [IPPrefix]
    /// Whether attached networks are reached directly, regardless of the routes and the leak policy.
    public var allowsLocalNetwork: Bool
    /// The name servers; `nil` keeps the system's.
    public var dns: DNSSettings?
    /// The most bytes of one IP packet in the tunnel; nil makes it the path's less ``overhead``.
    public var mtu: Int?
    /// The bytes that the tunnel adds to a packet, outer IP and UDP headers included, for an automatic MTU.
    public var overhead: Int
    /// Proxies for programs that ask the system for them; nil leaves the system's.
    public var proxy: ProxySettings?
    /// The packets that may leave outside the tunnel.
    public var leakPolicy: LeakPolicy
    /// The networks that are reached outside the tunnel, regardless of the routes and the leak policy, on the local network
    /// or behind a router. No included route may be inside one. Name lookups that the tunnel should answer do not pass to
    /// them either.
    public var allowedNetworks: [IPPrefix]
    /// Where the tunnel's servers are, as far as the provider knows. A host whose routes would lead a server's own packets into the
    /// tunnel has them go around it.
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

    /// The MTU for a path that takes IP packets of `pathMTU` bytes: ``mtu``, or what ``overhead`` leaves, but at least what IP
    /// demands: 1280 bytes with an IPv6 address (RFC 8200 section 5), else 576.
    public func effectiveMTU(pathMTU: Int = 1500) -> Int {
        mtu ?? max(pathMTU - overhead, leastMTU)
    }

    var leastMTU: Int { addresses.contains(where: \.isIPv6) ? 1280 : 576 }

    /// The networks that a host routes into the tunnel: all of both families under ``LeakPolicy/everything``, else the
    /// included routes.
    public var effectiveRoutes: [IPPrefix] {
        leakPolicy.routesEverything ? [.allIPv4, .allIPv6] : includedRoutes
    }

    /// The routes that hold one of these addresses, other than everything and its halves.
    package func routes(holding addresses: some Sequence<IPAddress>) -> Set<IPPrefix> {
        let routes = Set(effectiveRoutes.filter { $0.length > 1 })
        // With any number of both, each address is looked up once for each length.
        let lengths = [false, true].map { isIPv6 in Set(routes.lazy.filter { $0.isIPv6 == isIPv6 }.map(\.length)) }
        var found: Set<IPPrefix> = []
        for address in addresses {
            for length in lengths[address.isIPv6 ? 1 : 0] {
                if let prefix = IPPrefix(address, length: length), routes.contains(prefix) { found.insert(prefix) }
            }
        }
        return found
    }

    /// The class of a packet to `destination`, except the provider's own, the link's own and name lookups. The local network
    /// and allowed networks precede all routes; of these, the most specific one counts, and of equal ones the excluded.
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

    /// The class of a lookup of `name`.
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

    /// Networks without bits behind their prefixes: nothing says whether the network or the one address was meant.
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
