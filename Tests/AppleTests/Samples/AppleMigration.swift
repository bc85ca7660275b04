// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnel
import PacketTunnelApple
import TunnelIO
import WireGuardTunnel

// docs/migrating-from-wireguardkit.md
enum WireGuardKitMigration {
    final class Tunnel: NetworkExtensionHost<WireGuardTunnelProvider>, @unchecked Sendable {
        override var options: NetworkExtensionOptions {
            let log = SharedLog(appGroup: "group.com.example.app", subsystem: "com.example.app")
            var options = NetworkExtensionOptions.standard(accessGroup: "TEAMID.com.example.tunnel", log: log)
            options.adoptConfiguration = Tunnels.readFormerTunnel
            return options
        }

        override func makeProvider() -> WireGuardTunnelProvider { Tunnels.makeProvider() }
    }

    enum Tunnels {
        @Sendable static func readFormerTunnel(_ former: ExistingConfiguration) throws -> ConfigurationAdoption {
            guard former.passwordReference != nil else { return .leave }
            guard let text = try former.password() else {
                throw TunnelError(.secretUnavailable, "the keychain item of '\(former.name)' was not found")
            }
            let parts = try WireGuardTunnelConfiguration.split(wgQuick: String(decoding: text.bytes, as: UTF8.self))
            var configuration = parts.configuration
            configuration.allowsLocalNetwork = former.allowsLocalNetwork
            var profile = try TunnelProfile(
                name: former.name, provider: "wireguard", serverAddress: former.serverAddress, encoding: configuration)
            profile.onDemand = former.onDemand
            profile.isOnDemandEnabled = former.isOnDemandEnabled
            profile.leakPolicy = former.leakPolicy
            return .adopt(profile, secrets: parts.secrets)
        }

        static func makeProvider(_ environment: WireGuardEnvironment = WireGuardEnvironment())
            -> WireGuardTunnelProvider
        {
            WireGuardTunnelProvider(environment: environment).answer(VersionRequest.self) { _ in
                VersionRequest.Reply(version: "1.2")
            }
        }

        static func makeManager(
            isSimulator: Bool = SimulatorCheck.isSimulator, environment: WireGuardEnvironment = WireGuardEnvironment()
        ) -> TunnelManager {
            var options = NetworkExtensionManagerOptions(
                providerBundleIdentifier: "com.example.app.network-extension",
                accessGroup: "TEAMID.com.example.tunnel")
            options.adoptConfiguration = readFormerTunnel
            return TunnelManager.default(options, isSimulator: isSimulator) { makeProvider(environment) }
        }
    }

    struct VersionRequest: TunnelMessage {
        struct Reply: Codable, Sendable { var version: String }
    }

    static func add(_ text: String, to manager: TunnelManager) async throws -> TunnelProfile {
        let parts = try WireGuardTunnelConfiguration.split(wgQuick: text)
        let profile = try TunnelProfile(
            name: "Home", provider: "wireguard", serverAddress: "vpn.example", encoding: parts.configuration)
        try await manager.create(profile, secrets: parts.secrets)  // The system asks the user, once.
        return profile
    }

    static func change(_ profile: TunnelProfile, to newText: String, _ manager: TunnelManager) async throws {
        var profile = profile
        let parts = try WireGuardTunnelConfiguration.split(wgQuick: newText)
        profile.configuration = try JSONValue(encoding: parts.configuration)
        profile.onDemand = .wifiOnly()
        profile.isOnDemandEnabled = true
        try await manager.update(profile, secrets: parts.secrets)
        if await manager.status(profile.id).status == .connected {
            _ = try await manager.send(ReconfigureRequest(configuration: parts.configuration), to: profile.id)
        }
    }

    static func use(_ manager: TunnelManager, _ id: String) async throws {
        try await manager.start(id)  // Returns at the first handshake, or throws the reason.

        let status = try await manager.send(StatusRequest(), to: id)
        for peer in status.peers { print(peer.publicKey, peer.receivedBytes, peer.sentBytes) }

        let version = try await manager.send(VersionRequest(), to: id).version
        print(version)

        try await manager.stop(id)
    }

    static func startServer(
        _ text: String, on network: any DatagramNetwork
    ) async throws -> MemoryHost<WireGuardTunnelProvider> {
        let parts = try WireGuardTunnelConfiguration.split(wgQuick: text)
        let secrets = MemorySecretStore()
        for (name, secret) in parts.secrets { try await secrets.write(secret, name, of: "server") }
        let environment = WireGuardEnvironment(network: network)
        let server = MemoryHost(secrets: secrets) { WireGuardTunnelProvider(environment: environment) }
        try await server.start(parts.configuration, profileID: "server")
        return server
    }

