// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import PacketTunnel

@Suite("NAT64")
struct NAT64PrefixTests {
    static let base: UInt128 = 0x2001_0db8_0122_0344_0000_0000_0000_0000

    /// RFC 6052 section 2.4: 192.0.2.33 under each length.
    @Test(
        "IPv4 addresses are embedded as RFC 6052 has it",
        arguments: [
            ("2001:db8::", 32, "2001:db8:c000:221::"), ("2001:db8:100::", 40, "2001:db8:1c0:2:21::"),
            ("2001:db8:122::", 48, "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::", 56, "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::", 64, "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::", 96, "2001:db8:122:344::c000:221"),
        ])
    func embedding(prefix: String, length: Int, expected: String) throws {
        let value = try IPAddress(prefix).value
        let found = try #require(NAT64Prefix(value: value, length: length))
        #expect(try found.embed(0xc000_0221) == IPAddress(expected))
    }

    @Test("Every length is found again in the answer for ipv4only.arpa", arguments: NAT64Prefix.lengths)
    func discovery(length: Int) throws {
        let prefix = try #require(NAT64Prefix(value: Self.base, length: length))
        let answers = NAT64Prefix.wellKnown.map { prefix.embed($0) }
        #expect(NAT64Prefix.discover(from: answers) == [prefix])
    }

    @Test("The well-known prefix, several prefixes, and answers that show none")
    func several() throws {
        let standard = try #require(NAT64Prefix.standard)
        #expect(try standard.embed(0xc633_6401) == IPAddress("64:ff9b::198.51.100.1"))
        let other = try #require(NAT64Prefix(value: Self.base, length: 96))
        let answers = [standard.embed(0xc000_00aa), other.embed(0xc000_00ab), standard.embed(0xc000_00ab)]
        #expect(NAT64Prefix.discover(from: answers) == [standard, other])
        #expect(NAT64Prefix.discover(from: [.v4(192, 0, 0, 170)]).isEmpty)
        #expect(NAT64Prefix.discover(from: [.v6(1, 2)]).isEmpty)
        #expect(NAT64Prefix(value: 0, length: 95) == nil)
    }
}
