// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Limits how often everything is checked while a thread waits. The wait calls it often, and a check reads the kernel's
/// lists.
struct WaitingTurns {
    /// The time between two checks, in nanoseconds.
    static let interval: Int64 = 250_000_000
    /// The time between calls, in nanoseconds, after which a call belongs to another wait.
    private static let gap: Int64 = 100_000_000
    private var last = Int64.min / 2
    private var lastCall = Int64.min / 2

    /// Whether a check is due at this time. The first check is due one interval after the wait began.
    mutating func isDue(at now: Int64) -> Bool {
        if now - lastCall >= Self.gap { last = now }
        lastCall = now
        guard now - last >= Self.interval else { return false }
        last = now
        return true
    }
}
