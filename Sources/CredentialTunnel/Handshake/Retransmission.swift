// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardCore

/// The schedule of retransmissions: after 0.5, 1, 2 and then every 4 seconds.
struct Retransmission {
    private var wait: Duration = .milliseconds(500)
    /// The time of the next one.
    private(set) var next: Instant

    /// Schedules the first retransmission of a message that is sent now.
    init(at now: Instant) {
        next = now + wait
    }

    /// Whether it is due; if so the next wait begins.
    mutating func isDue(at now: Instant) -> Bool {
        guard next <= now else { return false }
        wait = min(wait * 2, .seconds(4))
        next = now + wait
        return true
    }
}

/// The times and counts of a session, equal to WireGuard's except in tests.
package struct SessionTiming: Sendable {
    /// The client begins a new key exchange when its session is as old as this.
    package var rekeyAfter: Duration = .nanoseconds(TimerConstants.rekeyAfterTime)
    /// ... or after this many packets in one direction.
    package var rekeyAfterMessages: UInt64 = TimerConstants.rekeyAfterMessages
    /// How long packets of the old key are taken once the new one was heard.
    package var grace: Duration = .seconds(10)
    /// How long a login may take in all.
    package var loginDeadline: Duration = .seconds(10)

    package init() {}
}
