// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import PacketTunnel
import PacketTunnelApple

// docs/migrating-from-bestvpn.md
private func connect(serverKey: String, presharedKey: String, password: String) async throws {
    let options = NetworkExtensionManagerOptions(
        providerBundleIdentifier: "com.example.app.tunnel", accessGroup: "TEAMID.com.example.tunnel")
    let manager = TunnelManager.default(options) { CredentialTunnelProvider() }
    try await manager.load()

    let configuration = CredentialTunnelConfiguration(
        server: "vpn.example:4500", serverKey: serverKey, login: "kean")
    var profile = try TunnelProfile(
        name: "BestVPN", provider: "credential", serverAddress: configuration.server, encoding: configuration)
    profile.userName = configuration.login
    let secrets = [
        configuration.passwordName: SecretBytes(password.utf8),
        configuration.presharedKeyName: SecretBytes(presharedKey.utf8),
    ]
    try await manager.create(profile, secrets: secrets)  // The system asks the user, once.
    try await manager.start(profile.id)  // Returns when the server has accepted the login.
}

private func loopback() async throws -> CredentialTunnelConfiguration {
    let server = try MemoryLoginServer(users: ["kean": "123456"])
    let configuration = try server.configuration(login: "kean")
    return configuration
}

private func reachable() async throws -> (CredentialTunnelConfiguration, [String: SecretBytes]) {
    let server = try MemoryLoginServer(users: ["kean": "123456"], port: 9999)
    let configuration = try server.configuration(login: "kean", host: "192.168.0.13")
    let secrets = server.secrets(password: "123456")
    return (configuration, secrets)
}

private func logIn() async throws {
    let server = try MemoryLoginServer(users: ["kean": "123456"])
    let manager = TunnelManager(MemoryHost<CredentialTunnelProvider>())
    let profile = try TunnelProfile(
        name: "Test", provider: "credential", encoding: server.configuration(login: "kean"))
    try await manager.create(profile, secrets: server.secrets(password: "123456"))
    try await manager.start(profile.id)
}

private func messages(keys: MessageKeys, serverKeys: MessageKeys) throws -> Body.ClientAuthRequest {
    let login = Body.ClientAuthRequest(login: "kean", password: "123456")
    let datagram = try MessageEncoder.seal(
        .clientAuthRequest, MessageEncoder.encode(login), counter: 0, keys: keys)

    let (header, body) = try MessageDecoder.open(datagram, keys: serverKeys)
    guard header.code == .clientAuthRequest else { throw PacketParsingError.notAuthentic }
    return try MessageDecoder.clientAuthRequest(body)
}
