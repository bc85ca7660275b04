// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Decides at which of the many calls while a thread waits everything is checked, which reads the kernel's lists.
struct WaitingTurns {
    /// The time between two checks, in nanoseconds.
    static let interval: Int64 = 250_000_000
    /// The time without a call after which a call begins another wait.
    private static let gap: Int64 = 100_000_000
    private var last = Int64.min / 2
    private var lastCall = Int64.min / 2

    /// Whether everything must be checked at a call at this time. The first check comes an interval after the wait began.
    mutating func isDue(at now: Int64) -> Bool {
        if now - lastCall >= Self.gap { last = now }
        lastCall = now
        guard now - last >= Self.interval else { return false }
        last = now
        return true
    }
}
