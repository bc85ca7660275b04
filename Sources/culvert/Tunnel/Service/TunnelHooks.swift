// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnel
import Synchronization
import TunnelSystem

/// Runs the commands of a wg-quick file when the tunnel of a host starts and stops.
///
/// If a start command fails, the start ends and the tunnel is taken down again. The failure of a stop command is
/// logged. After a stop the tunnel cannot be started again; after a failure it can.
final class TunnelHooks: Sendable {
    /// Runs a command and waits for it.
    typealias Run = @Sendable (_ command: String) async throws(TunnelError) -> Void

    private let host: any TunnelHost
    private let hooks: Hooks
    private let logger: Logger
    private let run: Run
    private let releaseGuard: @Sendable () async -> Void
    private let checkAfterHooks: @Sendable () -> TunnelError?
    private let proof: Duration?
    private let state = Mutex(State())

    private struct State {
        /// Whether the start commands have run, so that a stop runs the stop commands.
        var isUp = false
        var stopping: Task<Void, Never>?
        /// Whether the tunnel was stopped, which ends the current start and prevents later ones.
        var isStopped = false
        /// The running command of the current start.
        var upHook: Task<TunnelError?, Never>?
    }

    /// - Parameters:
    ///   - proof: the longest time that a start waits, after all commands, until the tunnel is connected; `nil` for no
    ///     wait.
    ///   - checkAfterHooks: returns an error if the commands have undone the start, for example by deleting the
    ///     interface.
    ///   - releaseGuard: called after the host was stopped, but not after it failed; undoes the changes that outlive
    ///     the host.
    init(
        _ host: any TunnelHost, hooks: Hooks, logger: Logger, proof: Duration? = nil,
        checkAfterHooks: @escaping @Sendable () -> TunnelError? = { nil },
        releaseGuard: @escaping @Sendable () async -> Void = {}, run: @escaping Run
    ) {
        self.proof = proof
        self.releaseGuard = releaseGuard
        self.checkAfterHooks = checkAfterHooks
        self.host = host
        self.hooks = hooks
        self.logger = logger
        self.run = run
    }

    /// Starts the tunnel, with the commands before and after.
    /// - Parameter startTunnel: starts the tunnel of the host.
    func start(_ startTunnel: () async throws(TunnelError) -> Void) async throws(TunnelError) {
        // After a failure, the down commands for the up commands that ran come first.
        let hasFailed = state.withLock { state in
            defer { state.isUp = false }
            return state.isUp
        }
        if hasFailed { await runAll(hooks.postDown) }
        try await runUpHooks(hooks.preUp)
        try await startTunnel()
        do throws(TunnelError) {
            try await runUpHooks(hooks.postUp)
            if !hooks.postUp.isEmpty, let error = checkAfterHooks() { throw error }
            if let proof { try await prove(within: proof) }
            let wasStopped = state.withLock { state in
                state.isUp = !state.isStopped
                return state.isStopped
            }
            if wasStopped { throw Self.stopped }
        } catch {
            // As wg-quick(8) does, take the tunnel down without running the commands for that.
            let host = host
            await Task { await host.stop(.configurationFailed) }.value
            throw error
        }
    }

    private static let stopped = TunnelError(.stopped, "the tunnel was stopped while it was starting")

    /// Waits until the tunnel is connected, which its commands have made possible.
    private func prove(within limit: Duration) async throws(TunnelError) {
        let host = host
        let outcome = await withDeadline(limit, clock: ContinuousClock()) { () -> TunnelError? in
            for await update in host.statusUpdates() {
                switch update.status {
                case .connected: return nil
                case .connecting, .reasserting: continue
                case .invalid, .disconnected, .disconnecting, .blocked: return update.error ?? Self.stopped
                }
            }
            return Self.stopped
        }
        switch outcome {
        case .finished(nil): return
        case .finished(let error?): throw error
        case .cancelled: throw Self.stopped
        case .timedOut:
            throw TunnelError(
                .serverUnreachable, "no answer from the server within \(limit)",
                fix:
                    "check that PostUp sets the private key, the server's address and port, both keys, and that UDP passes"
            )
        }
    }

    /// Runs start commands. If the start is stopped or its task is cancelled, ends the running command and runs no
    /// more.
    private func runUpHooks(_ commands: [String]) async throws(TunnelError) {
        for command in commands {
            let run = run
            let task = state.withLock { state -> Task<TunnelError?, Never>? in
                guard !state.isStopped else { return nil }
                let task = Task { () -> TunnelError? in
                    do throws(TunnelError) {
                        try await run(command)
                        return nil
                    } catch {
                        return error
                    }
                }
                state.upHook = task
                return task
            }
            guard let task else { throw Self.stopped }
            let error = await withTaskCancellationHandler {
                await task.value
            } onCancel: {
                task.cancel()
            }
            let wasStopped = state.withLock { state in
                state.upHook = nil
                return state.isStopped
            }
            if wasStopped { throw Self.stopped }
            if let error { throw error }
        }
        guard !state.withLock(\.isStopped) else { throw Self.stopped }
    }

    /// Stops the tunnel. A second call waits for the first one.
    func stop(_ reason: StopReason) async {
        let task = state.withLock { state in
            if let stopping = state.stopping { return stopping }
            let wasUp = state.isUp
            state.isUp = false
            state.isStopped = true
            state.upHook?.cancel()
            let task = Task { await self.takeDown(reason, wasUp: wasUp) }
            state.stopping = task
            return task
        }
        await task.value
        state.withLock { state in
            if state.stopping == task { state.stopping = nil }
        }
    }

    private func takeDown(_ reason: StopReason, wasUp: Bool) async {
        if wasUp, host.status.status.isActive { await runAll(hooks.preDown) }
        await host.stop(reason)
        await releaseGuard()
        if wasUp { await runAll(hooks.postDown) }
    }

    private func runAll(_ commands: [String]) async {
        for command in commands {
            do throws(TunnelError) { try await run(command) } catch { logger.error("\(error)") }
        }
    }
}

/// A host that runs hooks at each start and stop, including those that other processes request.
final class HookedHost<Host: RunnerHost>: RunnerHost {
    private let host: Host
    private let hooks: TunnelHooks

    /// - Parameter hooks: the hooks around the tunnel of `host`.
    init(_ host: Host, hooks: TunnelHooks) {
        (self.host, self.hooks) = (host, hooks)
    }

    var runner: TunnelRunner<Host.Provider> { host.runner }

    func start(_ request: TunnelStartRequest) async throws(TunnelError) {
        try await hooks.start { () throws(TunnelError) in try await runner.start(request) }
    }

    func start(
        _ configuration: Host.Provider.Configuration, leakPolicy: LeakPolicy, profileID: String?
    ) async throws(TunnelError) {
        try await hooks.start { () throws(TunnelError) in
            try await runner.start(configuration, leakPolicy: leakPolicy, profileID: profileID)
        }
    }

    func stop(_ reason: StopReason) async { await hooks.stop(reason) }
}
