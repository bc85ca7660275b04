// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnel
import PacketTunnelApple
import WireGuardTunnel

// docs/migrating-from-wireguardkit.md
enum WireGuardKitMigration {
    final class Tunnel: NetworkExtensionHost<WireGuardTunnelProvider>, @unchecked Sendable {
        override var options: NetworkExtensionOptions {
            var options = NetworkExtensionOptions.standard(accessGroup: "TEAMID.com.example.tunnel")
            options.adoptConfiguration = readFormerTunnel
            return options
        }
    }

    @Sendable static func readFormerTunnel(_ former: ExistingConfiguration) throws -> ConfigurationAdoption {
        guard former.passwordReference != nil else { return .leave }
        guard let text = try former.password() else {
            throw TunnelError(.secretUnavailable, "the keychain item of '\(former.name)' was not found")
        }
        let parts = try WireGuardTunnelConfiguration.split(wgQuick: String(decoding: text.bytes, as: UTF8.self))
        var profile = try TunnelProfile(
            name: former.name, provider: "wireguard", serverAddress: former.serverAddress,
            encoding: parts.configuration)
        profile.onDemand = former.onDemand
        profile.isOnDemandEnabled = former.isOnDemandEnabled
        profile.leakPolicy = former.leakPolicy
        return .adopt(profile, secrets: parts.secrets)
    }

    static func openTunnels() async throws -> TunnelManager {
        var options = NetworkExtensionManagerOptions(
            providerBundleIdentifier: "com.example.app.network-extension", accessGroup: "TEAMID.com.example.tunnel")
        options.adoptConfiguration = readFormerTunnel
        let manager = TunnelManager.default(options) { WireGuardTunnelProvider() }
        for problem in try await manager.load() { print(problem) }
        return manager
    }

    static func use(_ manager: TunnelManager, _ id: String, newText: String) async throws {
        try await manager.start(id, options: ["activationAttemptId": .string(UUID().uuidString)])

        let status = try await manager.send(StatusRequest(), to: id)
        for peer in status.peers { print(peer.publicKey, peer.receivedBytes, peer.sentBytes) }

        let parts = try WireGuardTunnelConfiguration.split(wgQuick: newText)
        _ = try await manager.send(ReconfigureRequest(configuration: parts.configuration), to: id)

        try await manager.stop(id)
    }
}

// docs/migrating-from-tunnelmonitorkit.md
enum TunnelMonitorKitMigration {
    struct StatusQuery: Codable, Sendable {}

    struct StatusAnswer: Codable, Sendable { var text: String }

    actor ExampleTunnel: PacketTunnelProvider {
        struct Configuration: Codable, Sendable {
            var server: String
            var address: IPAddress
        }

        nonisolated let router = MessageRouter()

        init() { answer(StatusQuery.self, replying: StatusAnswer.self) { _ in StatusAnswer(text: "up") } }

        func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
            let token = try await context.secret("token")
            try await logIn(configuration.server, token)
            try await context.apply(
                TunnelSettings(
                    remoteAddress: configuration.server, addresses: [InterfaceAddress(host: configuration.address)],
                    includedRoutes: [.allIPv4]))
        }

        func stop(_ reason: StopReason) async { router.close() }

        private func logIn(_ server: String, _ token: SecretBytes) async throws(TunnelError) {}
    }

    final class Tunnel: NetworkExtensionHost<ExampleTunnel>, @unchecked Sendable {
        override var options: NetworkExtensionOptions {
            var options = NetworkExtensionOptions.standard(accessGroup: "TEAMID.com.example.tunnel")
            options.adoptConfiguration = readFormerTunnel
            return options
        }
    }

    /// The user configuration that the app passed to TunnelMonitorKit.
    struct FormerConfiguration: Codable { var server, address, token: String }

    @Sendable static func readFormerTunnel(_ former: ExistingConfiguration) throws -> ConfigurationAdoption {
        guard let json = former.providerConfiguration["TMUserConfiguration"] as? Data else { return .leave }
        let old = try JSONDecoder().decode(FormerConfiguration.self, from: json)
        let profile = try TunnelProfile(
            name: former.name, provider: "example", serverAddress: former.serverAddress,
            encoding: ExampleTunnel.Configuration(server: old.server, address: try IPAddress(old.address)))
        return .adopt(profile, secrets: ["token": SecretBytes(Array(old.token.utf8))])
    }

    static func makeManager(isSimulator: Bool = SimulatorCheck.isSimulator) -> TunnelManager {
        var options = NetworkExtensionManagerOptions(
            providerBundleIdentifier: "com.example.app.tunnel", accessGroup: "TEAMID.com.example.tunnel")
        options.adoptConfiguration = readFormerTunnel
        return TunnelManager.default(options, isSimulator: isSimulator) { ExampleTunnel() }
    }

    static func use(_ manager: TunnelManager, _ id: String) async throws {
        try await manager.start(id)
        let answer = try await manager.send(StatusQuery(), expecting: StatusAnswer.self, to: id)
        print(answer.text)
    }
}
