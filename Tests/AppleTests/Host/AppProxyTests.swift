// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import NetworkExtension
import PacketTunnelTesting
import Testing

@testable import PacketTunnel
@testable import PacketTunnelApple

/// A flow of an app, as the provider sees it.
private struct Flow: Sendable { var name: String }

/// A proxy that records its flows. Its start fails if its configuration requires it.
private final class FlowProvider: PacketTunnelProvider, Sendable {
    struct Configuration: Codable, Sendable { var fails = false }

    struct FlowsQuery: TunnelMessage {
        struct Reply: Codable, Sendable { var names: [String] }
    }

    let router = MessageRouter()
    let flows = Eavesdropper<String>()
    let options = Eavesdropper<[String: JSONValue]?>()

    init() {
        router.on(FlowsQuery.self) { [flows] _ in FlowsQuery.Reply(names: flows.messages) }
    }

    func take(_ flow: Flow) -> Bool {
        flows.observe(flow.name)
        return true
    }

    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        options.observe(context.startOptions)
        if configuration.fails { throw TunnelError(.authenticationFailed, "no such user") }
        _ = try await context.secret("token")
        try await context.apply(
            TunnelSettings(
                remoteAddress: "198.51.100.1", addresses: [InterfaceAddress(host: .v4(10, 0, 0, 2))],
                includedRoutes: [.allIPv4], dns: DNSSettings(servers: [.v4(10, 0, 0, 53)])))
    }

    func stop(_ reason: StopReason) async { router.close() }
}

/// The extension's class.
private final class Proxy: AppProxyHost<FlowProvider>, @unchecked Sendable {
    override var options: NetworkExtensionOptions {
        var options = NetworkExtensionOptions.quiet
        options.watchesPath = false
        return options
    }

    override func handleNewFlow(_ flow: NEAppProxyFlow) -> Bool { provider?.take(Flow(name: "system")) ?? false }
}

@Suite("App proxies", .timeLimit(.minutes(5)))
struct AppProxyTests {
    private func request(fails: Bool = false) throws -> TunnelStartRequest {
        TunnelStartRequest(
            configuration: try JSONValue(encoding: FlowProvider.Configuration(fails: fails)).text(), profileID: "test",
            options: ["reason": .string("tap")])
    }

    @Test("A provider of an app proxy runs in memory, like that of a packet tunnel")
    func inMemory() async throws {
        let secrets = MemorySecretStore()
        try await secrets.write(SecretBytes([1]), "token", of: "test")
        let host = MemoryHost<FlowProvider>(secrets: secrets)
        #expect(host.runner.provider == nil)
        try await host.start(try request())
        let provider = try #require(host.runner.provider)
        #expect(provider.take(Flow(name: "test")) && provider.options.messages == [["reason": .string("tap")]])
        #expect(try await MessageClient(channel: host).send(FlowProvider.FlowsQuery()).names == ["test"])
        await host.stop(.userInitiated)
        #expect(host.runner.provider == nil)
        let error = await #expect(throws: TunnelError.self) { try await host.start(try request(fails: true)) }
        #expect(error?.code == .authenticationFailed)
    }

    @Test("The same provider runs as an app proxy, with flows, messages, options, secrets and its own errors")
    func inExtension() async throws {
        let bundle = "com.example.\(UUID().uuidString)"
        StandInExtensions.install(bundle) { Proxy() }
        let manager = NEAppProxyProviderManager()
        let configuration = NETunnelProviderProtocol()
        configuration.providerBundleIdentifier = bundle
        configuration.serverAddress = "vpn.example"
        manager.protocolConfiguration = configuration
        manager.isEnabled = true
        let saved = SystemConfiguration(manager)
        try await saved.save { _ in }
        let session = try #require(manager.connection as? NETunnelProviderSession)
        let changes = Changes()
        let token = NotificationCenter.default.addObserver(
            forName: .NEVPNStatusDidChange, object: session, queue: nil
        ) { _ in changes.notify() }
        defer { NotificationCenter.default.removeObserver(token) }
        let channel = ProviderSessionChannel(session)

        try channel.start(try request(), secrets: ["token": SecretBytes([1])])
        #expect(await changes.wait { session.status == .connected })
        let proxy = try #require(session.standIn.runningProxy as? Proxy)
        #expect(proxy.handleNewFlow(NEAppProxyFlow()))
        #expect(proxy.provider?.options.messages == [["reason": .string("tap")]])
        #expect(try await MessageClient(channel: channel).send(FlowProvider.FlowsQuery()).names == ["system"])
        session.stopTunnel()
        #expect(await changes.wait { session.status == .disconnected })
        #expect(!proxy.handleNewFlow(NEAppProxyFlow()))

        // A failed start ends with the provider's error.
        try channel.start(try request(fails: true))
        #expect(await changes.wait { session.standIn.completions.count { $0.name == "startTunnel" } == 2 })
        #expect(await changes.wait { session.status == .disconnected })
        #expect(await saved.lastError()?.code == .authenticationFailed)
        #expect(session.standIn.completions.allSatisfy { $0.count == 1 })
    }
}
