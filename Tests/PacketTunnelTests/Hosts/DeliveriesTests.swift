// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import PacketTunnelTesting
import Testing
import TunnelIO

@testable import PacketTunnel

@Suite("Deliveries of an in-memory tunnel", .timeLimit(.minutes(1)))
struct DeliveriesTests {
    private static func packet(_ number: Int) -> [UInt8] { PacketFlowTests.packet(number) }

    @Test("Deliveries are a sequence, in order, of earlier and later packets, across starts")
    func sequence() async throws {
        let script = Script()
        let host = MemoryHost { ScriptedProvider(script) }
        var deliveries = host.platform.deliveries.makeAsyncIterator()
        for start in 0..<2 {
            try await host.start(.init())
            let flow = try #require(script.context).packetFlow
            try await flow.write(Self.packet(start))
            #expect(await deliveries.next() == Self.packet(start))
            let writing = Task {
                for number in 10..<600 { try await flow.write(Self.packet(number)) }
            }
            for number in 10..<600 { #expect(await deliveries.next() == Self.packet(number)) }
            try await writing.value
            await host.stop(.userInitiated)
        }
    }

    @Test("A sequence ends when its task is cancelled, and other readers miss nothing")
    func cancellation() async throws {
        let script = Script()
        let host = MemoryHost { ScriptedProvider(script) }
        let waiting = Task { [platform = host.platform] in
            for await _ in platform.deliveries {}
        }
        waiting.cancel()
        await waiting.value
        try await host.start(.init())
        try await script.context?.packetFlow.write(Self.packet(1))
        #expect(host.platform.takeDelivered() == [Self.packet(1)])
        await host.stop(.userInitiated)
    }
}

@Suite("A host that runs a tunnel for as long as it lives", .timeLimit(.minutes(1)))
struct HostRunTests {
    @Test("A run returns when its task is cancelled, with everything undone")
    func cancelled() async throws {
        let script = Script()
        let host = MemoryHost { ScriptedProvider(script) }
        let running = Task { try await host.run(.init()) }
        for await update in host.statusUpdates() where update.status == .connected { break }
        running.cancel()
        try await running.value
        #expect(host.status.status == .disconnected)
        #expect(host.platform.settings == nil && host.platform.tearDownCount == 1)
        #expect(script.calls.messages.contains("stop userInitiated"))
    }

    @Test("A cancelled start is not a failure")
    func cancelledStart() async throws {
        let script = Script()
        script.plan.start = .wait
        let host = MemoryHost { ScriptedProvider(script) }
        let running = Task { try await host.run(.init()) }
        await script.noted("waits")
        running.cancel()
        try await running.value
        #expect(host.platform.settings == nil)
    }

    @Test("A run throws the error that ends the tunnel, during the start or later")
    func failures() async throws {
        let error = TunnelError(.authenticationFailed, "no such user")
        let script = Script()
        script.plan.start = .fail(error)
        let host = MemoryHost { ScriptedProvider(script) }
        await #expect(throws: error) { try await host.run(.init()) }
        #expect(host.platform.settings == nil)
        script.plan.start = .succeed
        let running = Task { try await host.run(.init()) }
        for await update in host.statusUpdates() where update.status == .connected { break }
        script.context?.cancel(error)
        await #expect(throws: error) { try await running.value }
        #expect(host.platform.settings == nil)
    }

    @Test("A run returns without an error if another caller stops the tunnel")
    func stopped() async throws {
        let host = MemoryHost<ScriptedProvider>()
        let running = Task { try await host.run(.init()) }
        for await update in host.statusUpdates() where update.status == .connected { break }
        await host.stop(.userInitiated)
        try await running.value
    }
}
