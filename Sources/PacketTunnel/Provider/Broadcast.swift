// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// A value that changes and that any number of tasks follow: each gets the present value and every later one.
///
/// Unread values of a follower are kept, 1024 at most; then the oldest are dropped.
package final class Broadcast<Value: Sendable>: Sendable {
    private struct State {
        var current: Value
        var isFinished = false
        var followers: [UInt64: AsyncStream<Value>.Continuation] = [:]
        var next: UInt64 = 0
    }

    private let state: Mutex<State>
    /// Followers that have ended. They are reported with locks of the runtime held, which passing a value to a follower takes
    /// too: so this lock is taken last, and nothing is called under it.
    private let departed = Mutex<[UInt64]>([])

    /// A broadcast of `value`.
    package init(_ value: Value) {
        state = Mutex(State(current: value))
    }

    deinit { finish() }

    /// The value.
    package var current: Value { state.withLock { $0.current } }

    /// Changes the value.
    package func send(_ value: Value) {
        state.withLock { state in
            guard !state.isFinished else { return }
            removeDeparted(&state)
            state.current = value
            // Under the lock, so that all get the same order. It only queues.
            for follower in state.followers.values { follower.yield(value) }
        }
    }

    /// Ends all sequences, with `last` where it is given; those made later have the last value only.
    package func finish(with last: Value? = nil) {
        let followers = state.withLock { state in
            if let last, !state.isFinished {
                state.current = last
                for follower in state.followers.values { follower.yield(last) }
            }
            state.isFinished = true
            defer { state.followers = [:] }
            return state.followers
        }
        for follower in followers.values { follower.finish() }
    }

    /// The value now and every one after it, until ``finish()`` or the reading task is cancelled.
    package func follow() -> AsyncStream<Value> {
        let (stream, continuation) = AsyncStream.makeStream(of: Value.self, bufferingPolicy: .bufferingNewest(1024))
        let token = state.withLock { state -> UInt64? in
            removeDeparted(&state)
            continuation.yield(state.current)
            guard !state.isFinished else { return nil }
            defer { state.next += 1 }
            state.followers[state.next] = continuation
            return state.next
        }
        guard let token else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in
            self?.departed.withLock { $0.append(token) }
        }
        return stream
    }

    /// How many follow.
    package var followerCount: Int {
        state.withLock { state in
            removeDeparted(&state)
            return state.followers.count
        }
    }

    private func removeDeparted(_ state: inout State) {
        let tokens = departed.withLock { tokens -> [UInt64] in
            defer { tokens = [] }
            return tokens
        }
        for token in tokens { state.followers[token] = nil }
    }
}
