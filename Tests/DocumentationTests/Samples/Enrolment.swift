// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnel
import PinnedProvisioning
import Provisioning
import WireGuardCore

/// The app's use of an invitation, once.
private func addProfile(
    _ text: String, named name: String, to manager: TunnelManager
) async throws -> TunnelProfile {
    let invitation = try Invitation(text)
    let configuration = EnrolledTunnelConfiguration(invitation, deviceName: "anna's phone", platform: "ios")
    let profile = TunnelProfile(
        name: name, provider: "enrolled", serverAddress: invitation.host,
        configuration: try JSONValue(encoding: configuration))
    let secret = SecretBytes(Array(invitation.exportedText.utf8))
    try await manager.create(profile, secrets: [configuration.secretName: secret])
    return profile
}

/// The provider of its tunnel extension, for starts on demand too.
private func makeProvider() -> EnrolledTunnelProvider {
    EnrolledTunnelProvider(transport: PinnedProvisioningTransport())
}

/// The user's devices, for a screen of the app.
private func devices(
    _ enrolment: DeviceEnrolment, _ configuration: EnrolledTunnelConfiguration
) async throws -> [DeviceListEntry] {
    let client = EnrolmentClient(servers: configuration.gateways, transport: PinnedProvisioningTransport())
    return try await client.trusting(enrolment.grant).devices(credential: enrolment.credential)
}

/// A key for a tunnel of another kind.
private func register(
    _ key: PrivateKey, token: SecretBytes, at servers: [ProvisioningServer]
) async throws -> AddKeyReply {
    let client = AddKeyClient(transport: PinnedProvisioningTransport())
    let registration = try await client.register(key.publicKey, token: token, at: servers)
    return registration.reply
}

/// A server of PIA's kind, by its address, with its authority's certificate.
private func piaServer(_ pem: String) -> ProvisioningServer {
    ProvisioningServer(
        name: "server401", address: .v4(198, 51, 100, 1), port: AddKeyConfiguration.defaultPort,
        trust: .authorities(pem, acceptsCommonName: true))
}
