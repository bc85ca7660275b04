// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import Testing

@testable import WireGuardTunnel

@Suite("An app's messages to the WireGuard provider", .timeLimit(.minutes(1)))
struct OwnMessagesTests {
    private struct Version: TunnelMessage {
        struct Reply: Codable, Sendable { var text: String }
        static let name = "example.version"
    }

    @Test("Custom messages are answered next to the provider's own, from its state, and may replace them")
    func answers() async throws {
        let provider = WireGuardTunnelProvider()
        provider.router.on(Version.self) { [weak provider] _ in
            Version.Reply(text: "1.2, \(await provider?.status.state.rawValue ?? "gone")")
        }
        let client = MessageClient(channel: Direct(provider: provider))
        #expect(try await client.send(Version()).text == "1.2, stopped")
        #expect(try await client.send(StatusRequest()).state == .stopped)
        provider.router.on(StatusRequest.self) { _ in
            StatusRequest.Reply(state: .listening, peers: [], drops: [:], pingsSent: 0, pingReplies: 0)
        }
        #expect(try await client.send(StatusRequest()).state == .listening)
        await provider.stop(.userInitiated)
        await #expect(throws: MessageError.closed) { try await client.send(Version()) }
    }

    private struct Direct: MessageChannel {
        let provider: WireGuardTunnelProvider
        func exchange(_ request: [UInt8]) async throws -> [UInt8]? { await provider.handleAppMessage(request) }
    }

    @Test("Handlers registered when the provider is created answer while the tunnel is up")
    func inAHost() async throws {
        let scene = try TunnelScene()
        let environment = scene.environment
        let host = MemoryHost(path: TunnelScene.wifi, secrets: scene.secrets) {
            let provider = WireGuardTunnelProvider(environment: environment)
            provider.router.on(Version.self) { _ in Version.Reply(text: "1.2") }
            return provider
        }
        let manager = TunnelManager(host, secrets: scene.secrets)
        let profile = try TunnelProfile(name: "Home", provider: "wireguard", encoding: scene.configuration)
        try await manager.create(profile)
        try await manager.start(profile.id)
        #expect(try await manager.send(Version(), to: profile.id).text == "1.2")
        #expect(try await manager.send(StatusRequest(), to: profile.id).peers.count == 1)
        try await manager.stop(profile.id)
        await scene.stop()
    }
}
