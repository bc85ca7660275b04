// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import PacketTunnel
package import PacketTunnelTesting
import Testing
import TunnelIO

/// Executes a ``LifecycleCase`` on a host.
package final class LifecycleScene<Host: HostUnderTest>: Sendable {
    package let clock = VirtualClock()
    package let script = Script()
    package let subject: Host
    private let history = Eavesdropper<TunnelStatus>()
    private let seen = Broadcast(0)
    private let watching: Task<Void, Never>

    package static var deadlines: TunnelDeadlines {
        TunnelDeadlines(
            start: .seconds(60), stop: .seconds(10), settings: .seconds(100), tearDown: .seconds(10), sleep: .seconds(5)
        )
    }

    package init() async throws {
        subject = try await Host(clock: clock, script: script, deadlines: Self.deadlines)
        let (history, seen, updates) = (history, seen, subject.host.statusUpdates())
        watching = Task {
            for await update in updates {
                history.observe(update.status)
                seen.send(history.count)
            }
        }
    }

    deinit { watching.cancel() }

    private var request: TunnelStartRequest { TunnelStartRequest(configuration: Array(#"{"name":"x"}"#.utf8)) }

    /// The result of a call of the host.
    private func outcome(_ body: () async throws(TunnelError) -> Void) async -> LifecycleCase.Answer {
        do throws(TunnelError) {
            try await body()
            return .success
        } catch {
            return .failure(error.code)
        }
    }

    private func start() -> Task<LifecycleCase.Answer, Never> {
        let (host, request) = (subject.host, request)
        return Task { await self.outcome { () throws(TunnelError) in try await host.start(request) } }
    }

    private func stop() -> Task<Void, Never> {
        let host = subject.host
        return Task { await host.stop(.userInitiated) }
    }

    /// Waits until `count` statuses were seen.
    private func statuses(_ count: Int) async {
        for await seen in seen.follow() where seen >= count { return }
    }

    /// Reads a tunnel's packets with batches of several sizes. On every host the same sizes suffice, smaller ones are
    /// refused, and none crashes the process.
    package func readIntoSmallBatches() async throws {
        try await subject.host.start(request)
        let flow = try #require(script.context).packetFlow
        for bytes in [1, 1_500, 65_535, PacketBatch.minimumReadBytes / 2] {
            let small = try PacketBatch(packetCapacity: 4, byteCapacity: bytes)
            let error = await #expect(throws: TunnelError.self) { try await flow.read(into: small) }
            #expect(error?.code == .batchTooSmall)
        }
        let device = try flow.leaseDevice()
        #expect(throws: TunnelIOError.self) {
            try device.receive(into: PacketBatch(packetCapacity: 4, byteCapacity: PacketBatch.minimumReadBytes / 2))
        }
        for bytes in [PacketBatch.minimumReadBytes, 1 << 20] {
            _ = try device.receive(into: PacketBatch(packetCapacity: 4, byteCapacity: bytes))
        }
        _ = try device.receive(into: PacketBatch())
        device.close()
        await subject.host.stop(.userInitiated)
    }

    /// Executes the case and checks each of its expectations.
    package func play(_ test: LifecycleCase) async {
        let first = await enter(test.situation)
        await statuses(LifecycleScene.path(to: test.situation).count)
        let before = history.count
        let second = await bringAbout(test.event, first: first)
        if test.statuses.isEmpty == false { await statuses(before + test.statuses.count) }
        #expect(Array(history.messages.dropFirst(before)) == test.statuses)
        if test.answer != .later, let second { #expect(await second.value == test.answer) }

        // In every case the tunnel can be ended, and then every caller gets an answer.
        let closing = Self.closing(after: test)
        if test.answer == .later {
            release()
            if let second { #expect(await second.value == .success) }
        }
        let ending = stop()
        while subject.host.status.status == .connecting { await Task.yield() }
        release()
        await ending.value
        await statuses(before + test.statuses.count + closing.count)
        #expect(Array(history.messages.dropFirst(before)) == test.statuses + closing)
        if let first { #expect(await first.value == expectedFirst(test), "the first start, \(test.testDescription)") }
        let starts = script.calls.messages.filter { $0 == "start" }.count
        #expect(script.calls.messages.filter { $0.hasPrefix("stop ") }.count <= starts)

        // Nothing hangs, and nothing remains.
        script.plan = Script.Plan()
        #expect(await start().value == .success)
        await subject.host.stop(.userInitiated)
        #expect(!subject.hasSettings)
        #expect(!subject.hasLeakGuard)
    }

    private func release() {
        script.release()
        for step in [PlatformStep.prepare, .apply, .tearDown] { subject.set(step, .succeed) }
        subject.releaseAll()
    }

    /// The statuses that follow when the test ends the tunnel.
    private static func closing(after test: LifecycleCase) -> [TunnelStatus] {
        if test.answer == .later { return [.disconnected, .connecting, .connected, .disconnecting, .disconnected] }
        return switch test.statuses.last ?? path(to: test.situation).last {
        case .disconnected: []
        case .disconnecting: [.disconnected]
        default: [.disconnecting, .disconnected]
        }
    }

    /// The result of the start that created the situation.
    private func expectedFirst(_ test: LifecycleCase) -> LifecycleCase.Answer {
        switch test.situation {
        case .disconnected, .connected, .strict, .reasserting, .stopping, .tearingDown, .blocked: return .success
        case .givenUp: return .failure(.stopped)
        case .preparing, .applying, .connecting:
            switch test.event {
            case .wait: return .failure(.startTimedOut)
            case .fail where test.situation != .preparing: return .failure(.serverUnreachable)
            case .release: return .success
            default: return .failure(.stopped)
            }
        }
    }

    /// The statuses up to a situation, including the first one.
    static func path(to situation: LifecycleCase.Situation) -> [TunnelStatus] {
        switch situation {
        case .disconnected: [.disconnected]
        case .preparing, .applying, .connecting: [.disconnected, .connecting]
        case .connected, .strict: [.disconnected, .connecting, .connected]
        case .reasserting: [.disconnected, .connecting, .connected, .reasserting]
        case .givenUp: [.disconnected, .connecting, .disconnecting]
        case .stopping, .tearingDown: [.disconnected, .connecting, .connected, .disconnecting]
        case .blocked: [.disconnected, .connecting, .connected, .disconnecting, .blocked]
        }
    }

    /// Waits until a step hangs, because a step that is released before it hangs would hang forever.
    private func untilStepHangs() async {
        let end = ContinuousClock.now + .seconds(60)
        while subject.hangingCount == 0, ContinuousClock.now < end { await Task.yield() }
    }

    /// Brings the tunnel into the situation; returns the start that did this.
    private func enter(_ situation: LifecycleCase.Situation) async -> Task<LifecycleCase.Answer, Never>? {
        var plan = Script.Plan()
        switch situation {
        case .disconnected: return nil
        case .preparing: subject.set(.prepare, .hang)
        case .applying: subject.set(.apply, .hang)
        case .connecting: plan.start = .wait
        case .givenUp: plan.start = .waitStubbornly
        case .stopping: plan.stopWaits = true
        case .strict, .blocked: plan.settings?.leakPolicy = .enforcedRoutes
        case .connected, .reasserting, .tearingDown: break
        }
        script.plan = plan
        let first = start()
        switch situation {
        case .preparing:
            await statuses(2)
            await untilStepHangs()
        case .applying:
            await script.noted("start")
            await untilStepHangs()
            // Wait for the deadlines of the start and of the settings, so that the earlier one passes first.
            await clock.waitForSleepers(2)
        case .connecting: await script.noted("waits")
        case .givenUp:
            await script.noted("waits")
            _ = stop()
        default: _ = await first.value
        }
        switch situation {
        case .reasserting: script.context?.setReasserting(true)
        case .stopping:
            _ = stop()
            await script.noted("stop userInitiated")
        case .tearingDown:
            subject.set(.tearDown, .hangForever)
            _ = stop()
            await script.noted("stopped")
        case .blocked: script.context?.cancel(TunnelError(.serverUnreachable, "no answer"))
        default: break
        }
        return first
    }

    /// Triggers the event; returns its result if it is a call.
    private func bringAbout(
        _ event: LifecycleCase.Event, first: Task<LifecycleCase.Answer, Never>?
    ) async -> Task<LifecycleCase.Answer, Never>? {
        switch event {
        case .start:
            // Only the first stop still waits.
            if script.plan.stopWaits == false { script.plan = Script.Plan() }
            return start()
        case .stop: _ = stop()
        case .fail: script.context?.cancel(TunnelError(.serverUnreachable, "no answer"))
        case .reassert: script.context?.setReasserting(true)
        case .assert: script.context?.setReasserting(false)
        case .wait: await passTime()
        case .release: release()
        case .message:
            let host = subject.host
            return Task {
                await self.outcome { () throws(TunnelError) in
                    let answer = try await host.sendMessage([7])
                    #expect(answer == [1])
                }
            }
        case .sleepAndWake:
            await subject.host.sleep()
            subject.host.wake()
        case .cancel: first?.cancel()
        }
        return nil
    }

    /// Makes all pending deadlines pass, one after the other.
    private func passTime() async {
        if subject.host.status.status == .connecting {
            // The start's deadline is the first, and must take effect before the next one passes.
            let before = history.count
            while !clock.advanceToNextDeadline() { await Task.yield() }
            await statuses(before + 1)
        }
        while [.connecting, .disconnecting].contains(subject.host.status.status) {
            if !clock.advanceToNextDeadline() { await Task.yield() }
        }
    }
}
