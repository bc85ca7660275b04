// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Decides whether a server is under load, and so demands cookies (WireGuard paper, section 5.3).
///
/// A device with queues would use their length. This code has none, so a token bucket over the counted messages replaces
/// them: `burst` places that empty at `perSecond`, or more slowly on a machine that would spend more than half of its time on
/// that many. The state then lasts for one second after the bucket was last empty, so that a client has time to return with
/// its cookie.
package struct LoadMonitor: Sendable {
    /// How long the state lasts after the bucket was last empty.
    package static let persistence: Duration = .seconds(1)

    /// A message that seems to take longer than this was interrupted.
    private static let longestMessage: Int64 = 10_000_000

    private let burst: Int64
    private let shortestInterval: Int64
    /// The time of one message in nanoseconds; zero while it is unknown.
    private var timeOfMessage: Int64 = 0
    /// The time when the bucket will be full again.
    private var fullAt: Int64 = .min
    private var underLoadUntil: Int64 = .min

    /// Creates a monitor of a server that handles bursts of `burst` messages and `perSecond` on average. Values below one
    /// count as one.
    package init(burst: Int, perSecond: Int) {
        self.burst = Int64(max(burst, 1))
        shortestInterval = max(1_000_000_000 / Int64(max(perSecond, 1)), 1)
    }

    /// Takes note that `count` messages, one after the other, took `nanoseconds`.
    package mutating func messages(_ count: Int, took nanoseconds: Int64) {
        guard count > 0, nanoseconds > 0 else { return }
        let time = min(nanoseconds / Int64(count), Self.longestMessage)
        timeOfMessage = timeOfMessage == 0 ? time : timeOfMessage + (time - timeOfMessage) / 8
    }

    /// Counts a message and returns whether the server is under load.
    @discardableResult
    package mutating func messageArrived(at now: Instant) -> Bool {
        let tokenInterval = max(shortestInterval, 2 * timeOfMessage)
        let (depth, overflow) = tokenInterval.multipliedReportingOverflow(by: burst)
        let limit = now.nanoseconds.addingSaturating(overflow ? .max : depth)
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

    /// Whether the server is under load.
    package func isUnderLoad(at now: Instant) -> Bool {
        // The upper bound ends the state should the clock go back.
        now.nanoseconds < underLoadUntil && underLoadUntil <= (now + Self.persistence).nanoseconds
    }
}
