// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The time since a moment on any clock.
package struct ElapsedTime: Sendable {
    private let read: @Sendable () -> Duration

    /// Starts counting now.
    package init(_ clock: any Clock<Duration>) {
        func reader(_ clock: some Clock<Duration>) -> @Sendable () -> Duration {
            let start = clock.now
            return { start.duration(to: clock.now) }
        }
        read = reader(clock)
    }

    /// The elapsed time.
    package var now: Duration { read() }
}
