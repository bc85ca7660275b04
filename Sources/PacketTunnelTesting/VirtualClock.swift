// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// A `Clock` that the test advances: a sleeping task continues once its deadline is reached. Any thread may use it.
///
/// A test first waits with ``waitForSleepers(_:)`` until the code under test sleeps, and then advances the clock, so
/// there is no race between the two.
public final class VirtualClock: Clock {
    /// A reading: the time that has passed since the clock was made.
    public struct Instant: InstantProtocol {
        /// The time since the clock was made.
        public var offset: Duration

        /// Creates a reading.
        public init(offset: Duration) {
            self.offset = offset
        }

        /// Returns the reading `duration` later.
        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        /// The time from this reading to `other`.
        public func duration(to other: Instant) -> Duration { other.offset - offset }
        /// Whether the first reading is earlier than the second.
        public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private struct Sleeper {
        var token: UInt64
        var deadline: Instant
        var continuation: CheckedContinuation<Void, any Error>
    }

    private struct Watcher {
        var token: UInt64
        var count: Int
        var continuation: CheckedContinuation<Void, Never>
    }

    private struct State {
        var now = Instant(offset: .zero)
        var nextToken: UInt64 = 0
        /// The sleepers, ordered by deadline, and then by the time at which they began to sleep.
        var sleepers: [Sleeper] = []
        /// Sleepers whose task was cancelled before it began to sleep or wait.
        var cancelled: Set<UInt64> = []
        var watchers: [Watcher] = []
    }

    private let state = Mutex(State())
    /// Notified when the clock advances, and when a task begins to sleep or is woken.
    package let changes = Changes()

    /// Creates a clock at zero.
    public init() {}

    /// The current reading.
    public var now: Instant { state.withLock { $0.now } }

    /// Always zero.
    public var minimumResolution: Duration { .zero }

    /// The number of sleeping tasks.
    public var sleeperCount: Int { state.withLock { $0.sleepers.count } }

    /// The earliest deadline of a sleeper, or `nil` if there is none.
    public var nextDeadline: Instant? { state.withLock { $0.sleepers.first?.deadline } }

    /// Suspends until the clock was moved to `deadline` or beyond.
    /// - Throws: `CancellationError` when the task is cancelled.
    public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
        let token = makeToken()
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                add(Sleeper(token: token, deadline: deadline, continuation: continuation))
            }
        } onCancel: {
            cancel(token)
        }
    }

    /// Advances the clock and wakes the sleepers whose deadline is reached, the earliest first.
    public func advance(by duration: Duration) {
        advance(to: Instant(offset: now.offset + duration))
    }

    /// Advances the clock to the earliest deadline and wakes its sleepers.
    /// - Returns: `false`, without an effect, if there are no sleepers.
    @discardableResult
    public func advanceToNextDeadline() -> Bool {
        guard let deadline = nextDeadline else { return false }
        advance(to: deadline)
        return true
    }

    /// Suspends until at least `count` tasks sleep, or until the calling task is cancelled.
    public func waitForSleepers(_ count: Int = 1) async {
        let token = makeToken()
        await withTaskCancellationHandler {
            await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
                let isOver = state.withLock { state in
                    guard state.sleepers.count < count, state.cancelled.remove(token) == nil else { return true }
                    state.watchers.append(Watcher(token: token, count: count, continuation: continuation))
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            cancel(token)
        }
    }

    private func makeToken() -> UInt64 {
        state.withLock { state in
            defer { state.nextToken += 1 }
            return state.nextToken
        }
    }

    private func advance(to instant: Instant) {
        let due = state.withLock { state in
            state.now = max(state.now, instant)
            let count = state.sleepers.prefix { $0.deadline <= state.now }.count
            defer { state.sleepers.removeFirst(count) }
            return Array(state.sleepers.prefix(count))
        }
        for sleeper in due { sleeper.continuation.resume() }
        changes.notify()
    }

    private func add(_ sleeper: Sleeper) {
        enum Outcome {
            case due
            case cancelled
            case sleeps([Watcher])
        }
        let outcome = state.withLock { state -> Outcome in
            if state.cancelled.remove(sleeper.token) != nil { return .cancelled }
            guard sleeper.deadline > state.now else { return .due }
            let index = state.sleepers.firstIndex { $0.deadline > sleeper.deadline } ?? state.sleepers.count
            state.sleepers.insert(sleeper, at: index)
            let count = state.sleepers.count
            let reached = state.watchers.filter { $0.count <= count }
            state.watchers.removeAll { $0.count <= count }
            return .sleeps(reached)
        }
        switch outcome {
        case .due: sleeper.continuation.resume()
        case .cancelled: sleeper.continuation.resume(throwing: CancellationError())
        case .sleeps(let watchers):
            for watcher in watchers { watcher.continuation.resume() }
            changes.notify()
        }
    }

    private func cancel(_ token: UInt64) {
        enum Found {
            case sleeper(Sleeper)
            case watcher(Watcher)
        }
        let found = state.withLock { state -> Found? in
            if let index = state.sleepers.firstIndex(where: { $0.token == token }) {
                return .sleeper(state.sleepers.remove(at: index))
            }
            if let index = state.watchers.firstIndex(where: { $0.token == token }) {
                return .watcher(state.watchers.remove(at: index))
            }
            state.cancelled.insert(token)
            return nil
        }
        switch found {
        case .sleeper(let sleeper):
            sleeper.continuation.resume(throwing: CancellationError())
            changes.notify()
        case .watcher(let watcher): watcher.continuation.resume()
        case nil: break
        }
    }
}
