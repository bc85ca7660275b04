// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A table of token buckets, one for each key.
///
/// The table is bounded. When it is full, a new key replaces a key whose bucket is full again; if there is none among a
/// few candidates, it replaces the one with the fullest bucket. If the table refused new keys instead, an attacker with
/// `capacity` keys could block everyone else. A replacement gives the attacker only a full bucket, which another key
/// would give it anyway, and keys with empty buckets are kept the longest.
package struct TokenBuckets<Key: Hashable & Sendable>: Sendable {
    private struct Entry {
        var key: Key
        /// The time when the bucket will be full again, in nanoseconds. Its distance from now shows how many tokens are
        /// missing.
        var fullAt: Int64
    }

    /// The number of entries among which the one to replace is chosen.
    private static var candidates: Int { 32 }

    private let capacity: Int
    private let tokenInterval: Int64
    private let bucketDepth: Int64

    private var entries: [Entry] = []
    // An attacker may choose the keys, so the hash function must be keyed.
    private var positions: [Key: Int] = [:]
    private var hand = 0
    /// The entry at which the next removal of stale keys begins.
    private var sweep = 0

    /// Creates a table that gives each key a burst of `burst` tokens and `perSecond` on average, and stores at most
    /// `capacity` keys. Values below one count as one.
    package init(capacity: Int, perSecond: Int, burst: Int) {
        self.capacity = max(capacity, 1)
        tokenInterval = max(1_000_000_000 / Int64(max(perSecond, 1)), 1)
        let (depth, overflow) = tokenInterval.multipliedReportingOverflow(by: Int64(max(burst, 1)))
        bucketDepth = overflow ? .max : depth
    }

    /// The number of stored keys.
    package var count: Int { entries.count }

    /// Takes a token from the bucket of `key`, and returns whether it had one.
    package mutating func allow(_ key: Key, at now: Instant) -> Bool {
        let now = now.nanoseconds
        guard let position = positions[key] else {
            add(Entry(key: key, fullAt: now.addingSaturating(tokenInterval)), at: now)
            return true
        }
        var fullAt = max(entries[position].fullAt, now)
        // A time later than that of an empty bucket means that the clock was set back. Treat the bucket as empty.
        fullAt = min(fullAt, now.addingSaturating(bucketDepth))
        let used = fullAt.addingSaturating(tokenInterval)
        let isAllowed = used <= now.addingSaturating(bucketDepth)
        entries[position].fullAt = isAllowed ? used : fullAt
        return isAllowed
    }

    /// Removes keys with a full bucket, which equals that of a new key.
    /// - Parameter most: The number of keys to check; the next call continues after them.
    /// - Returns: Whether the last key was checked.
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

    /// Returns the position of the first stale entry among the next few, or of the one with the fullest bucket.
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
