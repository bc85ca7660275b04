// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Addresses at rest, in the order in which their rest began, and by who had them.
struct RestQueue: Sendable {
    /// How an address rests.
    struct Rest: Hashable, Sendable {
        /// Since when, in nanoseconds.
        var since: Int64
        /// Who had it.
        var owner: String?
    }

    private struct Place {
        var value: UInt128
        var stamp: UInt64
    }

    private var rests: [UInt128: (rest: Rest, stamp: UInt64)] = [:]
    /// Places of addresses that rest no more are among these until they come to the front, or there are many.
    private var order: [Place] = []
    private var start = 0
    private var owned: [String: [UInt128]] = [:]
    private var lastStamp: UInt64 = 0

    var count: Int { rests.count }

    /// The addresses at rest, in no order.
    var all: [(value: UInt128, rest: Rest)] { rests.map { ($0.key, $0.value.rest) } }

    /// Whether an address rests.
    func contains(_ value: UInt128) -> Bool { rests[value] != nil }

    /// Adds an address whose rest begins now.
    mutating func append(_ value: UInt128, _ rest: Rest) {
        order.append(note(value, rest))
    }

    /// Adds an address whose rest began earlier.
    mutating func insert(_ value: UInt128, _ rest: Rest) {
        let index = order[start...].firstIndex { place in
            guard let other = rests[place.value], other.stamp == place.stamp else { return false }
            return other.rest.since >= rest.since
        }
        order.insert(note(value, rest), at: index ?? order.endIndex)
    }

    private mutating func note(_ value: UInt128, _ rest: Rest) -> Place {
        lastStamp += 1
        rests[value] = (rest, lastStamp)
        if let owner = rest.owner { owned[owner, default: []].append(value) }
        return Place(value: value, stamp: lastStamp)
    }

    /// Takes out the one that has rested longest, if it has since this moment.
    mutating func popOldest(since limit: Int64) -> (UInt128, Rest)? {
        while start < order.count {
            let place = order[start]
            guard let entry = rests[place.value], entry.stamp == place.stamp else {
                start += 1
                continue
            }
            guard entry.rest.since <= limit else { return nil }
            start += 1
            return remove(place.value).map { (place.value, $0) }
        }
        return nil
    }

    /// Up to `count` addresses that have rested since `limit` or longer, the longest first.
    func oldest(_ count: Int, since limit: Int64) -> [UInt128] {
        var values: [UInt128] = []
        for place in order[start...] where values.count < count {
            guard let entry = rests[place.value], entry.stamp == place.stamp else { continue }
            guard entry.rest.since <= limit else { break }
            values.append(place.value)
        }
        return values
    }

    /// Takes out the one that this owner gave back last.
    mutating func popLatest(of owner: String) -> (UInt128, Rest)? {
        guard let value = owned[owner]?.last else { return nil }
        return remove(value).map { (value, $0) }
    }

    /// Takes out one.
    @discardableResult
    mutating func remove(_ value: UInt128) -> Rest? {
        guard let (rest, _) = rests.removeValue(forKey: value) else { return nil }
        if let owner = rest.owner {
            if let index = owned[owner]?.lastIndex(of: value) { owned[owner]?.remove(at: index) }
            if owned[owner]?.isEmpty == true { owned[owner] = nil }
        }
        if order.count > 2 * rests.count + 64 {
            order = order[start...].filter { rests[$0.value]?.stamp == $0.stamp }
            start = 0
        }
        return rest
    }
}