    static func connect(to serverText: String) async throws -> (TunnelManager, MemoryHost<WireGuardTunnelProvider>) {
        let internet = MemoryInternet()
        let server = try await startServer(serverText, on: internet.attach("192.0.2.1"))
        let environment = WireGuardEnvironment(network: try internet.attach("198.51.100.7"))
        let manager = Tunnels.makeManager(isSimulator: true, environment: environment)
        return (manager, server)
    }
}

// docs/migrating-from-tunnelmonitorkit.md
enum TunnelMonitorKitMigration {
    struct StatusQuery: TunnelMessage { typealias Reply = StatusAnswer }

    struct StatusAnswer: Codable, Sendable { var server: String? }

    actor ExampleTunnel: PacketTunnelProvider {
        struct Configuration: Codable, Sendable {
            var server: String
            var settings: TunnelSettings
        }

        nonisolated let router = MessageRouter()
        private var server: String?

        init() {
            answer(StatusQuery.self) { [weak self] _ in StatusAnswer(server: await self?.server) }
        }

        func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
            let token = try await context.secret("token")
            try await logIn(configuration.server, token)
            try await context.apply(configuration.settings)
            server = configuration.server
        }

        func stop(_ reason: StopReason) async { router.close() }

        private func logIn(_ server: String, _ token: SecretBytes) async throws(TunnelError) {}
    }

    final class Tunnel: NetworkExtensionHost<ExampleTunnel>, @unchecked Sendable {
        override var options: NetworkExtensionOptions {
            var options = NetworkExtensionOptions.standard(accessGroup: "TEAMID.com.example.tunnel")
            options.adoptConfiguration = Tunnels.readFormerTunnel
            return options
        }
    }

    struct UserConfiguration: Codable { var server, token: String }

    enum Tunnels {
        static func configuration(_ server: String) throws -> ExampleTunnel.Configuration {
            let settings = TunnelSettings(
                remoteAddress: "192.0.2.10", addresses: [try InterfaceAddress("10.9.0.2/24")],
                includedRoutes: [.allIPv4], excludedRoutes: [try IPPrefix("192.168.0.0/16")],
                dns: DNSSettings(servers: [try IPAddress("10.9.0.1")]), mtu: 1400)
            return ExampleTunnel.Configuration(server: server, settings: settings)
        }

        @Sendable static func readFormerTunnel(_ former: ExistingConfiguration) throws -> ConfigurationAdoption {
            guard let json = former.providerConfiguration["TMUserConfiguration"] as? Data else { return .leave }
            let old = try JSONDecoder().decode(UserConfiguration.self, from: json)
            let profile = try TunnelProfile(
                name: former.name, provider: "example", serverAddress: former.serverAddress,
                encoding: try configuration(old.server))
            return .adopt(profile, secrets: ["token": SecretBytes(old.token.utf8)])
        }

        static func makeManager(isSimulator: Bool = SimulatorCheck.isSimulator) -> TunnelManager {
            var options = NetworkExtensionManagerOptions(
                providerBundleIdentifier: "com.example.app.tunnel", accessGroup: "TEAMID.com.example.tunnel")
            options.adoptConfiguration = readFormerTunnel
            return TunnelManager.default(options, isSimulator: isSimulator) { ExampleTunnel() }
        }

        static func load(_ manager: TunnelManager, _ user: UserConfiguration) async throws -> TunnelProfile {
            for problem in try await manager.load() { print(problem) }
            let secrets = ["token": SecretBytes(user.token.utf8)]
            if var profile = await manager.profiles.first {
                profile.configuration = try JSONValue(encoding: configuration(user.server))
                try await manager.update(profile, secrets: secrets)
                return profile
            }
            if let error = await manager.adoptionErrors.first { throw error }
            if let error = await manager.unreadableProfiles.first?.error { throw error }
            let profile = try TunnelProfile(
                name: "Example", provider: "example", serverAddress: "192.0.2.10",
                encoding: configuration(user.server))
            try await manager.create(profile, secrets: secrets)  // The system asks the user, once.
            return profile
        }
    }

    static func use(_ manager: TunnelManager, _ id: String) async throws {
        try await manager.start(id)
        let answer = try await manager.send(StatusQuery(), to: id)
        print(answer.server ?? "")
    }

    static func watch(_ manager: TunnelManager, _ profile: TunnelProfile) async {
        for await event in TunnelMonitor(manager, profile.id, every: .seconds(2), asking: StatusQuery()) {
            switch event {
            case .status(let update): print(update.status)  // update.error is the reason for its end.
            case .reply(let answer): print(answer.server ?? "")
            case .failure(let error): print(error)  // A MessageError. The monitor continues.
            }
        }
    }
}
