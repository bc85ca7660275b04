// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import TunnelIO

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

@Suite("The system's resolver")
struct HostLookupTests {
    @Test("A text address gives one endpoint with the given port")
    func literals() throws {
        #expect(
            try HostLookup.endpoints(of: "192.0.2.1", port: 51820) == [
                Endpoint(address: .v4(0xc000_0201), port: 51820)
            ])
        #expect(
            try HostLookup.endpoints(of: "2001:db8::1", port: 7) == [
                Endpoint(address: .v6(0x2001_0db8 << 32, 1), port: 7)
            ])
    }

    @Test("A link-local address keeps its zone")
    func zone() throws {
        var name = [CChar](repeating: 0, count: Int(IF_NAMESIZE))
        try #require(unsafe if_indextoname(1, &name) != nil)
        let text = String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        let found = try HostLookup.endpoints(of: "fe80::1%\(text)", port: 7)
        #expect(found == [Endpoint(address: .v6(0xfe80 << 48, 1), port: 7, scopeID: 1)])
    }

    @Test("Localhost is a loopback address")
    func localhost() throws {
        let found = try HostLookup.endpoints(of: "localhost", port: 7)
        #expect(found.contains(.loopback(isIPv6: false, port: 7)) || found.contains(.loopback(isIPv6: true, port: 7)))
        #expect(Set(found).count == found.count)
    }

    @Test("A lookup of an invalid name fails with the system's reason")
    func failure() {
        let error = #expect(throws: HostLookupFailure.self) { try HostLookup.endpoints(of: "not a name", port: 7) }
        #expect(error?.reason.isEmpty == false)
    }
}
