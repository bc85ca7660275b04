// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials

/// The wall clock and the monotonic clock of the gateway's machine. Tests set them.
package struct GatewayClock: Sendable {
    /// The wall clock, in UTC.
    package var now: @Sendable () -> Date
    /// A clock that only moves forward, in nanoseconds.
    package var nanoseconds: @Sendable () -> Int64

    package init(now: @escaping @Sendable () -> Date, nanoseconds: @escaping @Sendable () -> Int64) {
        self.now = now
        self.nanoseconds = nanoseconds
    }

    package static let system = GatewayClock(
        now: { Date() },
        nanoseconds: {
            let time = ContinuousClock.Instant.now.duration(to: origin)
            return -(time.components.seconds * 1_000_000_000 + time.components.attoseconds / 1_000_000_000)
        })

    private static let origin = ContinuousClock.Instant.now
}
