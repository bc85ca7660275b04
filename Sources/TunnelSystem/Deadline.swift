// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// A value that one task waits for. The first call of ``finish(_:)`` sets it; later calls have no effect.
package final class OneShot<Value: Sendable>: Sendable {
    private enum State {
        case empty
        case waiting(CheckedContinuation<Value, Never>)
        case full(Value)
        case taken
    }

    private let state = Mutex(State.empty)

    package init() {}

    /// Delivers the value; returns whether it was the first.
    @discardableResult
    package func finish(_ value: Value) -> Bool {
        let (isFirst, waiter) = state.withLock { state -> (Bool, CheckedContinuation<Value, Never>?) in
            switch state {
            case .empty:
                state = .full(value)
                return (true, nil)
            case .waiting(let waiter):
                state = .taken
                return (true, waiter)
            case .full, .taken: return (false, nil)
            }
        }
        waiter?.resume(returning: value)
        return isFirst
    }

    /// Waits for the value. One task may do so, once.
    package var value: Value {
        get async {
            await withCheckedContinuation { continuation in
                let value = state.withLock { state -> Value? in
                    guard case .full(let value) = state else {
                        state = .waiting(continuation)
                        return nil
                    }
                    state = .taken
                    return value
                }
                if let value { continuation.resume(returning: value) }
            }
        }
    }
}

/// The outcome of an operation with a deadline.
package enum DeadlineOutcome<Value: Sendable>: Sendable {
    case finished(Value)
    case timedOut
    case cancelled
}

/// Runs `operation` in a separate task and waits until it returns, `limit` has passed or the caller's task is cancelled.
///
/// The first of these determines the result. In the other cases the operation's task is cancelled; unlike a task group, this
/// does not wait for its end. In a cancelled task the operation does not begin.
/// - Parameters:
///   - limit: the longest time; `nil` for no limit.
///   - started: called with the operation's task.
package func withDeadline<Value: Sendable>(
    _ limit: Duration?, clock: any Clock<Duration>, started: (Task<Void, Never>) -> Void = { _ in },
    _ operation: @escaping @Sendable () async -> Value
) async -> DeadlineOutcome<Value> {
    if Task.isCancelled { return .cancelled }
    let result = OneShot<DeadlineOutcome<Value>>()
    let work = Task { _ = result.finish(.finished(await operation())) }
    started(work)
    let timer = limit.map { limit in
        Task {
            // `sleep` throws if the operation ended first, since that cancels this task.
            if (try? await clock.sleep(for: limit)) != nil { result.finish(.timedOut) }
        }
    }
    let outcome = await withTaskCancellationHandler {
        await result.value
    } onCancel: {
        result.finish(.cancelled)
    }
    timer?.cancel()
    work.cancel()
    return outcome
}
