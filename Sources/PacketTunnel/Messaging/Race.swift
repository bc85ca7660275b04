// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// Some work against a deadline and the cancellation of the task that waits for it; the first of them counts.
///
/// Unlike a task group it does not wait for the losers: work that ignores its cancellation goes on in the background,
/// and what it gives is dropped.
package final class Race<Value: Sendable>: Sendable {
    /// How it ended.
    package enum Outcome: Sendable {
        /// The work was first.
        case finished(Value)
        /// The deadline was first.
        case timedOut
        /// The waiting task was cancelled, or ``cancel()`` was called.
        case cancelled
    }

    private struct State {
        var outcome: Outcome?
        var continuation: CheckedContinuation<Outcome, Never>?
        var tasks: [Task<Void, Never>] = []
    }

    private let state = Mutex(State())

    /// A race that has not begun.
    package init() {}

    /// Runs `work` in a task of its own and waits for the first outcome. Once for each race.
    /// - Parameters:
    ///   - timeout: how long `work` may take; nil: as long as it likes.
    ///   - clock: measures `timeout`.
    package func run(
        within timeout: Duration?, on clock: any Clock<Duration>, _ work: @escaping @Sendable () async -> Value
    ) async -> Outcome {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                guard start(continuation) else { return }
                add(Task { self.finish(.finished(await work())) })
                guard let timeout else { return }
                add(
                    Task {
                        do { try await clock.sleep(for: timeout, tolerance: nil) } catch { return }
                        self.finish(.timedOut)
                    })
            }
        } onCancel: {
            finish(.cancelled)
        }
    }

    /// Ends it from outside, before or while it runs.
    package func cancel() {
        finish(.cancelled)
    }

    /// Keeps who waits; false, and that one goes on at once, when there is an outcome already.
    private func start(_ continuation: CheckedContinuation<Outcome, Never>) -> Bool {
        let outcome = state.withLock { state in
            if state.outcome == nil { state.continuation = continuation }
            return state.outcome
        }
        guard let outcome else { return true }
        continuation.resume(returning: outcome)
        return false
    }

    private func add(_ task: Task<Void, Never>) {
        let isOver = state.withLock { state in
            if state.outcome == nil { state.tasks.append(task) }
            return state.outcome != nil
        }
        if isOver { task.cancel() }
    }

    private func finish(_ outcome: Outcome) {
        let (continuation, tasks) = state.withLock { state in
            guard state.outcome == nil else {
                return (CheckedContinuation<Outcome, Never>?.none, [Task<Void, Never>]())
            }
            state.outcome = outcome
            defer {
                state.continuation = nil
                state.tasks = []
            }
            return (state.continuation, state.tasks)
        }
        for task in tasks { task.cancel() }
        continuation?.resume(returning: outcome)
    }
}
