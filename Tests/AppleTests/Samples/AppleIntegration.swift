// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Logging
import NetworkExtension
import PacketTunnel
import PacketTunnelApple
import WireGuardTunnel

final class Tunnel: NetworkExtensionHost<WireGuardTunnelProvider>, @unchecked Sendable {
    override var options: NetworkExtensionOptions {
        let group = Bundle.main.object(forInfoDictionaryKey: "CulvertKeychainGroup") as? String
        var options = NetworkExtensionOptions.standard(accessGroup: group)
        options.logger = Logger(label: "tunnel") { UnifiedLogHandler(subsystem: "com.example.app", label: $0) }
        return options
    }
}

private enum Short {
    final class Tunnel: NetworkExtensionHost<WireGuardTunnelProvider>, @unchecked Sendable {
        override var options: NetworkExtensionOptions { .standard(accessGroup: "TEAMID.com.example.tunnel") }
    }
}

private func connect(group: String?, text: String) async throws {
    let options = NetworkExtensionManagerOptions(
        providerBundleIdentifier: "com.example.app.extension", accessGroup: group)
    let manager = TunnelManager.default(options) { WireGuardTunnelProvider() }
    try await manager.load()

    let parts = try WireGuardTunnelConfiguration.split(wgQuick: text)
    let profile = TunnelProfile(
        name: "Home", provider: "wireguard", serverAddress: "vpn.example",
        configuration: try JSONValue(encoding: parts.configuration))
    try await manager.create(profile, secrets: parts.secrets)  // The system asks the user, once.
    try await manager.start(profile.id)  // Returns when the tunnel is proven to work.
}

private func systemExtension() {
    autoreleasepool { NEProvider.startSystemExtensionMode() }
    dispatchMain()
}

private func withoutKeychain(_ options: inout NetworkExtensionManagerOptions) {
    options.placement = .systemConfiguration  // The profile is in the system's configuration, which root can read.
    options.passesSecrets = true  // Secrets go with each start, in memory.
}
