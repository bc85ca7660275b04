// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import NetworkExtension
import PacketTunnelTesting
import Testing

@testable import PacketTunnel
@testable import PacketTunnelApple

/// An app and its extension, with the system between them. Each scene has a separate extension, so that tests do not
/// interfere.
final class ManagerScene: Sendable {
    let script = Script()
    let bundle = "com.example.\(UUID().uuidString)"
    let options: NetworkExtensionManagerOptions
    let secrets: KeychainSecretStore
    let store: NetworkExtensionProfileStore
    let manager: TunnelManager

    init(_ adjust: (inout NetworkExtensionManagerOptions) -> Void = { _ in }) {
        var options = NetworkExtensionManagerOptions(providerBundleIdentifier: bundle, accessGroup: "TEAM.example")
        adjust(&options)
        self.options = options
        let used = options
        secrets = KeychainSecretStore(accessGroup: "TEAM.example")
        store = NetworkExtensionProfileStore(options, secrets: secrets)
        let store = store
        manager = TunnelManager(store: store, secrets: secrets) { store.channel(for: $0) }
        let script = script
        StandInExtensions.install(bundle) {
            var options = NetworkExtensionOptions.standard(accessGroup: used.accessGroup)
            options.logger = NetworkExtensionOptions.quiet.logger
            options.watchesPath = false
            if used.placement == .systemConfiguration {
                // A system extension has no such keychain.
                (options.secrets, options.profiles) = (nil, nil)
            }
            return TunnelUnderTest<ScriptedProvider>(options) { ScriptedProvider(script) }
        }
    }

    /// The app after a restart: it loads the saved state.
    func restarted() async throws -> TunnelManager {
        let store = NetworkExtensionProfileStore(options, secrets: secrets)
        let manager = TunnelManager(store: store, secrets: secrets) { store.channel(for: $0) }
        try await manager.load()
        return manager
    }

    func profile(_ name: String = "Home") -> TunnelProfile {
        TunnelProfile(
            name: name, provider: "script", serverAddress: "vpn.example",
            configuration: .object(["name": .string("secret configuration")]))
    }

    func configuration(_ profile: TunnelProfile) throws -> SystemConfiguration {
        try #require(store.channel(for: profile) as? NetworkExtensionChannel).configuration
    }

    /// The system's side of a profile's connection.
    func session(_ profile: TunnelProfile) throws -> StandInSession {
        try #require(try configuration(profile).session).standIn
    }

    /// The statuses of a profile, until it has had this one.
    func statuses(_ id: String, until status: TunnelStatus) async -> TunnelStatusUpdate? {
        for await update in await manager.statusUpdates(id) where update.status == status { return update }
        return nil
    }
}
