// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing
import WireGuardCore
import WireGuardDevice

@Suite("Endpoints of a configuration", .timeLimit(.minutes(2)))
struct ResolvedEndpointsTests {
    private func configuration(_ endpoints: String...) throws -> TunnelConfiguration {
        var random = SystemRandomNumberGenerator()
        let peers = endpoints.map { endpoint in
            "[Peer]\nPublicKey = \(PrivateKey(using: &random).publicKey.base64)\nEndpoint = \(endpoint)\n"
        }
        let key = PrivateKey(using: &random).exportedBase64
        return try TunnelConfiguration.parse("[Interface]\nPrivateKey = \(key)\n" + peers.joined())
    }

    @Test("Names are resolved, and addresses are unchanged")
    func names() throws {
        let configuration = try configuration("localhost:51820", "192.0.2.7:7", "[2001:db8::1]:8")
        let endpoints = try ResolvedEndpoints(of: configuration)
        let update = try configuration.deviceUpdate(resolve: endpoints.endpoint)
        let found = update.peers.compactMap { $0.endpoint?.description }
        #expect(["127.0.0.1:51820", "[::1]:51820"].contains(found.first))
        #expect(found.dropFirst() == ["192.0.2.7:7", "[2001:db8::1]:8"])
    }

    @Test("A host without an address is an error that names it and the reason")
    func nobody() throws {
        let configuration = try configuration("no-such-host.invalid:51820")
        let error = #expect(throws: WireGuardDeviceError.self) { _ = try ResolvedEndpoints(of: configuration) }
        #expect(error?.description.hasPrefix("the host of no-such-host.invalid:51820 has no address: ") == true)
    }

    @Test("A lookup without time ends with an error rather than without an endpoint")
    func noTime() throws {
        let configuration = try configuration("no-such-host.invalid:51820")
        #expect(throws: WireGuardDeviceError.self) { _ = try ResolvedEndpoints(of: configuration, within: .zero) }
        #expect(throws: UnresolvedEndpoint.self) { try configuration.deviceUpdate() }
    }
}
