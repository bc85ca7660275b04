// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The time since a moment on any clock.
struct ElapsedTime: Sendable {
    private let read: @Sendable () -> Duration

    /// Starts counting now.
    init(_ clock: any Clock<Duration>) {
        func reader(_ clock: some Clock<Duration>) -> @Sendable () -> Duration {
            let start = clock.now
            return { start.duration(to: clock.now) }
        }
        read = reader(clock)
    }

    /// The elapsed time.
    var now: Duration { read() }
}
