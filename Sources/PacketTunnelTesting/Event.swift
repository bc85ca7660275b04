// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import Dispatch
import Synchronization

/// An event that happens once. Threads and tasks can wait for it, so that tests of real I/O need no sleep.
///
/// When the event has happened, all waiters continue, and later calls return immediately.
public final class Event: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    private let happened = Atomic<Bool>(false)

    /// Creates an event that has not happened.
    public init() {}

    /// Whether the event has happened.
    public var hasHappened: Bool { happened.load(ordering: .acquiring) }

    /// Makes the event happen. Later calls have no effect.
    public func signal() {
        guard !happened.exchange(true, ordering: .acquiringAndReleasing) else { return }
        semaphore.signal()
    }

    /// Blocks the thread until the event has happened or `timeout` has passed.
    /// - Returns: Whether the event has happened.
    public func wait(timeout: Duration) -> Bool {
        guard !hasHappened else { return true }
        guard semaphore.wait(timeout: .now() + timeout.dispatchInterval) == .success else { return hasHappened }
        // Wake the next waiter.
        semaphore.signal()
        return true
    }

    /// Suspends the task until the event has happened or `timeout` has passed.
    /// - Returns: Whether the event has happened.
    public func wait(timeout: Duration) async -> Bool {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(returning: self.wait(timeout: timeout))
            }
        }
    }
}

/// A counter that counts down to zero. Threads and tasks can wait until it is zero.
public final class Latch: Sendable {
    private let remaining: Atomic<Int>
    private let reachedZero = Event()

    /// Creates a latch that opens after `count` calls of ``countDown()``; if `count` is zero, it is open immediately.
    public init(count: Int) {
        remaining = Atomic(count)
        if count <= 0 { reachedZero.signal() }
    }

    /// The number of calls of ``countDown()`` until the latch opens.
    public var count: Int { max(remaining.load(ordering: .acquiring), 0) }

    /// Decrements the count.
    public func countDown() {
        if remaining.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 { reachedZero.signal() }
    }

    /// Blocks the thread until the count is zero or `timeout` has passed; returns whether it is zero.
    public func wait(timeout: Duration) -> Bool {
        reachedZero.wait(timeout: timeout)
    }

    /// Suspends the task until the count is zero or `timeout` has passed; returns whether it is zero.
    public func wait(timeout: Duration) async -> Bool {
        await reachedZero.wait(timeout: timeout)
    }
}

/// Checks `condition` until it holds or `timeout` has passed; returns whether it holds.
///
/// Use it for conditions that have no ``Event``, such as a kernel's counters. The condition is checked at least once,
/// and once more at the end. The thread sleeps for `interval` between checks.
public func waitUntil(
    timeout: Duration, pollEvery interval: Duration = .milliseconds(2), _ condition: () throws -> Bool
) rethrows -> Bool {
    let deadline = ContinuousClock.now + timeout
    while try !condition() {
        let left = deadline - ContinuousClock.now
        guard left > .zero else { return try condition() }
        _ = DispatchSemaphore(value: 0).wait(timeout: .now() + min(left, interval).dispatchInterval)
    }
    return true
}

/// Checks `condition` until it holds or `timeout` has passed, like the function of this name that is not async, but suspends
/// the task between checks. Tasks share a few threads: a test that blocks one of them delays the tasks that it waits for.
/// - Returns: Whether the condition holds.
package func waitUntil(
    timeout: Duration, pollEvery interval: Duration = .milliseconds(2), _ condition: () throws -> Bool
) async rethrows -> Bool {
    let deadline = ContinuousClock.now + timeout
    while try !condition() {
        let left = deadline - ContinuousClock.now
        // The sleep of a cancelled task fails.
        guard left > .zero, (try? await Task.sleep(for: min(left, interval))) != nil else { return try condition() }
    }
    return true
}

extension Duration {
    /// The interval for Dispatch, limited to 0 to one day.
    fileprivate var dispatchInterval: DispatchTimeInterval {
        let bounded = max(.zero, min(self, .seconds(86_400)))
        return .nanoseconds(Int(bounded.fakeClockNanoseconds))
    }
}
