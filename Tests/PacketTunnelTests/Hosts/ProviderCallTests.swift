// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import PacketTunnelTesting
import Testing

@testable import PacketTunnel

@Suite("Calls of a running provider", .timeLimit(.minutes(1)))
struct ProviderCallTests {
    @Test("A call returns the provider's value or throws its error, while the tunnel runs")
    func call() async throws {
        let script = Script()
        let host = MemoryHost { ScriptedProvider(script) }
        func call() async throws(TunnelError) -> String {
            try await host.runner.withProvider { provider in
                provider.script.note("called")
                return "value"
            }
        }
        let before = await #expect(throws: TunnelError.self) { try await call() }
        #expect(before?.code == .notRunning)
        try await host.start(.init())
        #expect(try await call() == "value")
        let error = TunnelError(.settingsFailed, "no")
        await #expect(throws: error) {
            try await host.runner.withProvider { _ throws(TunnelError) -> Void in throw error }
        }
        await host.stop(.userInitiated)
        let after = await #expect(throws: TunnelError.self) { try await call() }
        #expect(after?.code == .notRunning)
        #expect(script.calls.messages.count { $0 == "called" } == 1)
    }

    @Test("A call ends with the tunnel, or with its task", arguments: [true, false])
    func end(_ isStopped: Bool) async throws {
        let script = Script()
        let host = MemoryHost { ScriptedProvider(script) }
        try await host.start(.init())
        let call = Task { () -> TunnelError? in
            do throws(TunnelError) {
                try await host.runner.withProvider { provider in
                    provider.script.note("called")
                    await provider.script.wait(stubbornly: false)
                    provider.script.note("cancelled")
                }
                return nil
            } catch {
                return error
            }
        }
        await script.noted("called")
        if isStopped { await host.stop(.userInitiated) } else { call.cancel() }
        #expect(await call.value?.code == (isStopped ? .notRunning : .closed))
        await script.noted("cancelled")
        await host.stop(.userInitiated)
    }

    @Test("A call that takes too long is cancelled")
    func limit() async throws {
        let host = MemoryHost<ScriptedProvider>()
        try await host.start(.init())
        let (endless, cancelled) = (AsyncStream.makeStream(of: Void.self), AsyncStream.makeStream(of: Void.self))
        let error = await #expect(throws: TunnelError.self) {
            try await host.runner.withProvider(within: .zero) { _ in
                // Ends when the task is cancelled.
                for await _ in endless.stream {}
                cancelled.continuation.finish()
            }
        }
        #expect(error?.code == .providerFailed)
        for await _ in cancelled.stream {}
        endless.continuation.finish()
        await host.stop(.userInitiated)
    }
}
