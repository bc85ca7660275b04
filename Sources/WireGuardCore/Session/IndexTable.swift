// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A map from receiver indices to values. Receiver indices are the random 32-bit identifiers of sessions and handshakes
/// in messages.
///
/// The table draws the indices itself. They are uniformly distributed, so they are their own hash. A lookup of an index that
/// an unknown host chose costs at most the longest run of used positions, which no sender can influence. Zero is never
/// drawn.
package struct IndexTable<Value>: ~Copyable {
    private var table = SteppedTable<Value>()

    /// An empty table.
    package init() {}

    // This empty deinit is necessary; see ``Engine``.
    deinit {}

    /// The number of indices in use.
    package var count: Int { table.count }

    /// The number of positions, a power of two of which at most half are used.
    package var capacity: Int { table.capacity }

    // MARK: - Lookup

    /// The value at an index; `nil` if the index is not in use.
    @inline(__always)
    package subscript(index: UInt32) -> Value? { table.value(hash: index) { _ in true } }

    // MARK: - Change

    /// Stores `value` under an index drawn from `random` that is not zero and not in use, and returns that index.
    package mutating func insert(_ value: Value, using random: inout some RandomNumberGenerator) -> UInt32 {
        let index = freeIndex(using: &random)
        insert(value, at: index)
        return index
    }

    /// An index drawn from `random` that is not zero and not in use, for ``insert(_:at:)``.
    package func freeIndex(using random: inout some RandomNumberGenerator) -> UInt32 {
        var index: UInt32
        repeat {
            index = UInt32(truncatingIfNeeded: random.next())
        } while index == 0 || self[index] != nil
        return index
    }

    /// Stores `value` under an index from ``freeIndex(using:)``. Only drawn indices keep the probe sequences short.
    package mutating func insert(_ value: Value, at index: UInt32) {
        precondition(index != 0 && self[index] == nil, "the index is in use")
        table.insert(value, hash: index)
    }

    /// Frees an index and returns its value; `nil` if it was not in use.
    @discardableResult
    package mutating func remove(_ index: UInt32) -> Value? { table.remove(hash: index) { _ in true } }
}

extension IndexTable: Sendable where Value: Sendable {}
