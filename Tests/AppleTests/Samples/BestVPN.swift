// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import PacketTunnel
import PacketTunnelApple

// docs/migrating-from-bestvpn.md
private func connect(serverKey: String, presharedKey: String, password: String) async throws {
    var options = NetworkExtensionManagerOptions(
        providerBundleIdentifier: "com.example.app.tunnel", accessGroup: "TEAMID.com.example.tunnel")
    options.adoptConfiguration = readBestVPNConfiguration  // Step 7.
    let manager = TunnelManager.default(options) { CredentialTunnelProvider() }
    try await manager.load()

    guard await manager.profiles.isEmpty, await manager.unreadableProfiles.isEmpty,
        await manager.adoptionErrors.isEmpty
    else { return }
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

/// The values of the new server, which are not in a configuration of BestVPN.
enum VPNServer {
    static let address = "vpn.example:4500"
    static let key = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="
    static let presharedKey = "FpCyhws9cxwWoV4xELtfJvjJN+zQVRPISllRWgeopVE="
}

@Sendable func readBestVPNConfiguration(_ former: ExistingConfiguration) throws -> ConfigurationAdoption {
    guard let login = former.username else { return .leave }
    let configuration = CredentialTunnelConfiguration(
        server: VPNServer.address, serverKey: VPNServer.key, login: login)
    var profile = try TunnelProfile(
        name: former.name, provider: "credential", serverAddress: VPNServer.address, encoding: configuration)
    profile.userName = login
    profile.onDemand = former.onDemand
    profile.isOnDemandEnabled = former.isOnDemandEnabled
    var secrets = [configuration.presharedKeyName: SecretBytes(VPNServer.presharedKey.utf8)]
    secrets[configuration.passwordName] = try former.password()  // Without it, the user enters the password again.
    return .adopt(profile, secrets: secrets)
}

private func change(_ manager: TunnelManager, _ id: String, login: String, password: String) async throws {
    var profile = try await manager.profile(id)
    var configuration: CredentialTunnelConfiguration = try profile.configuration.decode()
    configuration.login = login
    profile.userName = login
    profile.configuration = try JSONValue(encoding: configuration)
    try await manager.update(profile, secrets: [configuration.passwordName: SecretBytes(password.utf8)])
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
