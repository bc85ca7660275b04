// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The time since a moment on any clock.
package struct ElapsedTime: Sendable {
    private let read: @Sendable () -> Duration
    private let readAwake: (@Sendable () -> Duration)?

    /// Starts counting now.
    /// - Parameter awake: A clock that stops while the machine sleeps; `nil` for the system's if `clock` is the system's too.
    package init(_ clock: any Clock<Duration>, awake: (any Clock<Duration>)? = nil) {
        func reader(_ clock: some Clock<Duration>) -> @Sendable () -> Duration {
            let start = clock.now
            return { start.duration(to: clock.now) }
        }
        let awake = awake ?? (clock is ContinuousClock ? SuspendingClock() : nil)
        read = reader(clock)
        readAwake = awake.map { reader($0) }
    }

    /// The elapsed time.
    package var now: Duration { read() }

    /// The part of ``now`` for which the machine slept; zero without a clock that stops then.
    package var asleep: Duration {
        guard let readAwake else { return .zero }
        let now = read()
        return max(now - readAwake(), .zero)
    }
}
