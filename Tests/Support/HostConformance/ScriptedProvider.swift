// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
package import PacketTunnel
package import PacketTunnelTesting
import Synchronization
package import Testing
import TunnelSystem

/// The behaviour of a ``ScriptedProvider``, and the record of its calls.
package final class Script: Sendable {
    /// The behaviour of the provider's start after it has applied its settings.
    package enum Start: Sendable {
        case succeed
        case fail(TunnelError)
        /// Waits for ``Script/release()``, and throws if the task is cancelled.
        case wait
        /// Waits for ``Script/release()``, even if the task is cancelled.
        case waitStubbornly
    }

    package struct Plan: Sendable {
        package var start = Start.succeed
        /// The settings that the provider applies first.
        package var settings: TunnelSettings? = TunnelSettings.sample
        /// Whether it reasserts before its start returns.
        package var reassertsAtStart = false
        /// Whether its stop waits for ``Script/release()``.
        package var stopWaits = false
        package var sleepWaits = false
        package var answers: [UInt8]? = [1]
        /// Whether it never answers a message before ``Script/release()``.
        package var answerWaits = false

        package init() {}
    }

    private struct State {
        var plan: Plan
        var context: ProviderContext?
        var waiting: [OneShot<Void>] = []
        var isReleased = false
    }

    /// The calls, in order.
    package let calls = Eavesdropper<String>()
    private let state: Mutex<State>
    private let changes = Changes()

    package init(_ plan: Plan = Plan()) {
        state = Mutex(State(plan: plan))
    }

    package var plan: Plan {
        get { state.withLock { $0.plan } }
        set { state.withLock { $0.plan = newValue } }
    }

    /// The context of the last start.
    package var context: ProviderContext? { state.withLock { $0.context } }

    package func note(_ call: String) {
        calls.observe(call)
        changes.notify()
    }

    /// Waits until `call` was recorded at least `count` times. Returns whether this happened within 45 seconds, and
    /// otherwise records an issue.
    @discardableResult
    package func noted(
        _ call: String, count: Int = 1, sourceLocation: SourceLocation = #_sourceLocation
    ) async -> Bool {
        let isNoted = await changes.wait(within: .seconds(45)) {
            calls.messages.count { $0 == call } >= count
        }
        if !isNoted { Issue.record("no call '\(call)', or fewer than \(count)", sourceLocation: sourceLocation) }
        return isNoted
    }

    /// Releases all waiting calls, and all later ones.
    package func release() {
        let waiting = state.withLock { state in
            state.isReleased = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for step in waiting { step.finish(()) }
    }

    package func keep(_ context: ProviderContext) { state.withLock { $0.context = context } }

    package func wait(stubbornly: Bool) async {
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

/// A provider that follows its script.
package final class ScriptedProvider: PacketTunnelProvider {
    package struct Configuration: Codable, Sendable {
        package var name = "script"

        package init() {}
    }

    package let script: Script

    package init() { script = Script() }

    package init(_ script: Script) { self.script = script }

    package func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        script.note("start")
        script.keep(context)
        if let settings = script.plan.settings {
            try await context.apply(settings)
            script.note("applied")
        }
        if script.plan.reassertsAtStart { context.setReasserting(true) }
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

    package func stop(_ reason: StopReason) async {
        script.note("stop \(reason.rawValue)")
        if script.plan.stopWaits { await script.wait(stubbornly: true) }
        script.note("stopped")
    }

    package func sleep() async {
        script.note("sleep")
        if script.plan.sleepWaits { await script.wait(stubbornly: true) }
    }

    package func wake() async { script.note("wake") }

    package func pathChanged(_ path: NetworkPath) async { script.note("path \(path.interfaces.first?.name ?? "none")") }

    package func handleAppMessage(_ message: [UInt8]) async -> [UInt8]? {
        script.note("message")
        if script.plan.answerWaits { await script.wait(stubbornly: true) }
        return script.plan.answers
    }
}

extension TunnelSettings {
    /// Valid settings.
    package static var sample: TunnelSettings {
        TunnelSettings(
            remoteAddress: "vpn.example", addresses: [InterfaceAddress(host: .v4(10, 0, 0, 2))],
            includedRoutes: [.allIPv4]
        )
    }
}
