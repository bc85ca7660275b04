// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import PacketTunnelLinux

@Suite("Networks that count as local")
struct LocalNetworksTests {
    @Test(
        "An own address in a private range makes its network local, up to a /16 or a /64",
        arguments: [
            ("192.168.7.5/24", "192.168.7.0/24"), ("10.1.2.3/8", "10.1.0.0/16"), ("10.1.2.3/0", "10.1.0.0/16"),
            ("172.16.5.6/12", "172.16.0.0/16"), ("169.254.1.1/16", "169.254.0.0/16"),
            ("100.64.9.9/10", "100.64.0.0/16"), ("192.168.1.1/32", "192.168.1.1/32"),
            ("fd00:1:2:3::4/48", "fd00:1:2:3::/64"), ("fe80::1/64", "fe80::/64"), ("fe80::1/10", "fe80::/64"),
        ])
    func local(_ address: String, _ network: String) throws {
        #expect(LocalNetworks.of([try InterfaceAddress(address)]).map(\.description) == [network])
    }

    @Test(
        "A public network is not local, whatever a DHCP server or a router announces",
        arguments: [
            "8.8.8.8/1", "128.0.0.1/1", "203.0.113.5/24", "11.0.0.1/7", "172.32.0.1/12", "100.128.0.1/10",
            "192.169.0.1/15", "2001:db8::1/3", "2001:db8::1/64", "2000::1/128", "127.0.0.1/8", "::1/128",
        ])
    func foreign(_ address: String) throws {
        #expect(LocalNetworks.of([try InterfaceAddress(address)]).isEmpty)
    }

    @Test("Each network is listed once, in an order that does not depend on that of the addresses")
    func order() throws {
        let addresses = try ["192.168.7.5/24", "10.0.0.1/24", "192.168.7.6/24"].map { try InterfaceAddress($0) }
        #expect(LocalNetworks.of(addresses).map(\.description) == ["10.0.0.0/24", "192.168.7.0/24"])
        #expect(LocalNetworks.of(addresses) == LocalNetworks.of(addresses.reversed()))
    }
}
