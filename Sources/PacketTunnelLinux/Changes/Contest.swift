// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Steps that others undo for as long as they are made again, as another program with the same route would.
struct Contest {
    private var counts: [Change: (count: Int, last: Int64)] = [:]

    /// How often in a row a step is made again at once.
    static let limit = 10
    /// From then on, the time between two attempts, in nanoseconds; and how long nobody may have touched it until it is made
    /// again at once as before, beyond that.
    static let pause: Int64 = 30_000_000_000

    /// Whether a step that was undone is left alone for now.
    func isPaused(_ step: Change, at now: Int64) -> Bool {
        guard let before = counts[step], before.count >= Self.limit else { return false }
        return now - before.last < Self.pause
    }

    /// Notes that a step was made again.
    mutating func note(_ step: Change, at now: Int64) {
        counts = counts.filter { now - $0.value.last < 2 * Self.pause }
        counts[step] = (min(Self.limit, (counts[step]?.count ?? 0) + 1), now)
    }
}
