// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

extension EventLoop {
    /// Creates a timer that is not set yet. A loop should have only a few timers.
    public func makeTimer(_ handler: @escaping @Sendable () -> Void) -> Timer {
        state.withLock { state in
            let token = state.makeToken()
            state.timers.append(
                State.Deadline(token: token, time: .max, lastRound: 0, handler: Handler { _ in handler() }))
            return Timer(token: token)
        }
    }

    /// Calls the timer's handler once when `deadline`, on ``LaneClock``, has passed; `nil` clears the timer.
    ///
    /// Makes a system call only if the deadline is earlier than all others.
    public func set(_ timer: Timer, deadline: Int64?) {
        let time = deadline ?? .max
        state.withLock { state in
            guard let index = state.timers.firstIndex(where: { $0.token == timer.token }) else { return }
            state.timers[index].time = time
            guard time < state.armed else { return }
            state.armed = time
            poller.arm(deadline: time)
        }
    }

    /// Removes the timer.
    public func remove(_ timer: Timer) {
        let old = state.withLock { state -> State.Deadline? in
            guard let index = state.timers.firstIndex(where: { $0.token == timer.token }) else { return nil }
            return state.timers.remove(at: index)
        }
        // The handler's captured objects must not be released under the lock.
        withExtendedLifetime(old) {}
    }

    /// Calls the handlers of the timers that have expired, each at most once, and sets the poller's timer for the next one.
    func runTimers() {
        let now = LaneClock.now()
        let round = state.withLock { state in
            state.armed = .max
            state.timerRound &+= 1
            return state.timerRound
        }
        while !isStopped, let handler = nextDue(at: now, in: round) { handler.call([]) }
        state.withLock { state in
            var earliest = Int64.max
            for timer in state.timers { earliest = min(earliest, timer.time) }
            guard earliest < state.armed else { return }
            state.armed = earliest
            poller.arm(deadline: earliest)
        }
    }

    /// Clears the earliest expired timer that has not run in this round, and returns its handler; `nil` if there is
    /// none.
    private func nextDue(at now: Int64, in round: UInt64) -> Handler? {
        state.withLock { state in
            var earliest: Int?
            for index in state.timers.indices
            where state.timers[index].time <= now && state.timers[index].lastRound != round {
                if let found = earliest, state.timers[found].time <= state.timers[index].time { continue }
                earliest = index
            }
            guard let earliest else { return nil }
            state.timers[earliest].time = .max
            state.timers[earliest].lastRound = round
            return state.timers[earliest].handler
        }
    }
}
