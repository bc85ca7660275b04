// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// Notifies a waiting test of a change, so that it checks its condition again then, and only then.
///
/// The objects of a test (a clock, a console, the far side of a tunnel) notify it; several may share one, for a condition on
/// all.
package final class Changes: Sendable {
    private struct State {
        var count: UInt64 = 0
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    package init() {}

    /// Reports a change, which must be visible already.
    package func notify() {
        let waiters = state.withLock { state in
            state.count += 1
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Tells of every value from now on, until they end.
    package func follow<Value: Sendable>(_ values: AsyncStream<Value>) {
        Task { [weak self] in
            for await _ in values {
                guard let self else { return }
                notify()
            }
        }
    }

    /// Waits until `condition` holds, which is checked now and after each change, for at most `limit`; returns whether it
    /// holds.
    package func wait(
        within limit: Duration = .seconds(60), until condition: () async throws -> Bool
    ) async rethrows -> Bool {
        let isOver = Flag()
        let timer = Task { [weak self] in
            // In slices: a process that was suspended meanwhile has not used up its time.
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

    /// Waits for a change beyond the first `count`, or for the task to be cancelled.
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
