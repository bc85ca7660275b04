// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import Provisioning
import Testing
import TunnelServer
import WireGuardCore

@testable import Gateway

@Suite("A gateway that serves only the login tunnel", .timeLimit(.minutes(1))) struct LoginTunnelOnlyTests {
    private let admin = Caller.local(0)

    @Test("A gateway without WireGuard is ready and has users with passwords, and the device API does not listen")
    func serves() async throws {
        try await TestFolder.use { folder in
            let scene = try await FlowScene(folder) { settings in
                (settings.servesWireGuard, settings.loginTunnel.isEnabled) = (false, true)
            }
            let (process, service) = (scene.process, scene.process.service)
            #expect(process.api.port(.device) == nil && process.api.port(.admin) != nil)
            #expect(service.settings.serverNetwork.tunnels == ["culvert-login0"])
            #expect(GatewayAPI.listenerCount(service.settings) == 2)
            let runtime = try #require(process.runtime)
            #expect(runtime.readiness.isReady && runtime.figures.port == nil)
            #expect(runtime.figures.login?.port == service.settings.loginTunnel.port)
            let status = try await service.status(admin)
            #expect(!status.servesWireGuard)
            #expect(SchemaCheck.problems(JSONValue(status.json), GatewayStatus.message.schema(.reply)) == [])

            let anna = try await service.addUser(UserDraft(login: "anna"), admin).item
            _ = try await service.setPassword(of: anna.id, Array("correct horse".utf8), admin)
            await #expect(throws: GatewayError.noWireGuard) {
                _ = try await service.addInvitation(InvitationDraft(userID: anna.id), admin)
            }
            for scope in [Token.Scope.enrol, .addKey] {
                await #expect(throws: GatewayError.noWireGuard) {
                    _ = try await service.addToken(TokenDraft(scope: scope, userID: anna.id, name: "t"), admin)
                }
            }
            _ = try await service.addToken(TokenDraft(scope: .readOnly, name: "t"), admin)
            await #expect(throws: GatewayError.noWireGuard) { _ = try await service.announceServerKey(admin) }
            var random = SystemRandomNumberGenerator()
            let draft = DeviceDraft(
                userID: anna.id, name: "laptop", publicKey: PrivateKey(using: &random).publicKey)
            await #expect(throws: GatewayError.noWireGuard) { _ = try await service.addDevice(draft, admin) }
            await scene.stop()
        }
    }
}
