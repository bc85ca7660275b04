// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A time on a monotonic clock, in nanoseconds since an arbitrary origin.
///
/// The caller chooses the clock. It must advance while the machine sleeps (`CLOCK_BOOTTIME` on Linux,
/// `mach_continuous_time` on Darwin), because session keys age by real time. This module never reads a clock.
public struct Instant: Hashable, Comparable, Sendable {
    /// Nanoseconds since the origin of the caller's clock.
    public var nanoseconds: Int64

    /// An instant `nanoseconds` after the origin of the caller's clock.
    public init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    /// Compares two instants of the same clock.
    public static func < (a: Instant, b: Instant) -> Bool { a.nanoseconds < b.nanoseconds }

    /// The instant `duration` later; saturates at the ends of the range.
    public static func + (a: Instant, duration: Duration) -> Instant {
        Instant(nanoseconds: a.nanoseconds.addingSaturating(duration.wholeNanoseconds))
    }

    /// The instant `duration` earlier; saturates at the ends of the range.
    public static func - (a: Instant, duration: Duration) -> Instant {
        Instant(nanoseconds: a.nanoseconds.addingSaturating(0 &- duration.wholeNanoseconds))
    }

    /// The time from `b` to `a`.
    public static func - (a: Instant, b: Instant) -> Duration {
        .nanoseconds(a.nanoseconds &- b.nanoseconds)
    }
}

/// A reading of the wall clock: the time since 1970-01-01 00:00:00 UTC. It may jump in either direction.
public struct WallTime: Hashable, Comparable, Sendable {
    /// Whole seconds since the Unix epoch.
    public var seconds: Int64
    /// Nanoseconds within the second, 0 to 999,999,999.
    public var nanoseconds: UInt32

    /// A wall-clock reading.
    public init(seconds: Int64, nanoseconds: UInt32 = 0) {
        self.seconds = seconds
        self.nanoseconds = nanoseconds
    }

    /// Compares by time since the epoch.
    public static func < (a: WallTime, b: WallTime) -> Bool {
        (a.seconds, a.nanoseconds) < (b.seconds, b.nanoseconds)
    }
}

extension Duration {
    /// This duration in nanoseconds, saturated to the range of an `Int64` (292 years).
    package var wholeNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow else { return seconds < 0 ? .min : .max }
        return product.addingSaturating(attoseconds / 1_000_000_000)
    }
}

extension Int64 {
    /// The sum, or the nearest representable value if it overflows.
    package func addingSaturating(_ other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        guard overflow else { return sum }
        return other < 0 ? .min : .max
    }
}
