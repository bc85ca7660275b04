// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import NetworkAddresses
import PacketTunnel
import Testing
import TunnelIO

/// An app and its server for development, through public API only, over UDP on the loopback interface.
@Suite("The login server for developers", .timeLimit(.minutes(3)))
struct MemoryLoginServerTests {
    private let server: MemoryLoginServer
    private let host = MemoryHost<CredentialTunnelProvider>()
    private let manager: TunnelManager
    private let profile: TunnelProfile

    init() throws {
        server = try MemoryLoginServer(users: ["kean": "123456"])
        manager = TunnelManager(host)
        profile = try TunnelProfile(
            name: "Login", provider: "credential", encoding: server.configuration(login: "kean"))
    }

    /// Sends a ping to the server's address in the tunnel, and waits for its reply.
    private func ping() async throws {
        let inner = try #require(host.platform.settings?.addresses.first)
        let request = PacketBuilder.icmpEcho(
            from: inner.address, to: MemoryLoginServer.address, identifier: 1, sequence: 1, payload: [1, 2, 3])
        let reply = try #require(ICMPResponder().reply(to: request))
        #expect(host.platform.inject(request))
        #expect(await host.platform.deliveries.contains(reply))
    }

    /// The error with which the tunnel ends by itself.
    private func end() async -> TunnelError? {
        for await update in host.statusUpdates() where update.status == .disconnected {
            return update.error
        }
        return nil
    }

    @Test("A wrong password is refused, and with the right one a ping is answered")
    func login() async throws {
        try await manager.create(profile, secrets: server.secrets(password: "wrong"))
        let refusal = await #expect(throws: TunnelError.self) { try await manager.start(profile.id) }
        #expect(refusal?.code == .authenticationFailed)
        #expect(server.refusedLogins == 1 && server.sessions.isEmpty)
        try await manager.update(profile, secrets: server.secrets(password: "123456").mapValues { $0 })
        try await manager.start(profile.id)
        try await ping()
        let session = try #require(server.sessions.first)
        #expect(session.login == "kean" && session.addresses.first == .v4(10, 77, 0, 2))
        #expect(session.receivedPackets > 0 && session.sentPackets > 0)
        #expect(server.network.statistics.pingsAnswered == 1)
        try await manager.stop(profile.id)
        await server.stop()
    }

    @Test("A changed password ends the user's tunnels with a reason, and the new one starts them again")
    func changedPassword() async throws {
        try await manager.create(profile, secrets: server.secrets(password: "123456"))
        try await manager.start(profile.id)
        server.setPassword("654321", of: "kean")
        let error = await end()
        #expect(error?.code == .sessionTerminated && error?.message.contains("password was changed") == true)
        try await manager.update(profile, secrets: server.secrets(password: "654321").mapValues { $0 })
        try await manager.start(profile.id)
        try await ping()
        server.setPassword(nil, of: "kean")
        #expect(await end()?.code == .sessionTerminated)
        let refusal = await #expect(throws: TunnelError.self) { try await manager.start(profile.id) }
        #expect(refusal?.code == .authenticationFailed)
        await server.stop()
    }

    @Test("A stopped server has no port and no configuration")
    func stop() async throws {
        #expect(server.port != nil)
        await server.stop()
        #expect(server.port == nil)
        let error = #expect(throws: TunnelError.self) { try server.configuration(login: "kean") }
        #expect(error?.code == .notRunning)
    }

    @Test("A server that replaces another has its keys, and an IPv6 address is written in brackets")
    func replacement() async throws {
        let other = try MemoryLoginServer(
            users: [:], privateKey: server.privateKey, presharedKey: server.presharedKey)
        let (one, two) = (try server.configuration(login: "kean"), try other.configuration(login: "kean", host: "::1"))
        #expect(one.serverKey == two.serverKey && one.validate().isEmpty && two.validate().isEmpty)
        #expect(two.server == "[::1]:\(try #require(other.port))")
        await other.stop()
        await server.stop()
    }
}
