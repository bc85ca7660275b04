// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import PacketTunnel
import Testing

@Suite("Network addresses and prefixes")
struct NetworkAddressTests {
    @Test(
        "read and write their usual text",
        arguments: [
            ("0.0.0.0", "0.0.0.0"), ("10.1.2.3", "10.1.2.3"), ("255.255.255.255", "255.255.255.255"),
            ("::", "::"), ("::1", "::1"), ("1::", "1::"), ("2001:DB8::1", "2001:db8::1"),
            ("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"), ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
            ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"), ("::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"),
            ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"), ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
            ("64:ff9b::192.0.2.1", "64:ff9b::c000:201"), ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"),
        ])
    func text(_ text: String, _ canonical: String) throws {
        let address = try #require(NetworkAddress(text))
        #expect(address.description == canonical)
        #expect(NetworkAddress(canonical) == address)
        #expect(NetworkAddress(bytes: address.bytes) == address)
    }

    @Test(
        "refuse what others might read differently",
        arguments: [
            "", "10", "10.1", "10.0.0", "10.0.0.0.0", "256.0.0.1", "010.0.0.1", "1.2.3.", ".1.2.3", "1.2.3.4 ",
            "1.2.3.-4",
            "0x1.2.3.4", ":", ":::", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "12345::", "::g", "fe80::1%eth0",
            "1:2:3:4:5:6:7::8:9", ":1:2:3:4:5:6:7", "1:2:3:4:5:6:7:", "1.2.3.4::", "::1.2.3", "[::1]",
        ])
    func refuse(_ text: String) {
        #expect(NetworkAddress(text) == nil)
    }

    @Test("know their kind")
    func kinds() throws {
        #expect(try #require(NetworkAddress("127.9.9.9")).isLoopback)
        #expect(try #require(NetworkAddress("::1")).isLoopback)
        #expect(try #require(NetworkAddress("239.1.1.1")).isMulticast)
        #expect(try #require(NetworkAddress("ff02::1")).isMulticast)
        #expect(try #require(NetworkAddress("169.254.7.7")).isLinkLocal)
        #expect(try #require(NetworkAddress("febf::1")).isLinkLocal)
        #expect(try #require(NetworkAddress("fec0::1")).isLinkLocal == false)
        #expect(NetworkAddress.v4(255, 255, 255, 255).isBroadcast)
        #expect(NetworkAddress.v6(0, 0).isUnspecified)
    }

    @Test(
        "prefixes read, mask and compare",
        arguments: [
            ("10.1.2.3/8", "10.1.2.3/8", "10.0.0.0/8", "255.0.0.0"),
            ("10.1.2.3", "10.1.2.3/32", "10.1.2.3/32", "255.255.255.255"),
            ("0.0.0.0/0", "0.0.0.0/0", "0.0.0.0/0", "0.0.0.0"),
            ("2001:db8::1/64", "2001:db8::1/64", "2001:db8::/64", "ffff:ffff:ffff:ffff::"),
            (
                "::1", "::1/128", "::1/128",
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
            ),
        ])
    func prefixes(_ text: String, _ written: String, _ network: String, _ mask: String) throws {
        let prefix = try #require(NetworkPrefix(text))
        #expect(prefix.description == written)
        #expect(prefix.network.description == network)
        #expect(prefix.maskAddress.description == mask)
        #expect(prefix.network.isNetwork)
        #expect(prefix.contains(prefix.address))
        #expect(prefix.contains(prefix.network))
    }

    @Test(
        "prefixes refuse a wrong length",
        arguments: [
            "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/08", "10.0.0.0/-1", "10.0.0.0/8/8", "/8",
            "10.0.0.0/255.0.0.0",
        ])
    func badPrefixes(_ text: String) {
        #expect(NetworkPrefix(text) == nil)
    }

    @Test("a prefix does not contain the other family, nor a wider one")
    func containment() throws {
        let ten = try #require(NetworkPrefix("10.0.0.0/8"))
        #expect(!ten.contains(NetworkAddress.v6(0, 0x0a00_0001)))
        #expect(!ten.contains(NetworkPrefix.allIPv4))
        #expect(NetworkPrefix.allIPv4.contains(ten))
        #expect(!ten.contains(NetworkAddress.v4(11, 0, 0, 0)))
    }

    @Test("are coded as text, and a wrong text names its place")
    func coding() throws {
        let prefixes = [try #require(NetworkPrefix("10.0.0.1/24")), .allIPv6]
        let bytes = try JSONEncoder().encode(prefixes)
        #expect(try JSONDecoder().decode([String].self, from: bytes) == ["10.0.0.1/24", "::/0"])
        #expect(try JSONDecoder().decode([NetworkPrefix].self, from: bytes) == prefixes)
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode([NetworkPrefix].self, from: Data(#"["10.0.0.0/40"]"#.utf8))
        }
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode([NetworkAddress].self, from: Data(#"["10.0.0"]"#.utf8))
        }
    }
}
