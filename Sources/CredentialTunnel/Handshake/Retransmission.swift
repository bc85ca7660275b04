// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardCore

/// The timer for repetitions of a message: after 0.5, 1, 2 and then every 4 seconds.
struct Retransmission {
    private var wait: Duration = .milliseconds(500)
    /// The time of the next repetition.
    private(set) var next: Instant

    /// Starts the timer for a message that is sent now.
    init(at now: Instant) {
        next = now + wait
    }

    /// Returns whether a repetition is due, and if so, starts the next wait.
    mutating func isDue(at now: Instant) -> Bool {
        guard next <= now else { return false }
        wait = min(wait * 2, .seconds(4))
        next = now + wait
        return true
    }
}

/// The times and limits of a session; by default, equal to WireGuard's.
package struct SessionTiming: Sendable {
    /// The age of a session at which the client begins a new key exchange.
    package var rekeyAfter: Duration = .nanoseconds(TimerConstants.rekeyAfterTime)
    /// The number of packets in one direction after which the client begins a new key exchange.
    package var rekeyAfterMessages: UInt64 = TimerConstants.rekeyAfterMessages
    /// The time for which packets under the old key are accepted after the first under the new one.
    package var grace: Duration = .seconds(10)
    /// The maximum time for a login.
    package var loginDeadline: Duration = .seconds(10)
    /// The time without an answer of the server after which the client sends it an empty packet.
    package var pingAfter: Duration = .nanoseconds(TimerConstants.keepaliveTimeout)
    /// The time without an answer after which the client renews the keys, and logs in again without a response.
    package var doubtAfter: Duration = .nanoseconds(TimerConstants.keepaliveTimeout + TimerConstants.rekeyTimeout)

    package init() {}
}
