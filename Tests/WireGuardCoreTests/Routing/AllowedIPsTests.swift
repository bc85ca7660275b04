// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import WireGuardCore

private func net4(_ a: UInt8, _ b: UInt8, _ c: UInt8, _ d: UInt8, _ length: Int) throws -> IPPrefix {
    try #require(IPPrefix(ip4(a, b, c, d), length: length))
}

private func ip4(_ a: UInt8, _ b: UInt8, _ c: UInt8, _ d: UInt8) -> IPAddress {
    IPAddress.v4(UInt32(a) << 24 | UInt32(b) << 16 | UInt32(c) << 8 | UInt32(d))
}

private func net6(_ high: UInt64, _ low: UInt64, _ length: Int) throws -> IPPrefix {
    try #require(IPPrefix(.v6(high, low), length: length))
}

private func prefixes(of peer: Int32, in table: borrowing AllowedIPs) -> [IPPrefix] {
    var found: [IPPrefix] = []
    table.forEach(of: peer) { found.append($0) }
    return found
}

@Suite("Allowed IPs")
struct AllowedIPsTests {
    @Test("The longest IPv4 prefix wins")
    func longestPrefixV4() throws {
        var table = AllowedIPs()
        let (a, b, c, d, e, f, g, h): (Int32, Int32, Int32, Int32, Int32, Int32, Int32, Int32) = (
            0, 1, 2, 3, 4, 5, 6, 7
        )
        try table.insert(net4(172, 16, 0, 0, 12), peer: a)
        try table.insert(net4(172, 16, 40, 0, 24), peer: b)
        try table.insert(net4(172, 16, 40, 200, 32), peer: a)
        try table.insert(net4(172, 16, 40, 128, 25), peer: c)
        try table.insert(net4(172, 16, 40, 192, 27), peer: d)
        try table.insert(net4(0, 0, 0, 0, 0), peer: e)
        try table.insert(net4(64, 20, 0, 0, 16), peer: g)
        try table.insert(net4(64, 20, 30, 0, 23), peer: h)
        try table.insert(net4(64, 20, 30, 77, 32), peer: f)
        #expect(table.count == 9)

        #expect(table.lookup(ip4(172, 16, 40, 5)) == b)
        #expect(table.lookup(ip4(172, 16, 40, 130)) == c)
        #expect(table.lookup(ip4(172, 16, 40, 195)) == d)
        #expect(table.lookup(ip4(172, 16, 40, 200)) == a)
        #expect(table.lookup(ip4(172, 16, 40, 201)) == d)
        #expect(table.lookup(ip4(172, 16, 40, 224)) == c)
        #expect(table.lookup(ip4(172, 16, 41, 0)) == a)
        #expect(table.lookup(ip4(172, 31, 255, 255)) == a)
        #expect(table.lookup(ip4(172, 32, 0, 0)) == e)
        #expect(table.lookup(ip4(64, 20, 29, 255)) == g)
        #expect(table.lookup(ip4(64, 20, 31, 1)) == h)
        #expect(table.lookup(ip4(64, 20, 30, 77)) == f)
        #expect(table.lookup(ip4(255, 255, 255, 255)) == e)
        #expect(table.lookup(v4: 0) == e)
        // The other family has nothing.
        #expect(table.lookup(IPAddress.v6(0, 0)) == nil)
        #expect(table.lookup(v6High: 0, low: 0) == -1)
    }

    @Test("The longest IPv6 prefix wins")
    func longestPrefixV6() throws {
        var table = AllowedIPs()
        let site: UInt64 = 0x2001_0db8_0042_0000
        try table.insert(net6(site, 0, 48), peer: 1)
        try table.insert(net6(site | 0x1000, 0, 52), peer: 2)
        try table.insert(net6(site | 0x1234, 0, 64), peer: 3)
        try table.insert(net6(site | 0x1234, 0xffff_0000_0000_0000, 80), peer: 4)
        try table.insert(net6(site | 0x1234, 0xffff_0000_0000_0009, 128), peer: 5)
        try table.insert(net6(0x2000 << 48, 0, 3), peer: 6)

        #expect(table.lookup(v6High: site, low: 1) == 1)
        #expect(table.lookup(v6High: site | 0x1fff, low: .max) == 2)
        #expect(table.lookup(v6High: site | 0x1234, low: 7) == 3)
        #expect(table.lookup(v6High: site | 0x1234, low: 0xffff_0000_0000_0008) == 4)
        #expect(table.lookup(v6High: site | 0x1234, low: 0xffff_0000_0000_0009) == 5)
        #expect(table.lookup(v6High: site | 0x1234, low: 0xfffe_0000_0000_0009) == 3)
        #expect(table.lookup(v6High: 0x3fff << 48, low: 0) == 6)
        #expect(table.lookup(v6High: 0x4000 << 48, low: 0) == -1)
        #expect(table.lookup(v4: 0x2001_0db8) == -1)
    }

    @Test("Host bits of a prefix do not count")
    func hostBits() throws {
        var table = AllowedIPs()
        try table.insert(net4(198, 51, 100, 77, 24), peer: 3)
        try #expect(table.insert(net4(198, 51, 100, 1, 24), peer: 4) == 3)
        #expect(table.count == 1)
        #expect(table.lookup(ip4(198, 51, 100, 200)) == 4)
        try #expect(prefixes(of: 4, in: table) == [net4(198, 51, 100, 0, 24)])
    }

