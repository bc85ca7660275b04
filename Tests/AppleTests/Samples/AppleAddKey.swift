// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelApple
import Provisioning
import ProvisioningApple
import WireGuardTunnel

// docs/migrating-from-pia.md
/// The text of PIA.pem.
let authority = "-----BEGIN CERTIFICATE-----"

@Sendable func readPIAConfiguration(_ former: ExistingConfiguration) throws -> ConfigurationAdoption {
    guard former.providerConfiguration["token"] is String else { return .leave }
    var (configuration, token) = try AddKeyConfiguration.fromProviderConfiguration(
        former.providerConfiguration, serverAddress: former.serverAddress,
        trust: .authorities(authority, acceptsCommonName: true))
    configuration.allowsLocalNetwork = former.allowsLocalNetwork
    var profile = try TunnelProfile(
        name: former.name, provider: "add-key", serverAddress: former.serverAddress, encoding: configuration)
    profile.onDemand = former.onDemand
    profile.isOnDemandEnabled = former.isOnDemandEnabled
    profile.leakPolicy = former.leakPolicy
    profile.userName = former.username
    return .adopt(profile, secrets: [configuration.tokenName: token])
}

enum AddKeyMigration {
    struct VersionRequest: TunnelMessage {
        struct Reply: Codable, Sendable { var version: String }
        static let name = "example.version"
    }

    final class Tunnel: AddKeyTunnelHost, @unchecked Sendable {
        override var options: NetworkExtensionOptions {
            var options = NetworkExtensionOptions.infoPlist()
            options.adoptConfiguration = readPIAConfiguration
            return options
        }

        override func makeProvider() -> AddKeyTunnelProvider {
            let provider = super.makeProvider()
            provider.router.on(VersionRequest.self) { _ in VersionRequest.Reply(version: "1.2") }
            return provider
        }
    }

    static func connect(_ values: [String: Any], address: String, pem: String, group: String) async throws {
        var options = NetworkExtensionManagerOptions(
            providerBundleIdentifier: "com.example.app.WG-Tunnel", accessGroup: group)
        options.adoptConfiguration = readPIAConfiguration
        let manager = TunnelManager.networkExtension(options)
        try await manager.load()

        guard await manager.profiles.isEmpty, await manager.unreadableProfiles.isEmpty,
            await manager.adoptionErrors.isEmpty
        else { return }
        let (configuration, token) = try AddKeyConfiguration.fromProviderConfiguration(
            values, serverAddress: address, trust: .authorities(pem, acceptsCommonName: true))
        let profile = try TunnelProfile(
            name: "PIA", provider: "add-key", serverAddress: address, encoding: configuration)
        try await manager.create(profile, secrets: [configuration.tokenName: token])  // The system asks the user, once.
        try await manager.start(profile.id)  // Returns when a handshake with the server has succeeded.
    }

    static func change(
        _ manager: TunnelManager, _ id: String, to address: String, _ configuration: AddKeyConfiguration,
        _ token: SecretBytes
    ) async throws {
        var profile = try await manager.profile(id)
        profile.serverAddress = address
        profile.configuration = try JSONValue(encoding: configuration)
        try await manager.update(profile, secrets: [configuration.tokenName: token])
    }

    static func disconnect(_ manager: TunnelManager, _ id: String) async throws {
        var profile = try await manager.profile(id)
        profile.isOnDemandEnabled = false
        try await manager.update(profile)
        try await manager.stop(id)
    }

    struct Server {
        var commonName: String
        var address: IPAddress
    }

    static func useAll(_ servers: [Server], _ trust: ServerTrust, in configuration: inout AddKeyConfiguration) {
        configuration.servers = servers.map { server in
            ProvisioningServer(
                name: server.commonName, address: server.address, port: AddKeyConfiguration.defaultPort, trust: trust)
        }
    }

    static func summary(_ manager: TunnelManager, _ id: String) async throws -> String {
        let traffic = try await manager.send(StatusRequest(), to: id)
        let registration = try await manager.send(AddKeyStatusRequest(), to: id)
        let text = "\(registration.server): \(traffic.receivedBytes) bytes received, \(traffic.sentBytes) bytes sent"
        return text
    }

    static func showLog(_ show: (LogRecord) -> Void) async {
        let log = SharedLog(appGroup: "group.com.example.app", subsystem: "com.example.app")
        if let file = log.file {
            for await record in file.follow(includingPast: true) { show(record) }
        }
    }
}
