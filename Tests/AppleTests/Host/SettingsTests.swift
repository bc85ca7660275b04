// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import NetworkExtension
import Testing

@testable import PacketTunnel
@testable import PacketTunnelApple

@Suite("Settings for the system")
struct SettingsTests {
    @Test("An interface's addresses, networks and routes, of both families")
    func routes() throws {
        let settings = TunnelSettings(
            remoteAddress: "198.51.100.1",
            addresses: [try InterfaceAddress("10.0.0.2/24"), try InterfaceAddress("fd00::2/64")],
            includedRoutes: [.allIPv4, try IPPrefix("2001:db8::/32")],
            excludedRoutes: [try IPPrefix("192.168.0.0/16")])
        let made = settings.makeNetworkExtensionSettings()
        #expect(made.tunnelRemoteAddress == "198.51.100.1")
        let v4 = try #require(made.ipv4Settings)
        #expect(v4.addresses == ["10.0.0.2"])
        #expect(v4.subnetMasks == ["255.255.255.0"])
        #expect(v4.includedRoutes?.map(\.destinationAddress) == ["10.0.0.0", "0.0.0.0"])
        #expect(v4.includedRoutes?.map(\.destinationSubnetMask) == ["255.255.255.0", "0.0.0.0"])
        #expect(v4.includedRoutes?.map(\.gatewayAddress) == ["10.0.0.2", nil])
        #expect(v4.excludedRoutes?.map(\.destinationSubnetMask) == ["255.255.0.0"])
        let v6 = try #require(made.ipv6Settings)
        #expect(v6.networkPrefixLengths == [64])
        #expect(v6.includedRoutes?.map(\.destinationAddress) == ["fd00::", "2001:db8::"])
    }

    private static func settings(
        _ addresses: [String], _ routes: [String], _ adjust: (inout TunnelSettings) throws -> Void = { _ in }
    ) throws -> NEPacketTunnelNetworkSettings {
        var settings = TunnelSettings(
            remoteAddress: "vpn.example", addresses: try addresses.map { try InterfaceAddress($0) },
            includedRoutes: try routes.map { try IPPrefix($0) })
        try adjust(&settings)
        #expect(settings.validate().isEmpty)
        return settings.makeNetworkExtensionSettings()
    }

    @Test("Routes of a family without an address are kept, so that no packet of it leaves outside")
    func placeholders() throws {
        let four = try Self.settings(["10.0.0.2/32"], ["0.0.0.0/0", "::/0"])
        #expect(four.tunnelRemoteAddress == "127.0.0.1")
        #expect(four.ipv4Settings?.includedRoutes?.count == 1)
        #expect(four.ipv6Settings?.addresses == [NetworkExtensionSettings.placeholderIPv6.address.description])
        #expect(four.ipv6Settings?.includedRoutes?.map(\.destinationNetworkPrefixLength) == [0])
        let six = try Self.settings(["fd00::2/128"], ["0.0.0.0/0"])
        #expect(six.ipv4Settings?.addresses == ["192.0.2.1"])
        #expect(six.ipv6Settings?.networkPrefixLengths == [120])
        #expect(six.ipv6Settings?.includedRoutes == [])
        let none = try Self.settings(["10.0.0.2/32"], [])
        #expect(none.ipv6Settings == nil)
    }

    @Test("Under 'everything' both families are routed into the tunnel, whatever the routes are")
    func everything() throws {
        let made = try Self.settings(["10.0.0.2/32"], ["10.0.0.0/8"]) { $0.leakPolicy = .everything }
        #expect(made.ipv4Settings?.includedRoutes?.map(\.destinationAddress) == ["0.0.0.0"])
        #expect(made.ipv6Settings?.includedRoutes?.map(\.destinationAddress) == ["::"])
        #expect(made.ipv4Settings?.excludedRoutes == [])
    }

    @Test("Allowed networks are excluded routes under every policy", arguments: LeakPolicy.allCases)
    func allowedNetworks(_ policy: LeakPolicy) throws {
        let made = try Self.settings(["10.0.0.2/32"], ["0.0.0.0/0", "::/0"]) {
            $0.leakPolicy = policy
            $0.allowedNetworks = [try IPPrefix("192.168.7.0/24"), try IPPrefix("fd00:7::/64")]
        }
        #expect(made.ipv4Settings?.excludedRoutes?.map(\.destinationAddress) == ["192.168.7.0"])
        #expect(made.ipv6Settings?.excludedRoutes?.map(\.destinationNetworkPrefixLength) == [64])
    }

    @Test("Lookups of every name, or of some domains, with search domains apart")
    func names() throws {
        let all = try Self.settings(["10.0.0.2/32"], ["0.0.0.0/0"]) {
            $0.dns = DNSSettings(servers: [.v4(10, 0, 0, 1)], searchDomains: ["corp.example"])
        }
        #expect(all.dnsSettings?.servers == ["10.0.0.1"])
        #expect(all.dnsSettings?.matchDomains == [""])
        #expect(all.dnsSettings?.searchDomains == ["corp.example"])
        let split = try Self.settings(["10.0.0.2/32"], []) {
            $0.dns = DNSSettings(servers: [.v4(10, 0, 0, 1)], matchDomains: ["corp.example"])
        }
        #expect(split.dnsSettings?.matchDomains == ["corp.example"])
        #expect(split.dnsSettings?.matchDomainsNoSearch == true)
        #expect(try Self.settings(["10.0.0.2/32"], []).dnsSettings == nil)
    }

    @Test("Settings have an MTU, or the tunnel's overhead")
    func mtu() throws {
        let fixed = try Self.settings(["10.0.0.2/32"], []) { $0.mtu = 1_280 }
        #expect(fixed.mtu == 1_280 && fixed.tunnelOverheadBytes == nil)
        let automatic = try Self.settings(["10.0.0.2/32"], [])
        #expect(automatic.mtu == nil && automatic.tunnelOverheadBytes == 80)
    }

    @Test("Settings have proxies, by protocol and by script")
    func proxies() throws {
        let made = try Self.settings(["10.0.0.2/32"], []) {
            $0.proxy = ProxySettings(
                http: .init(host: "proxy.example", port: 8_080), autoConfigurationURL: "https://proxy.example/p.pac",
                exceptions: ["*.example"], excludesSimpleHostnames: true)
        }
        let proxy = try #require(made.proxySettings)
        #expect(proxy.httpEnabled && !proxy.httpsEnabled && proxy.autoProxyConfigurationEnabled)
        #expect(proxy.httpServer?.address == "proxy.example" && proxy.httpServer?.port == 8_080)
        #expect(proxy.proxyAutoConfigurationURL?.absoluteString == "https://proxy.example/p.pac")
        #expect(proxy.exceptionList == ["*.example"] && proxy.excludeSimpleHostnames)
    }
}
