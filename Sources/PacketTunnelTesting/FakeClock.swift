// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// The two clocks of a machine, which the test sets: a clock that only counts up, and the wall clock.
///
/// Pass its readings to code that takes the time as an argument. Any thread may use it.
public final class FakeClock: Sendable {
    /// A reading of the wall clock.
    public struct Wall: Hashable, Sendable {
        /// Whole seconds since 1970-01-01 00:00:00 UTC.
        public var seconds: Int64
        /// Nanoseconds within the second, 0 to 999,999,999.
        public var nanoseconds: UInt32

        /// Creates a reading.
        public init(seconds: Int64, nanoseconds: UInt32 = 0) {
            self.seconds = seconds
            self.nanoseconds = nanoseconds
        }
    }

    private struct State {
        var monotonic: Int64
        var wall: Wall
    }

    private let state: Mutex<State>

    /// Creates a clock that shows `monotonic` nanoseconds since its origin (by default, one hour) and the wall time
    /// `wall` (by default, a time in 2023).
    public init(monotonic: Int64 = 3_600_000_000_000, wall: Wall = Wall(seconds: 1_700_000_000)) {
        state = Mutex(State(monotonic: monotonic, wall: wall))
    }

    /// Nanoseconds on the clock that only counts up.
    public var nanoseconds: Int64 { state.withLock { $0.monotonic } }

    /// The wall clock.
    public var wall: Wall { state.withLock { $0.wall } }

    /// Advances both clocks.
    public func advance(by duration: Duration) {
        state.withLock { state in
            state.monotonic += duration.fakeClockNanoseconds
            state.wall = state.wall.moved(by: duration.fakeClockNanoseconds)
        }
    }

    /// Sets the wall clock forward, or back with a negative duration, as an administrator or a time server does.
    public func jumpWall(by duration: Duration) {
        state.withLock { $0.wall = $0.wall.moved(by: duration.fakeClockNanoseconds) }
    }

    /// Sets the wall clock.
    public func setWall(_ wall: Wall) {
        state.withLock { $0.wall = wall }
    }

    /// Sets the clock that counts up. It may be set back, which real clocks never do but tested code should survive.
    public func setMonotonic(_ nanoseconds: Int64) {
        state.withLock { $0.monotonic = nanoseconds }
    }
}

extension FakeClock.Wall {
    fileprivate func moved(by nanoseconds: Int64) -> FakeClock.Wall {
        let billion: Int64 = 1_000_000_000
        var seconds = seconds + nanoseconds / billion
        var rest = Int64(self.nanoseconds) + nanoseconds % billion
        if rest < 0 {
            rest += billion
            seconds -= 1
        } else if rest >= billion {
            rest -= billion
            seconds += 1
        }
        return FakeClock.Wall(seconds: seconds, nanoseconds: UInt32(rest))
    }
}

extension Duration {
    /// The duration in whole nanoseconds. The durations of tests are far from the bounds of the type.
    var fakeClockNanoseconds: Int64 {
        components.seconds * 1_000_000_000 + components.attoseconds / 1_000_000_000
    }
}
