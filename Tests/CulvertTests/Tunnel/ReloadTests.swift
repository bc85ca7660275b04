// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CredentialTunnel
import PacketTunnel
import Synchronization
import Testing
import WireGuardTunnel

@testable import culvert

@Suite("A reload of a tunnel's process")
struct ReloadTests {
    /// A tunnel whose file says what `text` adds.
    private static func load(_ text: String) throws(CommandProblem) -> LoadedTunnel {
        try TunnelLoader(profiles: ProfileFolder(path: "/nonexistent")).load(
            CheckedFile(name: "wg0.conf", bytes: Array(Samples.file(text).utf8)), path: "wg0.conf", name: "wg0")
    }

    /// A tunnel that was loaded with an MTU of 1400, and whose file has been changed since.
    private static func live(
        _ text: String = "MTU = 1380", adjust: @escaping @Sendable (inout LoadedTunnel) -> Void = { _ in }
    ) throws -> LiveTunnel<WireGuardTunnelConfiguration> {
        let tunnel = try load("MTU = 1400")
        return LiveTunnel(tunnel, try #require(tunnel.wireGuard)) { () throws(CommandProblem) in
            var tunnel = try load(text)
            adjust(&tunnel)
            return tunnel
        }
    }

    @Test("The configuration of the next start is that of the last reload")
    func nextStart() async throws {
        let live = try Self.live()
        #expect(live.configuration.settings().mtu == 1400)
        let calls = Atomic(0)
        let reply = try await live.reload { _ in calls.add(1, ordering: .relaxed) }
        #expect(reply.warnings == [])
        #expect(calls.load(ordering: .relaxed) == 1)
        #expect(live.configuration.settings().mtu == 1380)
        #expect(live.tunnel.kind.settings.mtu == 1380)
    }

    @Test("A failed reload changes neither the configuration nor the secrets of the next start")
    func failure() async throws {
        let live = try Self.live { tunnel in tunnel.secrets = FixedSecrets([:]) }
        let error = TunnelError(.settingsFailed, "nft failed", fix: "repair it")
        await #expect(throws: error) { try await live.reload { _ throws(TunnelError) in throw error } }
        #expect(live.configuration.settings().mtu == 1400)
        #expect(live.tunnel.kind.settings.mtu == 1400)
        #expect(try await !live.secrets.names(of: "file").isEmpty)
    }

    @Test("A reload keeps the stricter leak policy that the tunnel has")
    func leakPolicy() async throws {
        var tunnel = try Self.load("")
        tunnel.leakPolicy = .everything
        let live = LiveTunnel(tunnel, try #require(tunnel.wireGuard)) { () throws(CommandProblem) in try Self.load("") }
        let reply = try await live.reload { _ in }
        #expect(reply.warnings == ["the leak policy stays 'everything' until the next start"])
        #expect(live.configuration.leakPolicy == .everything)
        #expect(live.tunnel.leakPolicy == .everything)
    }

    @Test("A tunnel that a server configures is not reloaded")
    func login() async throws {
        let configuration = CredentialTunnelConfiguration(server: "192.0.2.9:443", serverKey: "", login: "anna")
        let tunnel = LoadedTunnel(
            name: "login0", source: "profile login0", kind: .login(configuration), secrets: FixedSecrets([:]),
            profileID: "p")
        let error = try #require(
            await #expect(throws: TunnelError.self) {
                try await LiveTunnel(tunnel, configuration, load: { tunnel }).reload { _ in
                    Issue.record("it was called")
                }
            })
        #expect(error.code == .configurationInvalid)
        // Nor does WireGuard become a tunnel of another kind.
        let live = try Self.live { $0.kind = .login(configuration) }
        let other = await #expect(throws: TunnelError.self) {
            try await live.reload { _ in Issue.record("it was called") }
        }
        #expect(other?.code == .configurationInvalid)
    }
}
