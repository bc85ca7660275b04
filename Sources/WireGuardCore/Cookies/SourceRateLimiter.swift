// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// A token bucket for each source of handshake messages: an IPv4 address, or the /64 of an IPv6 address, since one
/// host commonly has a whole /64.
///
/// Ask only after mac2 has proved that the source can receive at its address (WireGuard paper, section 5.3): an
/// attacker who forges addresses then never gets this far, and each entry stands for a real host.
///
/// The table is bounded. When it is full, a new source replaces one whose bucket is full again, or else, among a
/// few, the one nearest to that. Refusing new sources instead would let whoever controls `capacity` hosts lock all
/// others out; replacing gives nobody more than a fresh bucket, which whoever controls yet another host has anyway,
/// and sources that have used up their bucket are the last to be forgotten.
package struct SourceRateLimiter: Sendable {
    private struct Source: Hashable {
        var value: UInt64
        var isV6: Bool
    }

    private struct Entry {
        var source: Source
        /// When the bucket will be full again, in nanoseconds; how far ahead says how many tokens are missing.
        var fullAt: Int64
    }

    /// How many entries are compared to find the one to replace.
    private static let candidates = 32

    private let capacity: Int
    private let tokenInterval: Int64
    private let bucketDepth: Int64

    private var entries: [Entry] = []
    // Keyed hashing matters here: others choose the addresses.
    private var positions: [Source: Int] = [:]
    private var hand = 0
    /// Where the next look for stale sources begins.
    private var sweep = 0

    /// A limiter that allows each source `burst` messages at once and `perSecond` in the long run, and remembers at
    /// most `capacity` sources. Values below one count as one.
    package init(capacity: Int = 16_384, perSecond: Int = 20, burst: Int = 5) {
        self.capacity = max(capacity, 1)
        tokenInterval = max(1_000_000_000 / Int64(max(perSecond, 1)), 1)
        let (depth, overflow) = tokenInterval.multipliedReportingOverflow(by: Int64(max(burst, 1)))
        bucketDepth = overflow ? .max : depth
    }

    /// The number of sources remembered.
    package var count: Int { entries.count }

    /// Takes a token from the bucket of `source`; false when there is none.
    package mutating func allow(_ source: IPAddress, at now: Instant) -> Bool {
        let now = now.nanoseconds
        let key = Self.key(of: source)
        guard let position = positions[key] else {
            add(Entry(source: key, fullAt: now.addingSaturating(tokenInterval)), at: now)
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

    /// Forgets the sources whose bucket is full, as a new source's would be.
    /// - Parameter most: how many are looked at; the next call goes on behind them.
    /// - Returns: whether the last one was looked at.
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
            positions[entry.source] = entries.count
            entries.append(entry)
            return
        }
        let victim = replaceablePosition(at: now)
        positions[entries[victim].source] = nil
        positions[entry.source] = victim
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
        positions[entries[position].source] = nil
        let last = entries.removeLast()
        if position < entries.count {
            entries[position] = last
            positions[last.source] = position
        }
    }

    /// IPv4 in full, also where a dual-stack socket writes it as `::ffff:a.b.c.d`; IPv6 by its first half.
    private static func key(of address: IPAddress) -> Source {
        switch address.family {
        case .v4:
            Source(value: address.low, isV6: false)
        case .v6 where address.high == 0 && address.low >> 32 == 0xffff:
            Source(value: address.low & 0xffff_ffff, isV6: false)
        case .v6:
            Source(value: address.high, isV6: true)
        }
    }
}
