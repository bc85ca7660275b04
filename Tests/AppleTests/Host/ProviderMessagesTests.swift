// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import Foundation
import HostConformance
import Logging
import NetworkAddresses
import NetworkExtension
import PacketTunnelTesting
import Provisioning
import Testing
import TunnelSystem
import WireGuardCore
import WireGuardTunnel

@testable import PacketTunnel
@testable import PacketTunnelApple

/// Asks for a greeting. Its name is that of the type.
private struct Greeting: TunnelMessage, Equatable {
    struct Reply: Codable, Sendable, Equatable { var text: String }
    var name: String
}

/// A value without any conformance to a protocol of messages.
private struct Question: Codable, Sendable { var number: Int }

/// Numbers from 1 to `last`.
private struct Numbers: TunnelSubscription {
    typealias Element = Int
    var last: Int
}

/// A store whose secrets arrive only when the test releases them. Until then, a provider that reads one is starting.
private final class HeldSecrets: SecretStore {
    private let asked = Event()
    private let released = OneShot<Void>()

    func waitUntilAsked() async -> Bool { await asked.wait(timeout: .seconds(60)) }

    func release() { released.finish(()) }

    func read(_ name: String, of profile: String) async throws(TunnelError) -> SecretBytes {
        asked.signal()
        await released.value
        throw .missingSecret(name)
    }

    func write(_ secret: SecretBytes, _ name: String, of profile: String) async throws(TunnelError) {}
    func remove(_ name: String, of profile: String) async throws(TunnelError) {}
    func removeAll(of profile: String) async throws(TunnelError) {}
    func names(of profile: String) async throws(TunnelError) -> [String] { [] }
}

/// A transport that reaches no server.
private struct NoServer: ProvisioningTransport {
    func send(_ request: ProvisioningRequest) async throws(ProvisioningTransportError) -> ProvisioningReply {
        throw .unreachable("there is no server")
    }
}

@Suite("An app's own messages to each provider", .timeLimit(.minutes(5)))
struct ProviderMessagesTests {
    private static let key = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="

    /// Adds the app's handlers, as an app does in `makeProvider`.
    private static func adding<Provider: PacketTunnelProvider>(_ provider: Provider) -> Provider {
        provider.answer(Greeting.self) { Greeting.Reply(text: "hello \($0.name)") }
            .answer(Question.self, replying: [Int].self) { [$0.number, 42] }
            .answer(Numbers.self) { numbers, sink in
                for number in 1...numbers.last { try await sink.send(number) }
            }
    }

    /// Expects that the provider answers the app's messages, in memory and in an extension.
    private func expectAnswers<Provider: PacketTunnelProvider>(
        _ configuration: Provider.Configuration, _ make: @escaping @Sendable () -> Provider
    ) async throws {
        let request = TunnelStartRequest(
            configuration: try JSONValue(encoding: configuration).text(), profileID: "test")
        let inMemory = HeldSecrets()
        try await expectAnswers(MemoryHost(secrets: inMemory) { Self.adding(make()) }, request, inMemory)
        let inExtension = HeldSecrets()
        var options = NetworkExtensionOptions.quiet
        options.secrets = inExtension
        options.watchesPath = false
        let system = SystemSide(options) { Self.adding(make()) }
        try await expectAnswers(system, request, inExtension)
        #expect(system.unbalanced.repeated.isEmpty && system.unbalanced.missing == 0)
    }

    private func expectAnswers(
        _ host: any TunnelHost, _ request: TunnelStartRequest, _ secrets: HeldSecrets
    ) async throws {
        let client = MessageClient(channel: host, timeout: .seconds(60))
        await #expect(throws: MessageError.closed) { try await client.send(Greeting(name: "a")) }
        let starting = Task { try await host.start(request) }
        #expect(await secrets.waitUntilAsked())
        #expect(try await client.send(Greeting(name: "Anna")) == Greeting.Reply(text: "hello Anna"))
        #expect(try await client.send(Question(number: 6), expecting: [Int].self) == [6, 42])
        var numbers: [Int] = []
        for try await number in try await client.subscribe(to: Numbers(last: 3)) { numbers.append(number) }
        #expect(numbers == [1, 2, 3])
        secrets.release()
        let error = await #expect(throws: TunnelError.self) { try await starting.value }
        #expect(error?.code == .secretUnavailable)
        await host.stop(.userInitiated)
        await #expect(throws: MessageError.closed) { try await client.send(Greeting(name: "a")) }
    }

    @Test("The login provider answers them, in memory and in an extension")
    func login() async throws {
        let configuration = CredentialTunnelConfiguration(
            server: "198.51.100.1:51820", serverKey: Self.key, login: "anna")
        try await expectAnswers(configuration) { CredentialTunnelProvider() }
    }

    @Test("The addKey provider answers them, in memory and in an extension")
    func addKey() async throws {
        let configuration = AddKeyConfiguration(servers: [ProvisioningServer(name: "vpn.example", port: 1337)])
        try await expectAnswers(configuration) { AddKeyTunnelProvider(transport: NoServer()) }
    }

    @Test("The enrolled provider answers them, in memory and in an extension")
    func enrolled() async throws {
        let pins = (1...2).compactMap { ServerKeyPin(bytes: [UInt8](repeating: $0, count: 32)) }
        let configuration = EnrolledTunnelConfiguration(
            gateways: [ProvisioningServer(name: "vpn.example", port: 443, trust: .pins(pins))])
        #expect(configuration.validate().isEmpty)
        try await expectAnswers(configuration) { EnrolledTunnelProvider(transport: NoServer()) }
    }

    @Test("The WireGuard provider answers them, in memory and in an extension")
    func wireGuard() async throws {
        let configuration = WireGuardTunnelConfiguration(
            addresses: [InterfaceAddress(host: .v4(10, 0, 0, 2))],
            peers: [try .init(publicKey: Self.key, endpoint: "198.51.100.1:51820", allowedIPs: [.allIPv4])])
        try await expectAnswers(configuration) { WireGuardTunnelProvider() }
    }

    @Test("On a simulator a manager's tunnel answers messages and requests for its log, as in an extension")
    func simulator() async throws {
        let folder = try Folder()
        let log = SharedLog(folder: folder.path, subsystem: "test")
        var options = NetworkExtensionManagerOptions(providerBundleIdentifier: "com.example.\(UUID().uuidString)")
        options.keep(log)
        let manager = TunnelManager.default(options, isSimulator: true) { Self.adding(QuietProvider()) }
        let profile = TunnelProfile(name: "Home", provider: "quiet")
        try await manager.create(profile)
        try await manager.start(profile.id, options: ["log": .string("the app's reason")])
        #expect(try await manager.send(Greeting(name: "Anna"), to: profile.id).text == "hello Anna")
        #expect(try await manager.send(Question(number: 1), expecting: [Int].self, to: profile.id) == [1, 42])
        let page = try await manager.send(LogRequest(), to: profile.id)
        let lines = page.records.map(\.message)
        #expect(lines.contains("the app's reason") && lines.contains("tunnel connected"))
        try await manager.stop(profile.id)
        await #expect(throws: MessageError.closed) {
            try await manager.send(Greeting(name: "Anna"), to: profile.id)
        }
    }
}

/// A provider that applies its settings and logs the app's option.
private final class QuietProvider: PacketTunnelProvider, Sendable {
    struct Configuration: Codable, Sendable {}
    let router = MessageRouter()

    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        if case .string(let text)? = context.startOptions?["log"] { context.logger.info("\(text)") }
        try await context.apply(.sample)
    }

    func stop(_ reason: StopReason) async { router.close() }
}
