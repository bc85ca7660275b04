// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Synchronization

/// Detects jumps of the wall clock. It compares the wall clock with a clock that never jumps and that counts even while
/// the machine is suspended.
///
/// After a jump, and after the start of the process, the time is certain once it has persisted for ten minutes. A value
/// without side effects.
struct ClockWatch: Sendable {
    /// A change that an observation has found.
    enum Change: Hashable, Sendable {
        /// The wall clock differs from its accepted time by this number of seconds, which exceeds ``tolerance``.
        case jumped(Int64)
        /// The wall clock shows the accepted time again.
        case returned
        /// The new time has persisted, and is now accepted.
        case accepted
    }

    /// The largest deviation that is not a jump, in milliseconds.
    static let tolerance: Int64 = 60_000
    /// The time for which a new time must persist, in milliseconds.
    static let persistence: Int64 = 600_000

    /// The wall clock's accepted lead over the other clock, in milliseconds.
    private var accepted: Int64
    private var candidate: (lead: Int64, since: Int64)
    private var current: Int64
    /// Whether `accepted` has persisted.
    private var isSettled = false

    init(_ date: Date, nanoseconds: Int64) {
        let counter = nanoseconds / 1_000_000
        current = date.milliseconds &- counter
        accepted = current
        candidate = (current, counter)
    }

    /// Whether the wall clock shows its accepted time. The time at the start of the process counts as accepted.
    var isSteady: Bool { Self.isNear(current, accepted) }

    /// Whether the wall clock shows its accepted time, and this time has persisted.
    var isCertain: Bool { isSteady && isSettled }

    /// Compares readings of both clocks.
    mutating func observe(_ date: Date, nanoseconds: Int64) -> Change? {
        let counter = nanoseconds / 1_000_000
        let wasSteady = isSteady
        let previous = current
        current = date.milliseconds &- counter
        if !Self.isNear(current, candidate.lead) { candidate = (current, counter) }
        if counter - candidate.since >= Self.persistence {
            accepted = candidate.lead
            isSettled = true
            // Follow a slow drift.
            candidate = (current, counter)
            return wasSteady ? nil : .accepted
        }
        switch (wasSteady, isSteady) {
        case (true, false): return .jumped((current &- accepted) / 1000)
        case (false, true): return .returned
        case (false, false): return Self.isNear(current, previous) ? nil : .jumped((current &- accepted) / 1000)
        case (true, true): return nil
        }
    }

    private static func isNear(_ one: Int64, _ other: Int64) -> Bool {
        let (difference, hasOverflowed) = one.subtractingReportingOverflow(other)
        return !hasOverflowed && (-tolerance...tolerance).contains(difference)
    }
}

extension GatewayService {
    /// Compares the clocks. While the time is not certain, nothing is deleted and no key is switched.
    @discardableResult
    func observeClock() -> ClockWatch {
        let (date, time) = (now, nanoseconds)
        let (watch, change) = clockWatch.withLock { watch in
            let change = watch.observe(date, nanoseconds: time)
            return (watch, change)
        }
        switch change {
        case .jumped(let seconds):
            logRateLimited(
                "the clock has jumped by \(seconds) s: no record is deleted and no key is switched until the new time has "
                    + "persisted for ten minutes")
        case .returned: logRateLimited("the clock has returned to its time before the jump")
        case .accepted: logRateLimited("accepted the clock's new time, which has persisted for ten minutes")
        case nil: break
        }
        return watch
    }
}
