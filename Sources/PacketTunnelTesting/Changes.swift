// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// Notifies a waiting test of changes, so that the test checks its condition after each change and never polls.
///
/// The objects of a test, such as a clock, a console or the far side of a tunnel, call ``notify()``. Several objects
/// may share one notifier, for a condition that depends on all of them.
package final class Changes: Sendable {
    private struct State {
        var count: UInt64 = 0
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    package init() {}

    /// Wakes the waiting tests. The change must already be visible to them.
    package func notify() {
        let waiters = state.withLock { state in
            state.count += 1
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Calls ``notify()`` for each further value of a stream, until the stream ends.
    package func follow<Value: Sendable>(_ values: AsyncStream<Value>) {
        Task { [weak self] in
            for await _ in values {
                guard let self else { return }
                notify()
            }
        }
    }

    /// Waits until `condition` holds, for at most `limit`. Checks it immediately and after each change.
    /// - Returns: Whether the condition holds.
    package func wait(
        within limit: Duration = .seconds(60), until condition: () async throws -> Bool
    ) async rethrows -> Bool {
        let isOver = Flag()
        let timer = Task { [weak self] in
            // Sleep in slices, so that the time for which the process was suspended counts as at most one slice.
            var left = limit
            while left > .zero {
                let piece = min(left, .seconds(1))
                guard (try? await ContinuousClock().sleep(for: piece)) != nil else { return }
                left -= piece
            }
            isOver.raise()
            self?.notify()
        }
        defer { timer.cancel() }
        while true {
            let (count, wasOver) = (state.withLock { $0.count }, isOver.isRaised)
            if try await condition() { return true }
            guard !wasOver, !Task.isCancelled else { return false }
            await next(after: count)
        }
    }

    /// Waits until there were more than `count` changes, or until the task is cancelled.
    private func next(after count: UInt64) async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isThere = state.withLock { state in
                    guard state.count == count, !Task.isCancelled else { return true }
                    state.waiters.append(continuation)
                    return false
                }
                if isThere { continuation.resume() }
            }
        } onCancel: {
            notify()
        }
    }

    private final class Flag: Sendable {
        private let value = Atomic<Bool>(false)
        var isRaised: Bool { value.load(ordering: .acquiring) }
        func raise() { value.store(true, ordering: .releasing) }
    }
}
