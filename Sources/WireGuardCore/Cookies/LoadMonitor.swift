// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Decides when a device is under load, and so demands cookies (WireGuard paper, section 5.3).
///
/// A device with queues would look at their length; this engine has none, so a token bucket over the handshake
/// messages of all sources stands for one: `burst` places that empty at `perSecond`. The state then lasts for one
/// second after the bucket was last found empty, so that a client has time to come back with its cookie.
package struct LoadMonitor: Sendable {
    /// How long the state lasts after the bucket was last empty.
    package static let persistence: Duration = .seconds(1)

    private let tokenInterval: Int64
    private let bucketDepth: Int64
    /// When the bucket will be full again.
    private var fullAt: Int64 = .min
    private var underLoadUntil: Int64 = .min

    /// A monitor of a device that copes with `burst` handshake messages at once and `perSecond` in the long run.
    /// Values below one count as one.
    package init(burst: Int = 128, perSecond: Int = 1_000) {
        tokenInterval = max(1_000_000_000 / Int64(max(perSecond, 1)), 1)
        let (depth, overflow) = tokenInterval.multipliedReportingOverflow(by: Int64(max(burst, 1)))
        bucketDepth = overflow ? .max : depth
    }

    /// Counts a handshake message and returns whether the device is under load.
    package mutating func handshakeArrived(at now: Instant) -> Bool {
        let limit = now.nanoseconds.addingSaturating(bucketDepth)
        // A bucket that seems emptier than empty means that the clock went back.
        let start = min(max(fullAt, now.nanoseconds), limit)
        let used = start.addingSaturating(tokenInterval)
        if used <= limit {
            fullAt = used
        } else {
            fullAt = start
            underLoadUntil = (now + Self.persistence).nanoseconds
        }
        return isUnderLoad(at: now)
    }

    /// Whether the device is under load.
    package func isUnderLoad(at now: Instant) -> Bool {
        // The upper bound ends the state should the clock go back.
        now.nanoseconds < underLoadUntil && underLoadUntil <= (now + Self.persistence).nanoseconds
    }
}
