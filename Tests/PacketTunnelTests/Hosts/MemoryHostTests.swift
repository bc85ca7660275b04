// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import Logging
import NetworkAddresses
import PacketTunnelTesting
import Testing
import TunnelIO

@testable import PacketTunnel

/// Sends a message's bytes as a UDP datagram through its tunnel and answers with the payload of the reply.
final class EchoClient: PacketTunnelProvider {
    struct Configuration: Codable, Sendable {
        var address: IPAddress
    }

    private let context = Broadcast<ProviderContext?>(nil)

    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        try await context.apply(
            TunnelSettings(
                remoteAddress: "network", addresses: [InterfaceAddress(host: configuration.address)],
                includedRoutes: [.allIPv4]))
        self.context.send(context)
    }

    func stop(_ reason: StopReason) async {}

    func handleAppMessage(_ message: [UInt8]) async -> [UInt8]? {
        guard let flow = context.current?.packetFlow,
            let batch = try? PacketBatch()
        else { return nil }
        batch.append(
            copying: PacketBuilder.udp(
                from: .v4(10, 0, 0, 2), port: 5, to: .v4(192, 0, 2, 1), port: 7, payload: message))
        guard (try? await flow.writeAll(batch)) != nil, (try? await flow.read(into: batch)) == 1 else { return nil }
        return Array(batch.copy(of: 0).dropFirst(28))
    }
}

@Suite("The memory host", .timeLimit(.minutes(1)))
struct MemoryHostTests {
    static let configuration = EchoClient.Configuration(address: .v4(10, 0, 0, 2))

    @Test("A memory host runs a provider on a network that answers")
    func network() async throws {
        let host = MemoryHost<EchoClient>()
        let network = VirtualNetwork()
        host.platform.connect(to: network)
        try await host.start(Self.configuration)
        #expect(host.status == TunnelStatusUpdate(.connected))
        #expect(try await host.sendMessage([4, 5, 6]) == [4, 5, 6])
        #expect(network.statistics.datagramsEchoed == 1)
        #expect(host.platform.settings?.includedRoutes == [.allIPv4])
        await host.stop(.userInitiated)
        #expect(host.platform.settings == nil)
        #expect(host.platform.device == nil)
    }

