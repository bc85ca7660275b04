// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
import PacketTunnel
import Synchronization
import Testing

@testable import culvert

@Suite("A host with hooks")
struct HookedHostTests {
    /// Applies settings, and does nothing else.
    private final class IdleProvider: PacketTunnelProvider {
        /// A configuration that has no JSON.
        struct Configuration: Codable, Sendable {
            private struct NoJSON: Error {}

            var mtu: Int

            init(mtu: Int) { self.mtu = mtu }
            init(from decoder: any Decoder) throws { throw NoJSON() }
            func encode(to encoder: any Encoder) throws { throw NoJSON() }
        }

        func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
            try await context.apply(
                TunnelSettings(
                    remoteAddress: "192.0.2.1", addresses: [InterfaceAddress(host: .v4(10, 0, 0, 2))],
                    mtu: configuration.mtu))
        }

        func stop(_ reason: StopReason) async {}
    }

    private static func scene() -> (host: HookedHost<MemoryHost<IdleProvider>>, calls: @Sendable () -> [String]) {
        let memory = MemoryHost<IdleProvider>()
        let calls = Calls()
        var hooks = Hooks()
        (hooks.preUp, hooks.postUp) = (["pre-up"], ["post-up"])
        (hooks.preDown, hooks.postDown) = (["pre-down"], ["post-down"])
        let tunnelHooks = TunnelHooks(
            memory, hooks: hooks, logger: Logger(label: "t") { _ in SwiftLogNoOpLogHandler() }
        ) { command throws(TunnelError) in
            calls.add("\(command) at MTU \(memory.platform.settings?.mtu ?? 0)")
        }
        return (HookedHost(memory, hooks: tunnelHooks), { calls.all })
    }

    private final class Calls: Sendable {
        private let calls = Mutex<[String]>([])
        var all: [String] { calls.withLock { $0 } }
        func add(_ call: String) { calls.withLock { $0.append(call) } }
    }

    @Test("A start in this process passes its configuration to the provider without JSON, and runs the hooks")
    func typedStart() async throws {
        let (host, calls) = Self.scene()
        try await host.start(IdleProvider.Configuration(mtu: 1380), leakPolicy: .routeBased, profileID: nil)
        #expect(host.status.status == .connected)
        await host.stop(.userInitiated)
        #expect(
            calls() == [
                "pre-up at MTU 0", "post-up at MTU 1380", "pre-down at MTU 1380", "post-down at MTU 0",
            ])
    }

    @Test("A start by another process runs the hooks too")
    func start() async throws {
        let (host, calls) = Self.scene()
        let tunnel: any TunnelHost = host
        let error = await #expect(throws: TunnelError.self) {
            try await tunnel.start(TunnelStartRequest(configuration: Array("{}".utf8)))
        }
        #expect(error?.code == .configurationInvalid)
        #expect(calls() == ["pre-up at MTU 0"])
        await tunnel.stop(.userInitiated)
        #expect(host.status.status == .disconnected)
    }
}
