// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Counts repairs of changes that another program keeps undoing, such as one that sets the same route.
struct RepairBackoff {
    private var counts: [Change: (count: Int, last: Int64)] = [:]

    /// The number of consecutive repairs that are made without a pause.
    static let limit = 10
    /// The number of repairs after which another loss counts as part of a series.
    private static let repetition = 5
    /// The time between two repairs after ``limit``, in nanoseconds. If a change stays in effect for twice this time,
    /// its count restarts from zero.
    static let pause: Int64 = 30_000_000_000

    /// Whether the repair of a change must wait now.
    func isPaused(_ step: Change, at now: Int64) -> Bool {
        guard let before = counts[step], before.count >= Self.limit else { return false }
        return now - before.last < Self.pause
    }

    /// Whether a change was repaired several times, and recently.
    func isRepeated(_ step: Change, at now: Int64) -> Bool {
        guard let before = counts[step], before.count >= Self.repetition else { return false }
        return now - before.last < Self.pause
    }

    /// Counts a repair of a change.
    mutating func recordRepair(_ step: Change, at now: Int64) {
        counts = counts.filter { now - $0.value.last < 2 * Self.pause }
        counts[step] = (min(Self.limit, (counts[step]?.count ?? 0) + 1), now)
    }
}
