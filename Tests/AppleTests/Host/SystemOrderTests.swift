// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import NetworkExtension
import PacketTunnelTesting
import Testing
import TunnelSystem

@testable import PacketTunnel
@testable import PacketTunnelApple

@Suite("In the order of the system's calls", .timeLimit(.minutes(5)))
struct SystemOrderTests {
    @Test("A tunnel that reasserts while it starts tells the system after the start's completion")
    func reassertsWhileStarting() async throws {
        let script = Script()
        script.plan.reassertsAtStart = true
        let system = BridgeTests.system(script)
        let (tunnel, done) = (system.tunnel, OneShot<Bool>())
        tunnel.startTunnel(options: NetworkExtensionStart.options(BridgeTests.request, secrets: [:])) { error in
            done.finish(error == nil && tunnel.standIn.reassertingChanges.isEmpty)
        }
        #expect(await done.value)
        #expect(await system.changes.wait { tunnel.standIn.reassertingChanges == [true] })
        await system.stop(.userInitiated)
    }

    /// Starts a tunnel again while it stops, with the secret `key`; returns once it is up.
    private func startedWhileStopping(_ script: Script) async throws -> SystemSide<ScriptedProvider> {
        script.plan.stopWaits = true
        let system = BridgeTests.system(script)
        var request = BridgeTests.request
        request.profileID = "p"
        try await system.start(request)
        let stopping = Task { await system.stop(.userInitiated) }
        await script.noted("stop userInitiated")
        let done = OneShot<(any Error)?>()
        let options = NetworkExtensionStart.options(request, secrets: ["key": SecretBytes([1, 2, 3])])
        system.tunnel.startTunnel(options: options) { done.finish($0) }
        script.release()
        await stopping.value
        #expect(await done.value == nil)
        return system
    }

    @Test("A start during a stop keeps its secrets")
    func startsWhileStopping() async throws {
        let script = Script()
        let system = try await startedWhileStopping(script)
        let context = try #require(script.context)
        #expect(try await context.secret("key").bytes == [1, 2, 3])
        await system.stop(.userInitiated)
        #expect(system.unbalanced.missing == 0 && system.unbalanced.repeated.isEmpty)
    }

    @Test("The failure of a tunnel that was started during a stop is reported to the system")
    func failsAfterStop() async throws {
        let script = Script()
        let system = try await startedWhileStopping(script)
        try #require(script.context).cancel(BridgeTests.broken)
        #expect(await system.changes.wait { system.tunnel.standIn.cancellations.count == 1 })
        await system.stop(.userInitiated)
        #expect(system.unbalanced.missing == 0 && system.unbalanced.repeated.isEmpty)
    }

    @Test("A restart message after the end of the system's tunnel starts nothing", arguments: [true, false])
    func restartsNothing(_ systemStops: Bool) async throws {
        let script = Script()
        let system = BridgeTests.system(script)
        try await system.start(BridgeTests.request)
        if systemStops {
            await system.stop(.userInitiated)
        } else {
            script.context?.cancel(BridgeTests.broken)
            #expect(await system.changes.wait { system.tunnel.standIn.cancellations.count == 1 })
        }
        let error = await #expect(throws: TunnelError.self) { try await system.restart() }
        #expect(error?.code == .notRunning)
        #expect(script.calls.messages.filter { $0 == "start" }.count == 1)
        await system.stop(.userInitiated)
    }

    @Test("A second start of a tunnel that is up is refused and leaves the first start's secrets")
    func startsTwice() async throws {
        let script = Script()
        let system = BridgeTests.system(script)
        var request = BridgeTests.request
        request.profileID = "p"
        let (first, second) = (OneShot<(any Error)?>(), OneShot<(any Error)?>())
        let options = NetworkExtensionStart.options(request, secrets: ["key": SecretBytes([1])])
        system.tunnel.startTunnel(options: options) { first.finish($0) }
        #expect(await first.value == nil)
        system.tunnel.startTunnel(options: NetworkExtensionStart.options(request, secrets: [:])) { second.finish($0) }
        #expect((await second.value).map { TunnelError($0).code } == .alreadyRunning)
        #expect(try await script.context?.secret("key").bytes == [1])
        await system.stop(.userInitiated)
    }

    @Test("A wake directly after a sleep reaches the provider after it")
    func wakesDirectly() async throws {
        let script = Script()
        let system = BridgeTests.system(script)
        try await system.start(BridgeTests.request)
        for count in 1...100 {
            let done = OneShot<Void>()
            system.tunnel.sleep { done.finish(()) }
            system.tunnel.wake()
            await done.value
            await script.noted("wake", count: count)
            #expect(script.calls.messages.suffix(2) == ["sleep", "wake"])
        }
        await system.stop(.userInitiated)
    }

    @Test("A secret that a running provider saves is written to the store, and without a store it is an error")
    func savedSecrets() async throws {
        let (script, store) = (Script(), MemorySecretStore())
        var request = BridgeTests.request
        request.profileID = "p"
        let options = NetworkExtensionStart.options(request, secrets: ["key": SecretBytes([1])])
        for isKept in [true, false] {
            let system = BridgeTests.system(script) { $0.secrets = isKept ? store : nil }
            let done = OneShot<(any Error)?>()
            system.tunnel.startTunnel(options: options) { done.finish($0) }
            #expect(await done.value == nil)
            let context = try #require(script.context)
            if isKept {
                try await context.keepSecret(SecretBytes([2]), "key")
                #expect(try await context.secret("key").bytes == [2])
                #expect(try await store.read("key", of: "p").bytes == [2])
            } else {
                let error = await #expect(throws: TunnelError.self) {
                    try await context.keepSecret(SecretBytes([2]), "key")
                }
                #expect(error?.code == .storage && error?.fix.isEmpty == false)
                #expect(try await context.secret("key").bytes == [1])
            }
            await system.stop(.userInitiated)
        }
    }
}
