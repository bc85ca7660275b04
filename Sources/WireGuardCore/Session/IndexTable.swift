// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A map from receiver indices to the slots of peers or clients. Receiver indices are the random 32-bit identifiers of
/// sessions and handshakes in messages.
///
/// The table draws the indices itself. They are uniformly distributed, so they are their own hash. A lookup of an index that
/// an unknown host chose costs at most the longest run of used positions, which no sender can influence. Zero is never
/// drawn.
package struct IndexTable: ~Copyable, Sendable {
    private var table = SteppedTable()

    /// An empty table.
    package init() {}

    /// The number of indices in use.
    package var count: Int { table.count }

    /// The number of positions, a power of two of which at most half are used.
    package var capacity: Int { table.capacity }

    // MARK: - Lookup

    /// The slot of an index; `nil` if the index is not in use.
    package subscript(index: UInt32) -> Int32? { table.slot(hash: index) { _ in true } }

    // MARK: - Change

    /// Stores `slot` under an index drawn from `random` that is not zero and not in use, and returns that index.
    package mutating func insert(_ slot: Int32, using random: inout some RandomNumberGenerator) -> UInt32 {
        let index = freeIndex(using: &random)
        insert(slot, at: index)
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

    /// Stores `slot`, which must not be negative, under an index from ``freeIndex(using:)``. Only drawn indices keep the
    /// probe sequences short.
    package mutating func insert(_ slot: Int32, at index: UInt32) {
        precondition(index != 0 && self[index] == nil, "the index is in use")
        table.insert(slot, hash: index)
    }

    /// Frees an index and returns its slot; `nil` if it was not in use.
    @discardableResult
    package mutating func remove(_ index: UInt32) -> Int32? { table.remove(hash: index) { _ in true } }

    /// Returns large memory that the table no longer uses.
    package mutating func takeRetired() -> [RetiredMemory] {
        defer { table.retired = [] }
        return table.retired
    }
}
