// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import NetworkAddresses
    import Foundation
    import PacketTunnel
    import PacketTunnelTesting
    import Testing
    import WireGuardCore
    import WireGuardDevice
    import WireGuardTesting

    @testable import TunnelIO
    @testable import WireGuardTunnel

    @Suite("The provider's memory", .timeLimit(.minutes(5)))
    struct ProviderMemoryTests {
        @Test("240 peers and a burst at full speed stay within 8 MiB in a memory host")
        func burst() async {
            // In a separate process, so that memory freed or used by other tests does not count.
            await #expect(processExitsWith: .success) {
                try await ProviderLoad().run()
            }
        }
    }

    /// A provider with 240 peers, and those peers.
    private final class ProviderLoad {
        private let internet = MemoryInternet(queueLimit: 64)
        private let host: MemoryHost<WireGuardTunnelProvider>
        private let peers: LoadPeers
        private let configuration: WireGuardTunnelConfiguration

        init() throws {
            var random = SeededGenerator(seed: 50)
            let key = PrivateKey(using: &random)
            let secret = key.secret.withSpan { span in SecretBytes(span.indices.map { span[$0] }) }
            var environment = WireGuardEnvironment()
            environment.network = internet.attach([.v4(1)])
            let used = environment
            host = MemoryHost(secrets: MemorySecrets(["private-key": secret])) {
                WireGuardTunnelProvider(environment: used)
            }
            host.platform.connect(to: VirtualNetwork(prefixes: []))
            peers = try LoadPeers(of: key, on: internet, using: &random)
            configuration = peers.configuration
        }

        /// Prints a figure if figures are requested: other output of an exit test's process is lost.
        private static func note(_ text: String) {
            guard let path = ProcessInfo.processInfo.environment["CULVERT_MEMORY_FIGURES"] else { return }
            guard let file = FileHandle(forUpdatingAtPath: path) else { return }
            _ = try? file.seekToEnd()
            file.write(Data((text + "\n").utf8))
        }

        func run() async throws {
            // One start first, so that one-time allocations of the process, the peers and the queues are not counted.
            try await start()
            await peers.burst(4_000, send: host.platform.inject) {}
            await host.stop(.userInitiated)
            peers.touchMemory()
            PageAdvice.trimHeap()
            var gauge = try MemoryGauge()

            try await start()
            try gauge.measure()
            await peers.answer { self.peers.answered.count == LoadPeers.count }
            try gauge.measure()
            try await peers.burst(40_000, send: host.platform.inject) { try gauge.measure() }
            let message = try await MessageClient(channel: host).send(StatusRequest())
            try gauge.measure()
            #expect(message.peers.count == LoadPeers.count)
            #expect(message.peers.count { $0.lastHandshakeAge != nil } > LoadPeers.count / 2)
            #expect(message.sentBytes > 1 << 20)
            Self.note("provider with 240 peers: \(gauge.largest >> 10) KiB at most beyond the program")
            #expect(gauge.largest <= MemoryBudget.extension.byteCount)
            #expect(gauge.largest > 1 << 20, "something was measured")
            await host.stop(.userInitiated)
        }

        private func start() async throws {
            peers.reset()
            let (host, configuration) = (host, configuration)
            let starting = Task { try await host.runner.start(configuration, profileID: "test") }
            await peers.answer { host.status.status == .connected || host.status.error != nil }
            try await starting.value
        }
    }
#endif
