// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import NetworkExtension
import PacketTunnelTesting
import Testing
import WireGuardCore
import WireGuardDevice
import WireGuardTesting
import WireGuardTunnel

@testable import PacketTunnel
@testable import PacketTunnelApple
@testable import TunnelIO

@Suite("The extension's memory", .timeLimit(.minutes(5)))
struct MemoryTests {
    @Test("240 peers and a burst at full speed stay within 8 MiB, packets in flight included")
    func burst() async {
        // In a separate process: no freed memory of other tests is reused, and none of their memory counts.
        await #expect(processExitsWith: .success) {
            try await ExtensionLoad().run()
        }
    }
}

/// A provider with 240 peers in an extension host, and those peers.
private final class ExtensionLoad {
    private let system: SystemSide<WireGuardTunnelProvider>
    private let request: TunnelStartRequest
    private let peers: LoadPeers

    init() async throws {
        var random = SeededGenerator(seed: 50)
        let key = PrivateKey(using: &random)
        let internet = MemoryInternet(queueLimit: 64)
        var environment = WireGuardEnvironment()
        environment.network = internet.attach([.v4(1)])
        let used = environment
        let secrets = MemorySecretStore()
        try await secrets.write(
            key.secret.withSpan { span in SecretBytes(span.indices.map { span[$0] }) }, "private-key", of: "test")
        var options = NetworkExtensionOptions.quiet
        options.secrets = secrets
        system = SystemSide(options) { WireGuardTunnelProvider(environment: used) }
        system.tunnel.standIn.flow.standIn.setWriteHandler { _ in }
        peers = try LoadPeers(of: key, on: internet, using: &random)
        request = TunnelStartRequest(
            configuration: Array(try JSONEncoder().encode(peers.configuration)), profileID: "test")
    }

    func run() async throws {
        let flow = system.tunnel.standIn.flow.standIn
        // A first run, so that one-time memory of a process, of the peers and of the queues does not count.
        try await start()
        await peers.burst(4_000, send: { flow.route([Data($0)]) > 0 }, measure: {})
        await system.stop(.userInitiated)
        peers.touchMemory()
        PageAdvice.trimHeap()
        var gauge = try MemoryGauge()

        try await start()
        try gauge.measure()
        await peers.answer { self.peers.answered.count == LoadPeers.count }
        try gauge.measure()
        try await peers.burst(40_000, send: { flow.route([Data($0)]) > 0 }, measure: { try gauge.measure() })
        try gauge.measure()
        #expect(peers.answered.count > LoadPeers.count / 2)
        #expect(gauge.largest <= MemoryBudget.extension.byteCount, "\(gauge.largest >> 10) KiB")
        #expect(gauge.largest > 1 << 20, "something was measured")
        await system.stop(.userInitiated)
    }

    private func start() async throws {
        peers.reset()
        let (system, request) = (system, request)
        let starting = Task { try await system.start(request) }
        await peers.answer { system.status.status == .connected || system.status.error != nil }
        try await starting.value
    }
}
