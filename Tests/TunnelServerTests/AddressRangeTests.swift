// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import TunnelServer

@Suite("Addresses that clients can have") struct AddressRangeTests {
    private func range(_ server: String) throws -> AddressRange { try AddressRange(server: InterfaceAddress(server)) }

    @Test("A range has each address of its network, but not the server's own, the network's or the broadcast")
    func contents() throws {
        let range = try range("10.66.0.1/29")
        let contents = try (0..<9).map { try IPAddress("10.66.0.\($0)") }.filter(range.contains)
        #expect(contents.map(\.description) == (2...6).map { "10.66.0.\($0)" })
        #expect(range.capacity == 5 && range.address(range.usable.lowerBound + 1) == contents[0])
        #expect(try !range.contains(IPAddress("fd00::2")))
    }

    @Test("A range of IPv6 has the last address of its network, and more addresses than can be counted")
    func wide() throws {
        let range = try range("fd00:66::1/64")
        for (address, isContained) in [
            ("fd00:66::", false), ("fd00:66::1", false), ("fd00:66::2", true), ("fd00:66::ffff:ffff:ffff:ffff", true),
            ("fd00:67::2", false),
        ] {
            #expect(try range.contains(IPAddress(address)) == isContained, "\(address)")
        }
        #expect(range.capacity == .max)
    }

    @Test("A network without room for a client is refused, and one with two addresses has room for one")
    func small() throws {
        for server in ["10.66.0.1/32", "fd00::1/128"] {
            #expect(throws: AddressRangeError.self, "\(server)") { try range(server) }
        }
        for (server, client) in [("10.66.0.0/31", "10.66.0.1"), ("fd00::/127", "fd00::1")] {
            let range = try range(server)
            #expect(range.capacity == 1)
            #expect(try range.contains(IPAddress(client)) && !range.contains(range.server))
        }
    }
}