    @Test("Two hosts are connected to each other, even after one of them started again")
    func link() async throws {
        let (one, two) = (MemoryHost<ScriptedProvider>(), MemoryHost<ScriptedProvider>())
        MemoryHost.connect(one, two)
        try await one.start(.init())
        try await two.start(.init())
        for _ in 0..<2 {
            let (near, far) = (try #require(one.platform.device), try #require(two.platform.device))
            let batch = try PacketFlowTests.batch([PacketFlowTests.packet(1)])
            #expect(try near.sendUntilFull(batch).sent == 1)
            let received = try PacketFlowTests.batch()
            #expect(try far.receive(into: received) == 1)
            #expect(try far.send(received).sent == 1)
            received.removeAll()
            #expect(try near.receive(into: received) == 1)
            await one.stop(.userInitiated)
            try await one.start(.init())
        }
        await one.stop(.userInitiated)
        await two.stop(.userInitiated)
    }

    @Test("A bad configuration is an error of the start, with the place")
    func badConfiguration() async throws {
        let host = MemoryHost<EchoClient>()
        let error = await #expect(throws: TunnelError.self) {
            try await host.start(TunnelStartRequest(configuration: Array(#"{"address":"10.0.0"}"#.utf8)))
        }
        #expect(error?.code == .configurationInvalid)
        #expect(error?.message.contains("address: '10.0.0': ") == true)
        await host.stop(.userInitiated)
        #expect(host.status.error?.code == .configurationInvalid)
    }

    @Test("Invalid settings do not reach the platform, and the provider gets every problem")
    func badSettings() async throws {
        let script = Script()
        script.plan.settings = TunnelSettings(remoteAddress: "", addresses: [])
        let host = MemoryHost { ScriptedProvider(script) }
        let error = await #expect(throws: TunnelError.self) { try await host.start(.init()) }
        #expect(error?.code == .settingsInvalid)
        #expect(error?.problems.map(\.field) == ["remoteAddress", "addresses"])
        #expect(host.platform.history.isEmpty)
    }

    @Test("A start without settings is a failure, and its provider is stopped")
    func noSettings() async throws {
        let script = Script()
        script.plan.settings = nil
        let host = MemoryHost { ScriptedProvider(script) }
        let error = await #expect(throws: TunnelError.self) { try await host.start(.init()) }
        #expect(error?.code == .settingsMissing)
        await script.noted("stopped")
    }

    @Test("The settings of a provider are made as strict as the profile demands")
    func strictness() async throws {
        let script = Script()
        let host = MemoryHost { ScriptedProvider(script) }
        try await host.start(.init(), leakPolicy: .everything)
        #expect(host.platform.settings?.leakPolicy == .everything)
        #expect(host.platform.guardPolicy == .everything)
        #expect(host.runner.leakState?.phase == .up)
        #expect(host.runner.leakState?.policy == .everything)
        var looser = TunnelSettings.sample
        looser.leakPolicy = .enforcedRoutes
        try await script.context?.apply(looser)
        #expect(host.platform.settings?.leakPolicy == .everything)
        await host.stop(.userInitiated)
        #expect(host.runner.leakState == nil)
    }

    @Test("Settings that fail or exceed their time have distinct errors, and others can follow")
    func failingSettings() async throws {
        let clock = VirtualClock()
        let script = Script()
        let host = MemoryHost(clock: clock) { ScriptedProvider(script) }
        try await host.start(.init())
        let context = try #require(script.context)
        host.platform.setApply(.fail(TunnelError(.settingsFailed, "no route")))
        await #expect(throws: TunnelError(.settingsFailed, "no route")) { try await context.apply(.sample) }
        host.platform.setApply(.hangForever)
        let applying = Task { try await context.apply(.sample) }
        await clock.waitForSleepers()
        clock.advance(by: .seconds(10))
        let error = await #expect(throws: TunnelError.self) { try await applying.value }
        #expect(error?.code == .settingsTimedOut)
        // The one that hangs is waited for: the platform's calls never overlap.
        host.platform.setApply(.succeed)
        let next = Task { try await context.apply(.sample) }
        await clock.waitForSleepers()
        #expect(host.platform.history.count == 1)
        host.platform.releaseAll()
        try await next.value
        #expect(host.platform.history.count == 2)
        #expect(host.status.status == .connected)
        await host.stop(.userInitiated)
        await #expect(throws: TunnelError.self) { try await context.apply(.sample) }
    }

    @Test("Sleep, wake and paths arrive in order, one at a time, and only the last path of several")
    func events() async throws {
        let script = Script()
        script.plan.sleepWaits = true
        let clock = VirtualClock()
        let host = MemoryHost(clock: clock) { ScriptedProvider(script) }
        try await host.start(.init())
        let sleeping = Task { await host.sleep() }
        await script.noted("sleep")
        host.wake()
        for name in ["a", "b", "c"] {
            host.pathChanged(NetworkPath(interfaces: [.init(name: name, kind: .wifi)]))
        }
        // The provider takes too long; the device sleeps anyhow.
        await clock.waitForSleepers()
        clock.advance(by: .seconds(5))
        await sleeping.value
        #expect(script.calls.messages.suffix(1) == ["sleep"])
        script.release()
        await script.noted("path c")
        #expect(script.calls.messages.suffix(3) == ["sleep", "wake", "path c"])
        await host.stop(.userInitiated)
    }

    @Test("A path that changes while it starts arrives after the start")
    func earlyPath() async throws {
        let script = Script()
        script.plan.start = .wait
        let host = MemoryHost { ScriptedProvider(script) }
        let starting = Task { try await host.start(.init()) }
        await script.noted("waits")
        host.pathChanged(NetworkPath(interfaces: [.init(name: "new", kind: .cellular)]))
        script.note("released")
        script.release()
        try await starting.value
        await script.noted("path new")
        #expect(script.calls.messages.suffix(2) == ["released", "path new"])
        await host.stop(.userInitiated)
    }

    @Test("An unanswered message ends with the tunnel, and an empty answer is not an answer")
    func messages() async throws {
        let script = Script()
        script.plan.answers = nil
        let host = MemoryHost { ScriptedProvider(script) }
        try await host.start(.init())
        #expect(try await host.sendMessage([1]) == nil)
        script.plan.answerWaits = true
        let waiting = Task { try await host.sendMessage([1]) }
        await script.noted("message", count: 2)
        await host.stop(.userInitiated)
        let error = await #expect(throws: TunnelError.self) { _ = try await waiting.value }
        #expect(error?.code == .notRunning)
        script.release()
    }

    @Test("A provider that starts too late is stopped on the side")
    func lateStart() async throws {
        let (clock, script) = (VirtualClock(), Script())
        script.plan.start = .waitStubbornly
        let host = MemoryHost(clock: clock) { ScriptedProvider(script) }
        let starting = Task { try await host.start(.init()) }
        await script.noted("waits")
        await clock.waitForSleepers()
        clock.advance(by: .seconds(60))
        let error = await #expect(throws: TunnelError.self) { try await starting.value }
        #expect(error?.code == .startTimedOut)
        await clock.waitForSleepers()
        clock.advance(by: .seconds(10))
        await host.stop(.userInitiated)
        #expect(!script.calls.messages.contains("stopped"))
        script.release()
        await script.noted("stopped")
    }

    @Test("Each follower of the status gets every change, in order")
    func followers() async throws {
        let host = MemoryHost<ScriptedProvider>()
        let streams = (0..<3).map { _ in host.statusUpdates() }
        for _ in 0..<10 {
            try await host.start(.init())
            await host.stop(.userInitiated)
        }
        let round: [TunnelStatus] = [.connecting, .connected, .disconnecting, .disconnected]
        for stream in streams {
            var seen: [TunnelStatus] = []
            for await update in stream {
                seen.append(update.status)
                if seen.count == 41 { break }
            }
            #expect(seen == [.disconnected] + Array(repeating: round, count: 10).joined())
        }
    }

    @Test("Under 'everything' the guard is loaded before there are settings, and removed when the start fails")
    func guardWhileConnecting() async throws {
        let script = Script()
        script.plan.settings = nil
        script.plan.start = .wait
        let host = MemoryHost { ScriptedProvider(script) }
        let starting = Task { try await host.start(.init(), leakPolicy: .everything) }
        await script.noted("waits")
        #expect(host.platform.guardPolicy == .everything)
        #expect(host.platform.settings == nil)
        #expect(host.runner.leakState?.phase == .connecting)
        starting.cancel()
        let error = await #expect(throws: TunnelError.self) { try await starting.value }
        #expect(error?.code == .stopped)
        await host.stop(.userInitiated)
        #expect(host.platform.guardPolicy == nil)
    }

    @Test("A failure under a strict policy leaves the guard and nothing else, and a start out of it works")
    func blocked() async throws {
        let script = Script()
        script.plan.settings?.leakPolicy = .enforcedRoutes
        let host = MemoryHost { ScriptedProvider(script) }
        try await host.start(.init())
        let flow = try #require(script.context?.packetFlow)
        let updates = host.statusUpdates()
        let lost = TunnelError(.connectivityLost, "nothing comes back")
        script.context?.cancel(lost)
        for await update in updates where update.status == .blocked { break }
        #expect(host.status == TunnelStatusUpdate(.blocked, error: lost))
        #expect(script.calls.messages.contains("stop connectivityLost"))
        #expect(host.platform.guardPolicy == .enforcedRoutes)
        #expect(host.platform.settings == nil)
        #expect(flow.isClosed)
        script.plan = Script.Plan()
        try await host.start(.init())
        #expect(host.platform.settings?.leakPolicy == .enforcedRoutes)
        await host.stop(.userInitiated)
        #expect(host.platform.guardPolicy == nil)
    }

    @Test("A stopped tunnel leaves nothing behind")
    func leaks() async throws {
        final class Keeper: PacketTunnelProvider {
            struct Configuration: Codable {}
            let context = Broadcast<ProviderContext?>(nil)
            func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
                self.context.send(context)
                try await context.apply(.sample)
            }
            func stop(_ reason: StopReason) async {}
        }
        weak var provider: Keeper?
        weak var runner: TunnelRunner<Keeper>?
        do {
            let made = Broadcast<Keeper?>(nil)
            let host = MemoryHost<Keeper> {
                let keeper = Keeper()
                made.send(keeper)
                return keeper
            }
            try await host.start(.init())
            await host.stop(.userInitiated)
            (provider, runner) = (made.current, host.runner)
            made.send(nil)
        }
        // Tasks that have nothing more to do may still hold it for a moment.
        for _ in 0..<100_000 where provider != nil || runner != nil { await Task.yield() }
        #expect(provider == nil)
        #expect(runner == nil)
    }

    /// A host has threads and descriptors, and the system limits their number for each user.
    @Test("A context that is kept does not keep the host of a tunnel that is down", arguments: [true, false])
    func keptContext(_ starts: Bool) async throws {
        let script = Script()
        if !starts { script.plan.start = .fail(TunnelError(.serverUnreachable, "no answer")) }
        weak var platform: MemoryPlatform?
        weak var runner: TunnelRunner<ScriptedProvider>?
        do {
            let host = MemoryHost { ScriptedProvider(script) }
            if starts {
                try await host.start(.init())
            } else {
                await #expect(throws: TunnelError.self) { try await host.start(.init()) }
            }
            await host.stop(.userInitiated)
            (platform, runner) = (host.platform, host.runner)
        }
        for _ in 0..<100_000 where platform != nil || runner != nil { await Task.yield() }
        #expect(platform == nil)
        #expect(runner == nil)
        let context = try #require(script.context)
        context.setReasserting(true)
        context.cancel(TunnelError(.serverUnreachable, "no answer"))
        #expect(await context.outsideNameServers().isEmpty)
        let error = await #expect(throws: TunnelError.self) { try await context.apply(.sample) }
        #expect(error?.code == .notRunning)
    }
}
