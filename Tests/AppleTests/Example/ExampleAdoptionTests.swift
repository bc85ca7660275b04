// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import AppleTunnelExtension
import AppleTunnelModel
import CredentialTunnel
import Foundation
import NetworkAddresses
import NetworkExtension
import PacketTunnelTesting
import Provisioning
import Testing
import WireGuardCore
import WireGuardTunnel

@testable import PacketTunnel
@testable import PacketTunnelApple

/// The pages of the example, with the manager of the app, after another library has saved a configuration.
@Suite("The example's adoption of former configurations", .timeLimit(.minutes(5)))
@MainActor struct ExampleAdoptionTests {
    private let former = AdoptionTests()

    /// The identifier of one of the app's extensions.
    private static func identifier(_ name: String) -> String {
        "\(Bundle.main.bundleIdentifier ?? "com.example.AppleTunnel").\(name)"
    }

    /// Saves a configuration as another library does, and lets `adopt` load a page. Then the system has one configuration, which
    /// needed one permission and has no value but the profile's ID.
    private func check(
        _ name: String, _ values: [String: Any], _ fill: (NETunnelProviderProtocol) -> Void = { _ in },
        adopt: () async throws -> TunnelProfile
    ) async throws {
        let bundle = Self.identifier(name)
        let configuration = former.configuration(of: bundle, values: values)
        configuration.username = "kean"
        fill(configuration)
        try await former.save(configuration)
        let requests = StandInPreferences.permissionRequests(of: bundle)
        let profile = try await adopt()
        #expect(profile.name == "My VPN" && profile.isOnDemandEnabled && profile.onDemand.rules.count == 1)
        #expect(profile.userName == "kean" && profile.serverAddress == configuration.serverAddress)
        #expect(StandInPreferences.permissionRequests(of: bundle) == requests)
        let saved = try await former.saved(bundle)
        #expect(saved.map { $0.providerConfiguration?.keys.sorted() } == [[NetworkExtensionStart.idKey]])
    }

    /// Returns the profile with which an extension starts before the updated app has run.
    private func adoptedByExtension<Provider>(
        _ host: NetworkExtensionHost<Provider>, _ reference: [UInt8], _ server: String
    ) throws -> TunnelProfile? {
        var existing = ExistingConfiguration()
        (existing.serverAddress, existing.username, existing.passwordReference) = (server, "kean", reference)
        guard case .adopt(let profile, let secrets) = try host.options.adoptConfiguration?(existing) else { return nil }
        #expect(!secrets.isEmpty)
        return profile
    }

    private let items = KeychainItems(service: "com.example.\(UUID().uuidString)", accessGroup: nil)

    @Test("The WireGuard page shows the tunnel of an app with WireGuardKit")
    func wireGuardKit() async throws {
        let model = TunnelModel(TunnelModel.makeManager())
        let reference = try items.write(Array(Samples.wgQuickFile.utf8), "Home", label: "WireGuard Tunnel: Home")
        try await check("extension", [:]) {
            $0.passwordReference = Data(reference)
            ($0.includeAllNetworks, $0.excludeLocalNetworks) = (true, true)
        } adopt: {
            await model.load()
            #expect(model.screen == .profiles && model.alert == nil)
            return try #require(model.profiles.first)
        }
        let profile = try #require(model.profiles.first)
        #expect(
            try adoptedByExtension(AppleTunnelExtension.Tunnel(), reference, "vpn.example")?.provider == "wireguard")
        let configuration: WireGuardTunnelConfiguration = try profile.configuration.decode()
        #expect(configuration.peers.map { $0.endpoint?.description } == ["vpn.example:51820"])
        #expect(!profile.leakPolicy.leavesDecisionToRoutes && configuration.allowsLocalNetwork)
        model.removal = profile
        await model.remove()
        #expect(StandInPreferences.count(of: Self.identifier("extension")) == 0)
    }

    @Test("The login page shows BestVPN's server and user, and has the password")
    func bestVPN() async throws {
        let model = LoginModel(LoginModel.makeManager())
        let reference = try items.write(Array("123456".utf8), "kean", label: "kean")
        try await check("login", [:]) {
            $0.serverAddress = "vpn.example:9999"
            $0.passwordReference = Data(reference)
            ($0.includeAllNetworks, $0.excludeLocalNetworks) = (true, true)
        } adopt: {
            await model.load()
            #expect(model.alert == nil && model.details.server == "vpn.example:9999" && model.details.login == "kean")
            return try #require(model.profile)
        }
        let profile = try #require(model.profile)
        #expect(try adoptedByExtension(LoginTunnel(), reference, "vpn.example:9999")?.provider == "credential")
        let name = CredentialTunnelConfiguration.defaultPasswordName
        #expect(try await KeychainSecretStore().read(name, of: profile.id).bytes == Array("123456".utf8))
        let adopted: CredentialTunnelConfiguration = try profile.configuration.decode()
        #expect(!profile.leakPolicy.leavesDecisionToRoutes && adopted.allowsLocalNetwork)
        // The user adds the values that BestVPN did not have.
        model.details.serverKey = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="
        model.details.presharedKey = "FpCyhws9cxwWoV4xELtfJvjJN+zQVRPISllRWgeopVE="
        await model.save()
        #expect(model.alert == nil)
        await model.remove()
        #expect(StandInPreferences.count(of: Self.identifier("login")) == 0)
    }

    @Test("The addKey page shows the tunnel of an app with PIA's library, once the app contains the authority")
    func pia() async throws {
        let (bundle, token) = (Self.identifier("addkey"), "to+ken/for-the-account==")
        let values: [String: Any] = ["token": token, "use_ip": true, "cn": "server401", "packetSize": 1420]
        let model = AddKeyModel(AddKeyModel.makeManager(authority: "-----BEGIN CERTIFICATE-----"))
        try await check("addkey", values) { _ in
        } adopt: {
            // Without the authority, the configuration stays unchanged, and no second one can be installed.
            let incomplete = AddKeyModel(AddKeyModel.makeManager(authority: nil))
            await incomplete.load()
            #expect(incomplete.isUnreadable && incomplete.alert?.message.contains("authority.pem") == true)
            incomplete.details.serverAddress = "192.0.2.1"
            incomplete.details.commonName = "server401"
            incomplete.details.authority = "-----BEGIN CERTIFICATE-----"
            incomplete.details.token = token
            await incomplete.install()
            #expect(incomplete.profile == nil && incomplete.alert?.title == "The tunnel was not installed")
            let saved = try await former.saved(bundle)
            #expect(saved.map { $0.providerConfiguration?["token"] as? String } == [token])
            await model.load()
            #expect(model.alert == nil && !model.isUnreadable)
            return try #require(model.profile)
        }
        let profile = try #require(model.profile)
        let configuration: AddKeyConfiguration = try profile.configuration.decode()
        #expect(configuration.servers.map(\.name) == ["server401"] && configuration.packetSize == 1420)
        let kept = try await KeychainSecretStore().read(configuration.tokenName, of: profile.id).bytes
        #expect(kept == Array(token.utf8))
        await model.remove()
        #expect(StandInPreferences.count(of: bundle) == 0)
    }
}
