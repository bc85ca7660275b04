// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CompatibilityFixtures
import Foundation
import NetworkAddresses
import PacketTunnel
import Testing
import WireGuardTunnel

@testable import Provisioning

/// The files of an app whose tunnel uses `addKey`, written by the library of an earlier commit.
@Suite("An addKey profile of an earlier version") struct AddKeyFixtureTests {
    private let scratch = FileManager.default.temporaryDirectory.appending(path: "culvert-app-\(UUID().uuidString)")
    private static let provider = "add-key"

    private func configuration() throws -> AddKeyConfiguration {
        let trust = ServerTrust.authorities(try Fixtures.text("gateway/addkey-ca.crt"), acceptsCommonName: true)
        var configuration = AddKeyConfiguration(
            servers: [ProvisioningServer(name: "192.0.2.2", port: AddKeyConfiguration.defaultPort, trust: trust)],
            customDNSServers: [.v4(203, 0, 113, 53)], leakPolicy: .enforcedRoutes)
        configuration.connectivity.pingAddress = "10.66.0.1"
        return configuration
    }

    private func token() throws -> SecretBytes {
        SecretBytes(Array(try Fixtures.line("gateway-admin/addkey.token").utf8))
    }

    @Test("An app's manager stores a profile and its token")
    func written() async throws {
        defer { try? FileManager.default.removeItem(at: scratch) }
        let directory = ProfileDirectory(path: Fixtures.place("app", otherwise: scratch).path)
        let manager = try await directory.manager().manager
        let configuration = try configuration()
        let profile = try TunnelProfile(
            name: "pia", provider: Self.provider, serverAddress: "192.0.2.2:1337", encoding: configuration)
        try await manager.create(profile, secrets: [configuration.tokenName: token()])
        #expect(try await directory.manager().manager.profiles == [profile])
    }

    @Test("A stored profile is read with its values, started and changed")
    func read() async throws {
        defer { try? FileManager.default.removeItem(at: scratch) }
        try Fixtures.copy("app", to: scratch.path)
        let directory = ProfileDirectory(path: scratch.path)
        let (manager, errors) = try await directory.manager()
        #expect(errors.isEmpty)
        var profile = try #require(await manager.profiles.first)
        #expect(profile.name == "pia" && profile.provider == Self.provider)
        var configuration: AddKeyConfiguration = try profile.configuration.decode()
        #expect(try configuration == self.configuration())
        let secret = try await directory.secrets().read(configuration.tokenName, of: profile.id)
        #expect(try secret.bytes == token().bytes)
        configuration.keepalive = 20
        profile.configuration = try JSONValue(encoding: configuration)
        try await manager.update(profile)
        #expect(try await directory.manager().manager.profiles == [profile])
    }
}
