// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A table of token buckets, one for each key.
///
/// The table is bounded. When it is full, a new key replaces one whose bucket is full again, or else, among a few, the
/// one nearest to that. Refusing new keys instead would let a party that controls `capacity` keys block all other parties.
/// Replacing gives it no more than a fresh bucket, which another key would give it anyway, and keys that have used up
/// their bucket are the last to be forgotten.
package struct TokenBuckets<Key: Hashable & Sendable>: Sendable {
    private struct Entry {
        var key: Key
        /// When the bucket will be full again, in nanoseconds; how far ahead says how many tokens are missing.
        var fullAt: Int64
    }

    /// How many entries are compared to find the one to replace.
    private static var candidates: Int { 32 }

    private let capacity: Int
    private let tokenInterval: Int64
    private let bucketDepth: Int64

    private var entries: [Entry] = []
    // An attacker may choose the keys, so hashing must be keyed.
    private var positions: [Key: Int] = [:]
    private var hand = 0
    /// The entry at which the next removal of stale keys begins.
    private var sweep = 0

    /// A table that gives each key a burst of `burst` tokens and `perSecond` in the long run, and remembers at most
    /// `capacity` keys. Values below one count as one.
    package init(capacity: Int, perSecond: Int, burst: Int) {
        self.capacity = max(capacity, 1)
        tokenInterval = max(1_000_000_000 / Int64(max(perSecond, 1)), 1)
        let (depth, overflow) = tokenInterval.multipliedReportingOverflow(by: Int64(max(burst, 1)))
        bucketDepth = overflow ? .max : depth
    }

    /// The number of keys remembered.
    package var count: Int { entries.count }

    /// Takes a token from the bucket of `key`, and returns whether it had one.
    package mutating func allow(_ key: Key, at now: Instant) -> Bool {
        let now = now.nanoseconds
        guard let position = positions[key] else {
            add(Entry(key: key, fullAt: now.addingSaturating(tokenInterval)), at: now)
            return true
        }
        var fullAt = max(entries[position].fullAt, now)
        // Further ahead than an empty bucket means that the clock went back: take it as empty now.
        fullAt = min(fullAt, now.addingSaturating(bucketDepth))
        let used = fullAt.addingSaturating(tokenInterval)
        let isAllowed = used <= now.addingSaturating(bucketDepth)
        entries[position].fullAt = isAllowed ? used : fullAt
        return isAllowed
    }

    /// Forgets the keys whose bucket is full, as a new key's would be.
    /// - Parameter most: The number of keys to examine; the next call continues after them.
    /// - Returns: Whether the last key was examined.
    @discardableResult
    package mutating func removeStale(at now: Instant, lookingAt most: Int = .max) -> Bool {
        for _ in 0..<min(most, entries.count) where sweep < entries.count {
            if entries[sweep].fullAt <= now.nanoseconds {
                remove(at: sweep)
            } else {
                sweep += 1
            }
        }
        guard sweep >= entries.count else { return false }
        sweep = 0
        if entries.isEmpty {
            entries = []
            positions = [:]
        }
        return true
    }

    private mutating func add(_ entry: Entry, at now: Int64) {
        guard entries.count >= capacity else {
            positions[entry.key] = entries.count
            entries.append(entry)
            return
        }
        let victim = replaceablePosition(at: now)
        positions[entries[victim].key] = nil
        positions[entry.key] = victim
        entries[victim] = entry
    }

    /// The first stale entry among the next few, or the one of them whose bucket is fullest.
    private mutating func replaceablePosition(at now: Int64) -> Int {
        var best = hand % entries.count
        for _ in 0..<min(Self.candidates, entries.count) {
            hand = (hand + 1) % entries.count
            if entries[hand].fullAt < entries[best].fullAt { best = hand }
            if entries[best].fullAt <= now { break }
        }
        return best
    }

    private mutating func remove(at position: Int) {
        positions[entries[position].key] = nil
        let last = entries.removeLast()
        if position < entries.count {
            entries[position] = last
            positions[last.key] = position
        }
    }
}
