// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import Dispatch
import Synchronization

/// An event that happens once and that threads or tasks can wait for, so that tests of real I/O need no sleep.
///
/// Once it has happened, every waiter, then or later, continues immediately.
public final class Event: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    private let happened = Atomic<Bool>(false)

    /// An event that has not happened.
    public init() {}

    /// Whether it has happened.
    public var hasHappened: Bool { happened.load(ordering: .acquiring) }

    /// Lets it happen; a second time changes nothing.
    public func signal() {
        guard !happened.exchange(true, ordering: .acquiringAndReleasing) else { return }
        semaphore.signal()
    }

    /// Blocks the thread until it has happened or `timeout` has passed; returns whether it has happened.
    public func wait(timeout: Duration) -> Bool {
        guard !hasHappened else { return true }
        guard semaphore.wait(timeout: .now() + timeout.dispatchInterval) == .success else { return hasHappened }
        // Pass it on to the next who waits.
        semaphore.signal()
        return true
    }

    /// Suspends the task until it has happened or `timeout` has passed; returns whether it has happened.
    public func wait(timeout: Duration) async -> Bool {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(returning: self.wait(timeout: timeout))
            }
        }
    }
}

/// Counts down to zero; threads or tasks can wait for that.
public final class Latch: Sendable {
    private let remaining: Atomic<Int>
    private let reachedZero = Event()

    /// A latch that opens after `count` calls of ``countDown()``; immediately if that is zero.
    public init(count: Int) {
        remaining = Atomic(count)
        if count <= 0 { reachedZero.signal() }
    }

    /// How many more calls it takes.
    public var count: Int { max(remaining.load(ordering: .acquiring), 0) }

    /// Counts one down.
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
/// For what gives no ``Event`` to wait for, such as a kernel's counters. The condition is checked at least once, and
/// once more at the end; the thread sleeps for `interval` in between.
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

extension Duration {
    /// For Dispatch, at most a day.
    fileprivate var dispatchInterval: DispatchTimeInterval {
        let bounded = max(.zero, min(self, .seconds(86_400)))
        return .nanoseconds(Int(bounded.fakeClockNanoseconds))
    }
}