    @Test("A prefix moves to the peer that it is set to last")
    func moves() throws {
        var table = AllowedIPs()
        let prefix = try net4(10, 1, 0, 0, 16)
        #expect(table.insert(prefix, peer: 7) == nil)
        #expect(table.insert(prefix, peer: 7) == nil)
        #expect(table.insert(prefix, peer: 9) == 7)
        #expect(table.count == 1)
        #expect(table.count(of: 7) == 0)
        #expect(table.count(of: 9) == 1)
        #expect(table.lookup(ip4(10, 1, 2, 3)) == 9)
        table.removeAll(of: 7)
        #expect(table.lookup(ip4(10, 1, 2, 3)) == 9)
    }

    @Test("Removing takes the exact prefix of the right peer only")
    func removal() throws {
        var table = AllowedIPs()
        try table.insert(net4(10, 0, 0, 0, 8), peer: 1)
        try table.insert(net4(10, 64, 0, 0, 10), peer: 2)
        try #expect(table.remove(net4(10, 64, 0, 0, 10), peer: 1) == false)
        try #expect(table.remove(net4(10, 64, 0, 0, 11), peer: 2) == false)
        try #expect(table.remove(net4(10, 0, 0, 0, 9), peer: 1) == false)
        try #expect(table.remove(net4(10, 0, 0, 0, 8), peer: -1) == false)
        #expect(table.count == 2)
        try #expect(table.remove(net4(10, 64, 0, 0, 10), peer: 2) == true)
        try #expect(table.remove(net4(10, 64, 0, 0, 10), peer: 2) == false)
        #expect(table.lookup(ip4(10, 64, 0, 1)) == 1)
        try #expect(table.remove(net4(10, 0, 0, 0, 8), peer: 1) == true)
        #expect(table.lookup(ip4(10, 64, 0, 1)) == nil)
        #expect(table.nodeCount == 0)
    }

    @Test("A branch without an entry never matches, and is removed with its children")
    func branches() throws {
        var table = AllowedIPs()
        try table.insert(net4(192, 0, 2, 0, 32), peer: 0)
        try table.insert(net4(192, 0, 2, 255, 32), peer: 1)
        #expect(table.nodeCount == 3)
        #expect(table.lookup(ip4(192, 0, 2, 1)) == nil)
        try #expect(table.remove(net4(192, 0, 2, 0, 24), peer: 0) == false)
        // The branch becomes an entry and back.
        try table.insert(net4(192, 0, 2, 0, 24), peer: 2)
        #expect(table.nodeCount == 3)
        #expect(table.lookup(ip4(192, 0, 2, 1)) == 2)
        try #expect(table.remove(net4(192, 0, 2, 0, 24), peer: 2) == true)
        #expect(table.nodeCount == 3)
        #expect(table.lookup(ip4(192, 0, 2, 1)) == nil)
        #expect(table.lookup(ip4(192, 0, 2, 255)) == 1)
        table.removeAll(of: 0)
        #expect(table.nodeCount == 1)
        #expect(table.lookup(ip4(192, 0, 2, 255)) == 1)
    }

    @Test("Prefixes that share their first bits branch where they part", arguments: 0..<32)
    func commonBits(_ common: Int) throws {
        var table = AllowedIPs()
        let one: UInt32 = 0xc0a8_5a3c
        let other = one ^ (1 << UInt32(31 - common))
        table.insert(try #require(IPPrefix(.v4(one), length: 32)), peer: 1)
        table.insert(try #require(IPPrefix(.v4(other), length: common + 1)), peer: 2)
        #expect(table.lookup(v4: one) == 1)
        #expect(table.lookup(v4: other) == 2)
        #expect(table.nodeCount == 3)
        if common > 0 { #expect(table.lookup(v4: one ^ 0x8000_0000) == -1) }
    }

    @Test("The default routes match everything of their family and nothing else")
    func defaultRoutes() throws {
        var table = AllowedIPs()
        try table.insert(net4(1, 2, 3, 4, 0), peer: 4)
        #expect(table.lookup(v4: .max) == 4)
        #expect(table.lookup(v6High: .max, low: .max) == -1)
        try table.insert(net6(1, 1, 0), peer: 6)
        #expect(table.lookup(v6High: .max, low: .max) == 6)
        try #expect(prefixes(of: 6, in: table) == [net6(0, 0, 0)])
    }

    @Test("A peer's prefixes are listed IPv4 first, each family in the order of insertion")
    func listing() throws {
        var table = AllowedIPs()
        let second = try net4(10, 0, 0, 2, 32)
        let order = try [net4(10, 9, 0, 0, 16), second, net4(10, 0, 0, 0, 8), net6(5, 0, 64), net6(4, 0, 64)]
        try table.insert(net6(5, 0, 64), peer: 2)
        for prefix in order { table.insert(prefix, peer: 2) }
        #expect(prefixes(of: 2, in: table) == order)
        table.remove(second, peer: 2)
        table.insert(second, peer: 2)
        #expect(prefixes(of: 2, in: table) == [order[0], order[2], second, order[3], order[4]])
        #expect(prefixes(of: 1, in: table).isEmpty)
        #expect(prefixes(of: -1, in: table).isEmpty)
        #expect(prefixes(of: .max, in: table).isEmpty)
        #expect(table.count(of: 2) == 5)
    }

    @Test("An empty table finds nothing and ignores removals")
    func empty() throws {
        var table = AllowedIPs()
        #expect(table.lookup(v4: 0) == -1)
        #expect(table.lookup(v6High: 0, low: 0) == -1)
        table.removeAll(of: 0)
        table.removeAll(of: -1)
        try #expect(table.remove(net4(0, 0, 0, 0, 0), peer: 0) == false)
        #expect(table.count == 0)
        #expect(table.nodeCount == 0)
    }
}
