// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Decides whether a server is under load and must require cookies (WireGuard paper, section 5.3).
///
/// An implementation with queues would use their length. This one has none, so it counts messages in a token bucket of
/// `burst` tokens. The bucket refills at `perSecond`, or more slowly if handling that many messages would take more
/// than half of the machine's time. The load state lasts until one second after the bucket was last empty, so that a
/// client has time to return with its cookie.
package struct LoadMonitor: Sendable {
    /// The time for which the load state lasts after the bucket was last empty.
    package static let persistence: Duration = .seconds(1)

    /// The longest plausible time of one message, in nanoseconds. A longer one means that the thread was interrupted.
    private static let longestMessage: Int64 = 10_000_000

    private let burst: Int64
    private let shortestInterval: Int64
    /// The time of one message in nanoseconds; 0 while it is not known.
    private var timeOfMessage: Int64 = 0
    /// The time when the bucket will be full again.
    private var fullAt: Int64 = .min
    private var underLoadUntil: Int64 = .min

    /// Creates a monitor of a server that handles bursts of `burst` messages and `perSecond` messages on average.
    /// Values below one count as one.
    package init(burst: Int, perSecond: Int) {
        self.burst = Int64(max(burst, 1))
        shortestInterval = max(1_000_000_000 / Int64(max(perSecond, 1)), 1)
    }

    /// Records that `count` consecutive messages took `nanoseconds`.
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
        // If the bucket seems emptier than empty, the clock was set back.
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
        // The upper bound ends the state if the clock is set back.
        now.nanoseconds < underLoadUntil && underLoadUntil <= (now + Self.persistence).nanoseconds
    }
}
