// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Synchronization

@testable import PacketTunnel

/// What a ``ScriptedProvider`` does, and what it was asked to do.
final class Script: Sendable {
    /// How the provider's start goes on after it has applied its settings.
    enum Start: Sendable {
        case succeed
        case fail(TunnelError)
        /// Waits for ``Script/release()``, and throws when it is given up.
        case wait
        /// Waits for ``Script/release()`` and cares for nothing else.
        case waitStubbornly
    }

    struct Plan: Sendable {
        var start = Start.succeed
        /// What it applies before that.
        var settings: TunnelSettings? = TunnelSettings.sample
        /// Whether its stop waits for ``Script/release()``.
        var stopWaits = false
        var sleepWaits = false
        var answers: [UInt8]? = [1]
        /// Whether it never answers a message before ``Script/release()``.
        var answerWaits = false
    }

    private struct State {
        var plan: Plan
        var context: ProviderContext?
        var waiting: [OneShot<Void>] = []
        var isReleased = false
    }

    /// What was called, in order.
    let calls = Eavesdropper<String>()
    private let state: Mutex<State>
    private let changes = Broadcast(0)

    init(_ plan: Plan = Plan()) {
        state = Mutex(State(plan: plan))
    }

    var plan: Plan {
        get { state.withLock { $0.plan } }
        set { state.withLock { $0.plan = newValue } }
    }

    /// The context of the last start.
    var context: ProviderContext? { state.withLock { $0.context } }

    func note(_ call: String) {
        calls.observe(call)
        changes.send(calls.count)
    }

    /// Waits until `call` was noted, `count` times at least.
    func noted(_ call: String, count: Int = 1) async {
        for await _ in changes.follow() where calls.messages.filter({ $0 == call }).count >= count { return }
    }

    /// Lets everything go on that waits, now and from now on.
    func release() {
        let waiting = state.withLock { state in
            state.isReleased = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for step in waiting { step.finish(()) }
    }

    func keep(_ context: ProviderContext) { state.withLock { $0.context = context } }

    func wait(stubbornly: Bool) async {
        let step = state.withLock { state -> OneShot<Void>? in
            if state.isReleased { return nil }
            let step = OneShot<Void>()
            state.waiting.append(step)
            return step
        }
        guard let step else { return }
        if stubbornly {
            await step.value
        } else {
            await withTaskCancellationHandler {
                await step.value
            } onCancel: {
                step.finish(())
            }
        }
    }
}

/// A provider that does what its script says.
final class ScriptedProvider: PacketTunnelProvider {
    struct Configuration: Codable, Sendable {
        var name = "script"
    }

    let script: Script

    init() { script = Script() }

    init(_ script: Script) { self.script = script }

    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        script.note("start")
        script.keep(context)
        if let settings = script.plan.settings {
            try await context.apply(settings)
            script.note("applied")
        }
        switch script.plan.start {
        case .succeed: return
        case .fail(let error): throw error
        case .wait:
            script.note("waits")
            await script.wait(stubbornly: false)
            if Task.isCancelled { throw TunnelError(.stopped, "given up") }
        case .waitStubbornly:
            script.note("waits")
            await script.wait(stubbornly: true)
        }
    }

    func stop(_ reason: StopReason) async {
        script.note("stop \(reason.rawValue)")
        if script.plan.stopWaits { await script.wait(stubbornly: true) }
        script.note("stopped")
    }

    func sleep() async {
        script.note("sleep")
        if script.plan.sleepWaits { await script.wait(stubbornly: true) }
    }

    func wake() async { script.note("wake") }

    func pathChanged(_ path: NetworkPath) async { script.note("path \(path.interfaces.first?.name ?? "none")") }

    func handleAppMessage(_ message: [UInt8]) async -> [UInt8]? {
        script.note("message")
        if script.plan.answerWaits { await script.wait(stubbornly: true) }
        return script.plan.answers
    }
}
