// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// Runs one operation repeatedly, one run after another. Calls that wait share the next run. Cancelling a caller does not
/// cancel the run.
final class SharedRuns<Result: Sendable>: Sendable {
    private struct State {
        var last: Task<Result, Never>?
        /// The run that has not begun yet.
        var next: Task<Result, Never>?
        /// The number of calls that wait for it.
        var waitingCount = 0
    }

    private let state = Mutex(State())

    /// The number of calls that wait for a run that has not begun yet.
    var waitingCount: Int { state.withLock { $0.waitingCount } }

    /// Waits for a run that begins after this call.
    /// - Parameter operation: The operation, which is the same for all calls.
    /// - Returns: The result of the run, which all of its callers get.
    func run(_ operation: @escaping @Sendable () async -> Result) async -> Result {
        let run = state.withLock { state in
            state.waitingCount += 1
            if let next = state.next { return next }
            let before = state.last
            let run = Task {
                _ = await before?.value
                self.state.withLock { ($0.next, $0.waitingCount) = (nil, 0) }
                return await operation()
            }
            (state.last, state.next) = (run, run)
            return run
        }
        return await run.value
    }
}
