// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import NetworkAddresses
import PacketTunnelTesting
import Testing

@testable import PacketTunnel

@Suite("Endpoint lookup", .timeLimit(.minutes(5)))
struct EndpointLookupTests {
    static let v4 = IPAddress.v4(198, 51, 100, 1)
    static let v6 = IPAddress.v6(0x2001_0db8_0000_0000, 1)

    private func lookup(
        _ host: String, _ table: [String: [IPAddress]], v4: Bool, v6: Bool
    ) async throws -> [String] {
        let lookup = EndpointLookup(resolver: ScriptedResolver(table), clock: ContinuousClock(), timeout: .seconds(60))
        let path = NetworkPath(supportsIPv4: v4, supportsIPv6: v6)
        let address = try EndpointAddress("\(host):51820")
        return try await lookup.endpoints(of: address, on: path).map(\.description)
    }

    @Test("The path decides the family: IPv4 first if there are both, and only reachable addresses")
    func families() async throws {
        let table = ["both": [Self.v6, Self.v4]]
        #expect(
            try await lookup("both", table, v4: true, v6: true) == ["198.51.100.1:51820", "[2001:db8::1]:51820"])
        #expect(try await lookup("both", table, v4: true, v6: false) == ["198.51.100.1:51820"])
        #expect(try await lookup("both", table, v4: false, v6: true) == ["[2001:db8::1]:51820"])
    }

    @Test(
        "On IPv6 only, IPv4 names and literals are mapped with the network's prefix",
        arguments: ["old", "198.51.100.1"])
    func mapped(host: String) async throws {
        let prefix = try #require(NAT64Prefix.standard)
        let table = ["old": [Self.v4], NAT64Prefix.discoveryName: [prefix.embed(0xc000_00aa)]]
        #expect(try await lookup(host, table, v4: false, v6: true) == ["[64:ff9b::c633:6401]:51820"])
    }

    @Test("A server on an attached network is found without a default route of its family", arguments: [false, true])
    func attached(_ isIPv6: Bool) async throws {
        let server = isIPv6 ? Self.v6 : Self.v4
        let lookup = EndpointLookup(
            resolver: ScriptedResolver(["server": [server]]), clock: ContinuousClock(), timeout: .seconds(60))
        var path = NetworkPath(supportsIPv4: isIPv6, supportsIPv6: !isIPv6)
        path.attachedNetworks = [try IPPrefix(isIPv6 ? "2001:db8::/64" : "198.51.100.0/24")]
        for host in isIPv6 ? ["server"] : ["server", "198.51.100.1"] {
            let address = try EndpointAddress("\(host):51820")
            #expect(try await lookup.endpoints(of: address, on: path).map(\.address) == [server])
        }
    }

    @Test("Without a route to any address, and without a prefix, the lookup fails with the reason")
    func noWay() async throws {
        for (v4, v6, addresses) in [(true, false, [Self.v6]), (false, true, [Self.v4])] {
            let error = await #expect(throws: TunnelError.self) {
                _ = try await lookup("some", ["some": addresses], v4: v4, v6: v6)
            }
            #expect(error?.code == .networkUnavailable)
        }
    }

    @Test("f2.7: a lookup that hangs ends by its timeout, and is left to itself")
    func timeout() async throws {
        let (clock, resolver) = (VirtualClock(), ScriptedResolver())
        resolver.set("slow", .hang)
        let lookup = EndpointLookup(resolver: resolver, clock: clock, timeout: .seconds(10))
        let address = try EndpointAddress("slow:1")
        let task = Task { try await lookup.endpoints(of: address, on: NetworkPath()) }
        await clock.waitForSleepers()
        clock.advance(by: .seconds(10))
        let error = await #expect(throws: TunnelError.self) { _ = try await task.value }
        #expect(error?.code == .nameResolutionFailed)
        resolver.release()
    }

    @Test("The system's resolver resolves localhost, and reports the error for an unknown name")
    func system() async throws {
        let resolver = SystemEndpointResolver()
        let found = try await resolver.resolve("localhost")
        #expect(found.contains { $0.isLoopback })
        let error = await #expect(throws: TunnelError.self) { _ = try await resolver.resolve("not a name") }
        #expect(error?.code == .nameResolutionFailed)
    }
}
