// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Synchronization
import TunnelIO
import TunnelSystem

// The slow operations of the platform and the provider.
extension TunnelRunner {
    /// Prepares the platform, makes the provider and starts it.
    func begin(_ run: Run, _ policy: LeakPolicy) {
        let task = Task {
            let result = await self.start(run, policy)
            let error: TunnelError? = if case .failure(let error) = result { error } else { nil }
            let isAwaited = self.handle(.startReturned(run.number, error)) { $0.awaitsReturn(of: run.number) }
            // The life cycle no longer waits for this start.
            if !isAwaited, case .success(let provider) = result { await provider.stop(.connectionFailed) }
        }
        let isCancelled = run.state.withLock { state in
            state.startTask = task
            return state.isStartCancelled
        }
        if isCancelled { task.cancel() }
    }

    private func start(_ run: Run, _ policy: LeakPolicy) async -> Result<Provider, TunnelError> {
        do throws(TunnelError) {
            let configuration = try run.configuration()
            await finishLingering()
            try Self.checkCancelled()
            try await platform.prepare(policy)
            try Self.checkCancelled()
            let provider = makeProvider()
            provider.router.logger = logger
            // A released run must not retain its provider.
            run.state.withLock { state in if state.runner != nil { state.provider = provider } }
            let context = ProviderContext(
                packetFlow: run.flow, logger: logger, clock: clock, path: state.withLock { $0.path },
                leakPolicy: policy, socketMark: platform.socketMark, startOptions: run.options,
                host: RunContext(run: run, secrets: secrets))
            do throws(TunnelError) {
                try await provider.start(configuration, context: context)
            } catch {
                // The provider has cleaned up and gets no more calls.
                run.state.withLock { $0.provider = nil }
                throw error
            }
            return .success(provider)
        } catch {
            return .failure(error)
        }
    }

    private static func checkCancelled() throws(TunnelError) {
        if Task.isCancelled { throw TunnelError(.stopped, "the start was cancelled") }
    }

    /// Closes the flow and undoes the platform's work.
    func tearDown(_ number: TunnelLifecycle.Run, _ run: Run?, leavingBlocked: Bool) {
        run?.flow.close()
        let applying = run?.state.withLock { $0.applyWork } ?? nil
        applying?.cancel()
        let (clock, platform, patience) = (clock, platform, deadlines.tearDown / 2)
        let before = state.withLock { $0.lingering }
        let task = Task {
            for task in before { await task.value }
            if let applying {
                _ = await withDeadline(patience, clock: clock) { await applying.value }
            }
            await platform.tearDown(leavingBlocked: leavingBlocked)
        }
        state.withLock { $0.lingering += [task] + (applying.map { [$0] } ?? []) }
        Task {
            await task.value
            self.handle(.tornDown(number))
        }
    }

    /// Waits for the platform's operations that exceeded their deadline.
    private func finishLingering() async {
        let tasks = state.withLock { $0.lingering }
        for task in tasks { await task.value }
        state.withLock { $0.lingering.removeAll(where: tasks.contains) }
    }

    /// Applies a provider's settings.
    func apply(_ settings: TunnelSettings, _ run: Run) async throws(TunnelError) {
        var settings = settings
        // A stricter policy is possible at any time, a less strict one only after the tunnel has ended.
        settings.leakPolicy = max(settings.leakPolicy, state.withLock { $0.lifecycle.leakPolicy })
        let problems = settings.validate()
        guard problems.isEmpty else { throw .invalidSettings(problems) }
        await run.enterApply()
        defer { run.leaveApply() }
        guard state.withLock({ $0.lifecycle.isRunning(run.number) }) else { throw Self.notRunning }
        let (platform, wanted) = (platform, settings)
        let before = run.state.withLock { $0.applyWork }
        let outcome = await withDeadline(
            deadlines.settings, clock: clock, started: { task in run.state.withLock { $0.applyWork = task } }
        ) { () async -> Result<any TunDevice, TunnelError> in
            // A call that exceeded its deadline may still run.
            await before?.value
            if Task.isCancelled { return .failure(Self.notRunning) }
            do throws(TunnelError) {
                return .success(try await platform.apply(wanted))
            } catch {
                return .failure(error)
            }
        }
        switch outcome {
        case .finished(.success(let device)):
            run.state.withLock { $0.applyWork = nil }
            run.flow.attach(device)
            handle(.settingsInForce(run.number, settings.leakPolicy))
        case .finished(.failure(let error)):
            run.state.withLock { $0.applyWork = nil }
            throw error
        case .timedOut:
            throw TunnelError(
                .settingsTimedOut, "the system did not apply the tunnel's settings in time", fix: "try again")
        case .cancelled: throw TunnelError(.closed, "the task was cancelled")
        }
    }

    static var notRunning: TunnelError { TunnelError(.notRunning, "the tunnel has ended") }
}

/// The host's side of a provider's context. Like the run, it retains the runner only until the tunnel is down.
private struct RunContext<Provider: PacketTunnelProvider>: ProviderHost {
    let run: TunnelRun<Provider>
    /// The store is available after the run too, so that a secret that a server issues late can be stored.
    let secrets: (any SecretStore)?

    private var runner: TunnelRunner<Provider>? { run.state.withLock { $0.runner } }

    func apply(_ settings: TunnelSettings) async throws(TunnelError) {
        guard let runner else { throw TunnelRunner<Provider>.notRunning }
        try await runner.apply(settings, run)
    }

    func setReasserting(_ isReasserting: Bool) {
        runner?.handle(.reasserting(run.number, isReasserting))
    }

    func cancel(_ error: TunnelError) {
        runner?.handle(.cancel(run.number, error))
    }

    func outsideNameServers() async -> [IPAddress] { await runner?.platform.outsideNameServers() ?? [] }

    func secret(_ name: String) async throws(TunnelError) -> SecretBytes {
        let (store, profile) = try store(of: name)
        return try await store.read(name, of: profile)
    }

    func keepSecret(_ secret: SecretBytes, _ name: String) async throws(TunnelError) {
        let (store, profile) = try store(of: name)
        try await store.write(secret, name, of: profile)
    }

    private func store(of name: String) throws(TunnelError) -> (any SecretStore, String) {
        guard let secrets else {
            throw TunnelError(
                .secretUnavailable, "the tunnel has no secret '\(name)': its host has no store for secrets",
                fix: "give the host one, with 'secrets:'")
        }
        guard let profile = run.profileID else {
            throw TunnelError(
                .secretUnavailable, "the tunnel has no secret '\(name)': it was not started from a profile",
                fix: "start it from a profile, or with 'profileID:'")
        }
        return (secrets, profile)
    }
}

extension TunnelLifecycle.Effect {
    /// The run that the event or effect belongs to.
    var run: TunnelLifecycle.Run? {
        switch self {
        case .begin(let run, _), .deliverEvents(let run), .cancelStart(let run), .endMessages(let run),
            .stopProvider(let run, _), .abandon(let run), .tearDown(let run, _), .arm(let run, _),
            .disarm(let run, _), .endStart(let run, _), .forget(let run):
            run
        case .publish, .endStops: nil
        }
    }
}
