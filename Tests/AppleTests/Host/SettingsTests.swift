// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import Testing

@testable import PacketTunnel

@Suite("Settings for the system")
struct SettingsTests {
    @Test("an interface's addresses, networks and routes, of both families")
    func routes() throws {
        let settings = TunnelSettings(
            remoteAddress: "198.51.100.1",
            addresses: [try #require(NetworkPrefix("10.0.0.2/24")), try #require(NetworkPrefix("fd00::2/64"))],
            includedRoutes: [.allIPv4, try #require(NetworkPrefix("2001:db8::/32"))],
            excludedRoutes: [try #require(NetworkPrefix("192.168.0.0/16"))])
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
}
