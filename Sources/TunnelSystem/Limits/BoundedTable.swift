// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A table that removes the oldest entry if it is full, so that no client can make it grow.
package struct BoundedTable<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private let capacity: Int
    private var entries: [Key: (value: Value, stamp: UInt64)] = [:]
    private var order: [(key: Key, stamp: UInt64)] = []
    private var start = 0
    private var lastStamp: UInt64 = 0

    package init(capacity: Int) { self.capacity = max(capacity, 1) }

    package var count: Int { entries.count }
    package var keys: [Key] { Array(entries.keys) }

    /// The value of a key; setting `nil` removes the entry.
    package subscript(key: Key) -> Value? {
        get { entries[key]?.value }
        set {
            guard let newValue else {
                entries[key] = nil
                return
            }
            lastStamp += 1
            entries[key] = (newValue, lastStamp)
            order.append((key, lastStamp))
            while entries.count > capacity, start < order.count { forgetFirst() }
            if order.count - start > 2 * capacity + 64 || start > capacity + 64 { compact() }
        }
    }

    private mutating func forgetFirst() {
        let (key, stamp) = order[start]
        start += 1
        if entries[key]?.stamp == stamp { entries[key] = nil }
    }

    private mutating func compact() {
        order = order[start...].filter { entries[$0.key]?.stamp == $0.stamp }
        start = 0
    }
}
