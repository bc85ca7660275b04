// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
public import NetworkExtension
public import PacketTunnel

extension TunnelSettings {
    /// Returns these settings for `setTunnelNetworkSettings(_:completionHandler:)`.
    ///
    /// - The system requires an address as `remoteAddress`, so a name is replaced by the loopback address. This has no
    ///   effect.
    /// - The network of each address is routed into the tunnel, as on other interfaces.
    /// - If a family has routes but no address, it gets one (``NetworkExtensionSettings/placeholderIPv4`` or
    ///   ``NetworkExtensionSettings/placeholderIPv6``). Without an address the system would install no routes, and the
    ///   packets would bypass the tunnel.
    /// - The prefix of an IPv6 address is limited to 120 bits, because the system ignores longer ones. Routes are not
    ///   changed.
    /// - Allowed networks become excluded routes, under every leak policy. With a profile that includes all networks,
    ///   the system decides whether to respect them.
    /// - Without `mtu` the system gets the overhead and derives the MTU from the path's MTU.
    /// - Without `mtu` the system gets the overhead and derives the MTU from the path's.
    public func makeNetworkExtensionSettings() -> NEPacketTunnelNetworkSettings {
        NetworkExtensionSettings(self).make()
    }
}

/// Translates settings.
struct NetworkExtensionSettings {
    /// The address of an interface with IPv4 routes but no IPv4 address (RFC 5737).
    static let placeholderIPv4 = InterfaceAddress(host: .v4(192, 0, 2, 1))
    /// The placeholder for IPv6: an unused local address (RFC 4193).
    static let placeholderIPv6 = InterfaceAddress(host: .v6(0xfd63_756c_7665_7274, 1))
    /// The longest prefix of an interface's IPv6 address that the system respects.
    static let longestIPv6Prefix = 120

    let settings: TunnelSettings

    init(_ settings: TunnelSettings) {
        self.settings = settings
    }

    func make() -> NEPacketTunnelNetworkSettings {
        let result = NEPacketTunnelNetworkSettings(
            tunnelRemoteAddress: (try? IPAddress(settings.remoteAddress))?.description ?? "127.0.0.1")
        result.ipv4Settings = makeIPv4()
        result.ipv6Settings = makeIPv6()
        result.dnsSettings = settings.dns.map(makeDNS)
        result.proxySettings = settings.proxy.map(makeProxy)
        if let mtu = settings.mtu {
            result.mtu = NSNumber(value: mtu)
        } else {
            result.tunnelOverheadBytes = NSNumber(value: settings.overhead)
        }
        return result
    }

    /// The routes of a family: the settings' routes, and the networks of the interface itself.
    private func routes(isIPv6: Bool) -> (
        own: [InterfaceAddress], included: [IPPrefix], excluded: [IPPrefix]
    ) {
        let own = settings.addresses.filter { $0.isIPv6 == isIPv6 && $0.prefixLength < $0.address.bitWidth }
        let included = settings.effectiveRoutes.filter { $0.isIPv6 == isIPv6 }
        let ownNetworks = own.filter { !included.contains($0.network) }
        // A policy without excluded routes excludes only allowed networks, and validation has refused other excluded
        // routes.
        let excluded =
            (settings.leakPolicy.allowsExcludedRoutes ? settings.excludedRoutes : []) + settings.allowedNetworks
        return (ownNetworks, included, excluded.filter { $0.isIPv6 == isIPv6 })
    }

    private func makeIPv4() -> NEIPv4Settings? {
        let (own, included, excluded) = routes(isIPv6: false)
        var addresses = settings.addresses.filter { !$0.isIPv6 }
        if addresses.isEmpty {
            guard !included.isEmpty else { return nil }
            addresses = [Self.placeholderIPv4]
        }
        let result = NEIPv4Settings(
            addresses: addresses.map(\.address.description),
            subnetMasks: addresses.map(\.network.maskAddress.description))
        result.includedRoutes = own.map { route($0.network, through: $0.address) } + included.map { route($0) }
        result.excludedRoutes = excluded.map { route($0) }
        return result
    }

    private func route(_ prefix: IPPrefix, through gateway: IPAddress? = nil) -> NEIPv4Route {
        let route = NEIPv4Route(
            destinationAddress: prefix.address.description, subnetMask: prefix.maskAddress.description)
        route.gatewayAddress = gateway?.description
        return route
    }

    private func makeIPv6() -> NEIPv6Settings? {
        let (own, included, excluded) = routes(isIPv6: true)
        var addresses = settings.addresses.filter(\.isIPv6)
        if addresses.isEmpty {
            guard !included.isEmpty else { return nil }
            addresses = [Self.placeholderIPv6]
        }
        let result = NEIPv6Settings(
            addresses: addresses.map(\.address.description),
            networkPrefixLengths: addresses.map { NSNumber(value: min($0.prefixLength, Self.longestIPv6Prefix)) })
        result.includedRoutes = own.map { route6($0.network, through: $0.address) } + included.map { route6($0) }
        result.excludedRoutes = excluded.map { route6($0) }
        return result
    }

    private func route6(_ prefix: IPPrefix, through gateway: IPAddress? = nil) -> NEIPv6Route {
        let route = NEIPv6Route(
            destinationAddress: prefix.address.description, networkPrefixLength: NSNumber(value: prefix.length))
        route.gatewayAddress = gateway?.description
        return route
    }

    private func makeDNS(_ dns: DNSSettings) -> NEDNSSettings {
        let result = NEDNSSettings(servers: dns.servers.map(\.description))
        if !dns.searchDomains.isEmpty { result.searchDomains = dns.searchDomains }
        if !dns.servers.isEmpty {
            // The empty domain matches every name. Without it the system would only add the servers to its own.
            result.matchDomains = dns.matchDomains.isEmpty ? [""] : dns.matchDomains
            result.matchDomainsNoSearch = !dns.searchesMatchDomains
        }
        return result
    }

    private func makeProxy(_ proxy: ProxySettings) -> NEProxySettings {
        let result = NEProxySettings()
        if let server = proxy.http {
            result.httpEnabled = true
            result.httpServer = NEProxyServer(address: server.host, port: Int(server.port))
        }
        if let server = proxy.https {
            result.httpsEnabled = true
            result.httpsServer = NEProxyServer(address: server.host, port: Int(server.port))
        }
        if let url = proxy.autoConfigurationURL.flatMap({ URL(string: $0) }) {
            result.autoProxyConfigurationEnabled = true
            result.proxyAutoConfigurationURL = url
        }
        result.excludeSimpleHostnames = proxy.excludesSimpleHostnames
        if !proxy.exceptions.isEmpty { result.exceptionList = proxy.exceptions }
        return result
    }
}
