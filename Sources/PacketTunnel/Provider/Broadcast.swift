// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// A value that changes and that any number of tasks follow. Each follower gets the present value and every later one.
///
/// At most 1024 unread values are kept for a follower; beyond that the oldest are dropped.
package final class Broadcast<Value: Sendable>: Sendable {
    private struct State {
        var current: Value
        var isFinished = false
        var followers: [UInt64: AsyncStream<Value>.Continuation] = [:]
        var next: UInt64 = 0
    }

    private let state: Mutex<State>
    /// The followers that have ended. The runtime reports them while it holds locks that passing a value to a follower
    /// takes too. So this lock is always taken last, and no code is called while it is held.
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
            // Pass the value on under the lock, so that all followers get the same order. This only enqueues it.
            for follower in state.followers.values { follower.yield(value) }
        }
    }

    /// Ends all sequences, with `last` if it is not `nil`. Sequences that are created later contain only the last
    /// value.
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

    /// The number of followers.
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
