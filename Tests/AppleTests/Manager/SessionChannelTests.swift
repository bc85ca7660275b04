// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import NetworkExtension
import PacketTunnelTesting
import Testing

@testable import PacketTunnel
@testable import PacketTunnelApple

/// Gives its text back.
private struct Parrot: TunnelMessage {
    struct Reply: Codable, Sendable, Equatable { var text: String }
    static let name = "example.parrot"
    var text: String
}

/// A provider of this package that answers typed messages.
private actor ParrotProvider: PacketTunnelProvider {
    struct Configuration: Codable, Sendable { var name = "" }
    nonisolated let router = MessageRouter()

    init() { router.on(Parrot.self) { Parrot.Reply(text: $0.text) } }

    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        try await context.apply(.sample)
    }

    func stop(_ reason: StopReason) async {}
}

/// An app proxy, which none of our hosts runs.
private final class ParrotProxy: NEAppProxyProvider {
    private let router = MessageRouter()

    override func startProxy(options: [String: Any]?, completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        router.on(Parrot.self) { Parrot.Reply(text: $0.text) }
        completionHandler(nil)
    }

    override func handleAppMessage(_ messageData: Data, completionHandler: (@Sendable (Data?) -> Void)?) {
        router.handleAppMessage(messageData, completionHandler: completionHandler)
    }
}

@Suite("Messages over a bare session", .timeLimit(.minutes(5)))
struct SessionChannelTests {
    /// A configuration of the app's own, saved and enabled.
    private func saved(_ manager: NETunnelProviderManager, _ bundle: String) async throws -> NETunnelProviderSession {
        let configuration = NETunnelProviderProtocol()
        configuration.providerBundleIdentifier = bundle
        configuration.serverAddress = "vpn.example"
        manager.protocolConfiguration = configuration
        manager.isEnabled = true
        try await SystemConfiguration(manager).save { _ in }
        return try #require(manager.connection as? NETunnelProviderSession)
    }

    /// Waits until the connection has this status.
    private func reaches(_ status: NEVPNStatus, _ session: NETunnelProviderSession) async -> Bool {
        let changes = Changes()
        let token = NotificationCenter.default.addObserver(
            forName: .NEVPNStatusDidChange, object: session, queue: nil
        ) { _ in changes.notify() }
        defer { NotificationCenter.default.removeObserver(token) }
        return await changes.wait { session.status == status }
    }

    @Test("A packet tunnel of an app's own manager answers typed messages; before and after that it is closed")
    func packetTunnel() async throws {
        let bundle = "com.example.\(UUID().uuidString)"
        StandInExtensions.install(bundle) {
            var options = NetworkExtensionOptions.quiet
            options.watchesPath = false
            return TunnelUnderTest<ParrotProvider>(options) { ParrotProvider() }
        }
        let session = try await saved(NETunnelProviderManager(), bundle)
        let client = MessageClient(channel: ProviderSessionChannel(session))
        await #expect(throws: MessageError.closed) { try await client.send(Parrot(text: "a")) }
        let request = TunnelStartRequest(configuration: Array(#"{"name":""}"#.utf8))
        try session.startTunnel(options: NetworkExtensionStart.options(request, secrets: [:]))
        #expect(await reaches(.connected, session))
        #expect(try await client.send(Parrot(text: "hello")) == Parrot.Reply(text: "hello"))
        session.stopTunnel()
        #expect(await reaches(.disconnected, session))
        await #expect(throws: MessageError.closed) { try await client.send(Parrot(text: "a")) }
    }

    @Test("So does an app proxy, which hands its messages to a router")
    func appProxy() async throws {
        let bundle = "com.example.\(UUID().uuidString)"
        StandInExtensions.install(bundle) { ParrotProxy() }
        let session = try await saved(NEAppProxyProviderManager(), bundle)
        let client = MessageClient(channel: ProviderSessionChannel(session))
        await #expect(throws: MessageError.closed) { try await client.send(Parrot(text: "a")) }
        try session.startTunnel(options: [:])
        #expect(await reaches(.connected, session))
        #expect(try await client.send(Parrot(text: "hello")) == Parrot.Reply(text: "hello"))
        #expect(session.standIn.completions.allSatisfy { $0.count == 1 })
        session.stopTunnel()
        #expect(await reaches(.disconnected, session))
    }

    @Test("A typed message to a host without a tunnel gets a typed error")
    func refused() async throws {
        let system = BridgeTests.system(Script())
        let channel = Plain { request in await system.sendPlainMessage(request) }
        await #expect(throws: MessageError.closed) {
            try await MessageClient(channel: channel).send(Parrot(text: "a"))
        }
    }

    private struct Plain: MessageChannel {
        let answer: @Sendable ([UInt8]) async -> [UInt8]?
        func exchange(_ request: [UInt8]) async throws -> [UInt8]? { await answer(request) }
    }
}
