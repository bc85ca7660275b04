// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import NetworkExtension
import PacketTunnelTesting
import Security
import Testing
import TunnelSystem
import WireGuardCore
import WireGuardTunnel

@testable import PacketTunnel
@testable import PacketTunnelApple
@testable import Provisioning
@testable import TunnelIO

/// An extension whose keychain has an invitation, the system around it, its gateway, and a server on an internet in memory.
private final class EnrolmentScene: Sendable {
    let system: SystemSide<EnrolledTunnelProvider>
    let gateway: StandInGateway
    let service = "test.\(UUID().uuidString)"
    let profile: TunnelProfile
    private let server: GrantedServer
    /// The invitation, and its token alone, which an unfinished enrolment has.
    private let invitationTexts: [String]
    private let keychain: KeychainSecretStore

    init() async throws {
        let fixtures = try ContractFixtures()
        var random = SeededGenerator(seed: 43)
        let (internet, presharedKey) = (MemoryInternet(), PresharedKey(using: &random))
        let server = try GrantedServer(
            at: .v4(198, 51, 100, 1), on: internet, key: fixtures.serverKey, presharedKey: presharedKey)
        self.server = server
        var grant = fixtures.grant
        (grant.addresses, grant.presharedKey) = ([GrantedServer.client], presharedKey)
        (grant.renewAfterSeconds, grant.device.expiresInSeconds) = (3600, nil)
        grant.servers = [
            .init(publicKey: server.publicKey, endpoints: [try EndpointAddress("\(server.address):51820")])
        ]
        let gateway = StandInGateway(grant: grant, serverKey: fixtures.serverKey)
        let token = BearerSecret(.invitation, using: &random)
        gateway.change { state in
            state.invitations = [token]
            state.onKey = { key in try? server.take(key) }
        }
        self.gateway = gateway
        let pins = (1...2).compactMap { ServerKeyPin(bytes: [UInt8](repeating: $0, count: 32)) }
        let invitation = try Invitation(
            host: "vpn.example.com", token: token, expires: Date(timeIntervalSinceNow: 3600), pins: pins)
        invitationTexts = [invitation.exportedText, token.exportedText]
        var configuration = EnrolledTunnelConfiguration(invitation, deviceName: "phone", platform: "ios")
        configuration.connectivity = .scarce
        profile = try TunnelProfile(name: "Office", provider: "enrolled", encoding: configuration)
        keychain = KeychainSecretStore(service: service)
        try await keychain.write(
            SecretBytes(Array(invitation.exportedText.utf8)), EnrolledTunnelConfiguration.defaultSecretName,
            of: profile.id)
        var environment = WireGuardEnvironment()
        environment.network = internet.attach([.v4(192, 0, 2, 10)])
        let used = environment
        var options = NetworkExtensionOptions.quiet
        options.secrets = keychain
        system = SystemSide(options) { EnrolledTunnelProvider(transport: gateway, environment: used) }
        let system = NETunnelProviderProtocol()
        system.providerConfiguration = [NetworkExtensionStart.profileKey: try JSONEncoder().encode(profile)]
        self.system.tunnel.standIn.protocolConfiguration = system
    }

    /// Starts as the app does.
    func start() async throws {
        try await system.start(
            TunnelStartRequest(configuration: try profile.configuration.text(), profileID: profile.id))
    }

    /// Starts as on-demand rules do: without options.
    func startOnDemand() async -> (any Error)? {
        let done = OneShot<(any Error)?>()
        system.tunnel.startTunnel(options: nil) { done.finish($0) }
        return await done.value
    }

    func passes() async -> Bool {
        await system.passes(
            PacketBuilder.icmpEcho(
                from: GrantedServer.client, to: WireGuardScene.target, identifier: 99, sequence: 1, payload: [1, 2, 3]))
    }

    /// The profile's secret in the keychain.
    func kept() async throws -> SecretBytes {
        try await keychain.read(EnrolledTunnelConfiguration.defaultSecretName, of: profile.id)
    }

    /// Whether any secret of the profile has the invitation or its token.
    func keepsInvitation() async throws -> Bool {
        for name in try await keychain.names(of: profile.id) {
            let text = String(decoding: try await keychain.read(name, of: profile.id).bytes, as: UTF8.self)
            if invitationTexts.contains(where: text.contains) { return true }
        }
        return false
    }

    func stop() async { await system.stop(.userInitiated) }

    func close() { server.close() }
}

@Suite("Enrolment in an extension", .timeLimit(.minutes(5)))
struct EnrolmentTests {
    @Test("The first start enrols, and a start on demand uses the saved enrolment")
    func starts() async throws {
        let scene = try await EnrolmentScene()
        defer { scene.close() }
        #expect(try await scene.keepsInvitation())
        try await scene.start()
        #expect(await scene.passes())
        await scene.stop()
        #expect(try await !scene.keepsInvitation())
        #expect(await scene.startOnDemand() == nil)
        #expect(await scene.passes())
        await scene.stop()
        #expect(scene.gateway.asked == ["POST /v1/enrolments", "GET /v1/device"])
        let enrolment = try DeviceEnrolment(try await scene.kept())
        #expect(enrolment.token == nil && enrolment.grant?.device.name == "phone")
        #expect(scene.system.unbalanced.missing == 0)
    }

    @Test("A keychain that refuses ends the start with its reason, and the invitation stays", arguments: [true, false])
    func refusals(_ writesOnly: Bool) async throws {
        let scene = try await EnrolmentScene()
        defer { scene.close() }
        let status = errSecInteractionNotAllowed
        if writesOnly {
            StandInKeychain.failWrites(scene.service, with: status)
        } else {
            StandInKeychain.fail(scene.service, with: status)
        }
        let error = await #expect(throws: TunnelError.self) { try await scene.start() }
        #expect(error?.code == .storage && error?.message.contains("\(status)") == true)
        #expect(error?.fix.contains("unlock the device") == true)
        #expect(scene.gateway.asked.isEmpty)
        StandInKeychain.fail(scene.service, with: nil)
        StandInKeychain.failWrites(scene.service, with: nil)
        #expect(DeviceEnrolment.isInvitation(try await scene.kept()))
        try await scene.start()
        #expect(await scene.passes())
        await scene.stop()
    }
}
