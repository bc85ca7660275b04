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
        let log = SharedLog(appGroup: "group.com.example.app", subsystem: "com.example.app")
        return .standard(accessGroup: group, log: log)
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

private struct VersionRequest: TunnelMessage {
    struct Reply: Codable, Sendable { var version: String }
    static let name = "example.version"
}

private final class TalkingTunnel: NetworkExtensionHost<WireGuardTunnelProvider>, @unchecked Sendable {
    override func makeProvider() -> WireGuardTunnelProvider {
        WireGuardTunnelProvider().answer(VersionRequest.self) { _ in VersionRequest.Reply(version: "1.2") }
    }
}

private final class Proxy: NEAppProxyProvider {
    private let router = MessageRouter()

    override func handleAppMessage(_ messageData: Data, completionHandler: (@Sendable (Data?) -> Void)?) {
        router.handleAppMessage(messageData, completionHandler: completionHandler)
    }
}

private func ask(_ session: NETunnelProviderSession) async throws -> String {
    let client = MessageClient(channel: ProviderSessionChannel(session))
    let version = try await client.send(VersionRequest()).version
    return version
}

private func systemExtension() {
    autoreleasepool { NEProvider.startSystemExtensionMode() }
    dispatchMain()
}

private func withoutKeychain(_ options: inout NetworkExtensionManagerOptions) {
    options.placement = .systemConfiguration  // The profile is in the system's configuration, which root can read.
    options.passesSecrets = true  // Secrets go with each start, in memory.
}

// SharedLog
private func sharedLog() -> SharedLog {
    let log = SharedLog(appGroup: "group.com.example.app", subsystem: "com.example.app")
    let logger = log.logger("app", origin: .app)
    logger.info("the app has started")
    return log
}

private func showLog(_ log: SharedLog, _ options: inout NetworkExtensionManagerOptions, show: (LogRecord) -> Void) async
{
    options.logger = log.logger("manager", origin: .app)
    if let file = log.file {
        for await record in file.follow(includingPast: true) { show(record) }
    }
}
