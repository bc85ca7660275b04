// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnel
import Synchronization

/// A host that runs the commands of a wg-quick file when its tunnel comes and goes.
///
/// A command that fails on the way up ends the start, and the tunnel is taken down again; on the way down it is logged.
final class HookedHost: TunnelHost {
    /// Runs a command to its end.
    typealias Run = @Sendable (_ command: String) async throws(TunnelError) -> Void

    private let host: any TunnelHost
    private let hooks: Hooks
    private let logger: Logger
    private let run: Run
    private let state = Mutex(State())

    private struct State {
        /// Whether what ran on the way up asks for what runs on the way down.
        var isUp = false
        var stopping: Task<Void, Never>?
    }

    init(_ host: any TunnelHost, hooks: Hooks, logger: Logger, run: @escaping Run) {
        self.host = host
        self.hooks = hooks
        self.logger = logger
        self.run = run
    }

    func start(_ request: TunnelStartRequest) async throws(TunnelError) {
        for command in hooks.preUp { try await run(command) }
        try await host.start(request)
        do throws(TunnelError) {
            for command in hooks.postUp { try await run(command) }
        } catch {
            // As wg-quick(8) has it: taken down, without the commands for that.
            let host = host
            await Task { await host.stop(.configurationFailed) }.value
            throw error
        }
        state.withLock { $0.isUp = true }
    }

    /// Stops the tunnel. Those that ask meanwhile wait for the same end.
    func stop(_ reason: StopReason) async {
        let task = state.withLock { state in
            if let stopping = state.stopping { return stopping }
            let wasUp = state.isUp
            state.isUp = false
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
        if wasUp { await runAll(hooks.postDown) }
    }

    private func runAll(_ commands: [String]) async {
        for command in commands {
            do throws(TunnelError) { try await run(command) } catch { logger.error("\(error)") }
        }
    }

    var status: TunnelStatusUpdate { host.status }

    func statusUpdates() -> AsyncStream<TunnelStatusUpdate> { host.statusUpdates() }

    func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]? { try await host.sendMessage(message) }

    func sleep() async { await host.sleep() }

    func wake() { host.wake() }

    func pathChanged(_ path: NetworkPath) { host.pathChanged(path) }
}
