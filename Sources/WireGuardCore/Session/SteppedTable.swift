// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The slots of peers or clients, by hash: a hash table that grows in steps.
///
/// A table that moves all its entries when it grows would hold the engine for milliseconds with 100,000 entries. This table
/// keeps the former entries in addition to the new ones, and each later change moves some of them. The memory of the
/// larger table is prepared in steps too. A lookup that finds its entry in the new part never searches the former one.
///
/// The table does not shrink while it has entries. Until the last one is removed, its memory depends on the greatest number
/// of entries that it has had: 8 bytes for each position.
///
/// It contains no keys: the caller supplies a hash, and compares the slots that have it. Hashes must be distributed so that
/// no sender can choose the position of an entry.
@safe
struct SteppedTable: ~Copyable, @unchecked Sendable {
    // Unchecked: the table is the only owner of its memory.

    private struct Entry {
        var hash: UInt32
        /// The slot, or ``unused`` or ``removed``.
        var slot: Int32
    }

    private static var unused: Int32 { -1 }
    /// Marks a position of the former part whose entry was moved or removed. A search continues after it.
    private static var removed: Int32 { -2 }

    /// A block of positions, a power of two of which at most half are used, by linear probing.
    @safe
    private struct Part {
        private let entries: UnsafeMutablePointer<Entry>
        let capacity: Int
        /// The number of positions that are initialized, from the first one on.
        private(set) var preparedCount = 0

        init(capacity: Int) {
            self.capacity = capacity
            unsafe entries = .allocate(capacity: capacity)
        }

        mutating func prepare(atMost most: Int) {
            let count = min(most, capacity - preparedCount)
            let entry = Entry(hash: 0, slot: SteppedTable.unused)
            unsafe (entries + preparedCount).initialize(repeating: entry, count: count)
            preparedCount += count
        }

        func deallocate() { unsafe entries.deallocate() }

        /// The memory, which the caller releases.
        var block: UnsafeMutableRawPointer { unsafe UnsafeMutableRawPointer(entries) }

        @inline(__always)
        subscript(position: Int) -> Entry {
            get { unsafe entries[position] }
            nonmutating set { unsafe entries[position] = newValue }
        }

        @inline(__always)
        func preferred(_ hash: UInt32) -> Int { Int(hash) & (capacity &- 1) }

        @inline(__always)
        func next(_ position: Int) -> Int { (position &+ 1) & (capacity &- 1) }

        /// Finds a slot with this hash.
        /// - Returns: Its position, or `nil` if there is none.
        @inline(__always)
        func find(_ hash: UInt32, where isWanted: (Int32) -> Bool) -> Int? {
            var position = preferred(hash)
            while true {
                let entry = self[position]
                if entry.hash == hash, entry.slot >= 0, isWanted(entry.slot) { return position }
                if entry.slot == SteppedTable.unused { return nil }
                position = next(position)
            }
        }

        /// Stores an entry at the first unused position from its preferred one on.
        func place(_ entry: Entry) {
            var position = preferred(entry.hash)
            while self[position].slot != SteppedTable.unused { position = next(position) }
            self[position] = entry
        }

        /// Empties a position, and moves later entries of its run to it.
        func close(_ position: Int) {
            var hole = position
            var next = next(hole)
            while self[next].slot != SteppedTable.unused {
                // An entry may fill the hole only if its preferred position is not after the hole.
                let displacement = (next - preferred(self[next].hash)) & (capacity - 1)
                if displacement >= (next - hole) & (capacity - 1) {
                    self[hole] = self[next]
                    hole = next
                }
                next = self.next(next)
            }
            self[hole].slot = SteppedTable.unused
        }
    }

    /// The number of positions of the former part that a change moves.
    static var step: Int { 16 }
    private static var minimumCapacity: Int { 8 }
    /// The greatest number of positions whose memory, 64 KiB, is released immediately.
    static var mostReleased: Int { 8_192 }

    private var present: Part
    /// The entries before the growth; `nil` unless some of them must still be moved.
    private var former: Part?
    /// The position in ``former`` of the next entry to move.
    private var position = 0
    /// The part of twice the capacity for the next growth. Additions prepare it after three quarters of the usable positions
    /// are used.
    private var larger: Part?
    /// Large memory that is no longer in use, for the owner.
    var retired: [RetiredMemory] = []

    /// The number of entries.
    private(set) var count = 0

    /// An empty table.
    init() {
        present = Part(capacity: Self.minimumCapacity)
        present.prepare(atMost: .max)
    }

    deinit {
        present.deallocate()
        former?.deallocate()
        larger?.deallocate()
    }

    /// The number of positions. At most half of them are used.
    var capacity: Int { present.capacity }
    /// The number of positions that must still be moved.
    var remaining: Int { former.map { $0.capacity - position } ?? 0 }
    /// The number of positions that must be prepared before the next growth.
    var unprepared: Int { capacity * 2 - (larger?.preparedCount ?? 0) }

    // MARK: - Lookup

    /// Returns the slot with this hash for which `isWanted` is true.
    @inline(__always)
    func slot(hash: UInt32, where isWanted: (Int32) -> Bool) -> Int32? {
        if let found = present.find(hash, where: isWanted) { return present[found].slot }
        guard let former, let found = former.find(hash, where: isWanted) else { return nil }
        return former[found].slot
    }

    // MARK: - Change

    /// Adds a slot, which must not be negative, nor in the table.
    mutating func insert(_ slot: Int32, hash: UInt32) {
        precondition(slot >= 0, "a slot is never negative")
        if (count + 1) * 2 > capacity { grow() }
        move(atMost: Self.step)
        if count * 8 >= capacity * 3 { prepare(atMost: 2 * Self.step) }
        present.place(Entry(hash: hash, slot: slot))
        count += 1
    }

    /// Removes the slot with this hash for which `isWanted` is true.
    /// - Returns: The slot, or `nil` if there is none.
    @discardableResult
    mutating func remove(hash: UInt32, where isWanted: (Int32) -> Bool) -> Int32? {
        let slot: Int32
        if let found = present.find(hash, where: isWanted) {
            slot = present[found].slot
            present.close(found)
        } else if let former, let found = former.find(hash, where: isWanted) {
            slot = former[found].slot
            former[found].slot = Self.removed
        } else {
            return nil
        }
        count -= 1
        if count == 0 { releaseStorage() } else { move(atMost: Self.step) }
        return slot
    }

    private mutating func grow() {
        // Nothing is left to move or to prepare: each addition does several positions, and there were enough of them.
        move(atMost: .max)
        prepare(atMost: .max)
        guard let larger else { return }
        (former, present, self.larger) = (present, larger, nil)
    }

    /// Moves the entries at some positions of the former part.
    private mutating func move(atMost most: Int) {
        guard let former else { return }
        let end = position + min(most, remaining)
        while position < end {
            let entry = former[position]
            if entry.slot >= 0 {
                present.place(entry)
                former[position].slot = Self.removed
            }
            position += 1
        }
        guard remaining == 0 else { return }
        if former.capacity > Self.mostReleased {
            unsafe retired.retire(RetiredBlock(former.block))
        } else {
            former.deallocate()
        }
        (self.former, position) = (nil, 0)
    }

    /// Prepares some positions of the next part.
    private mutating func prepare(atMost most: Int) {
        var part = larger ?? Part(capacity: capacity * 2)
        part.prepare(atMost: most)
        larger = part
    }

    /// Releases or retires all memory after the last entry was removed.
    private mutating func releaseStorage() {
        guard capacity > Self.mostReleased else {
            self = SteppedTable()
            return
        }
        // If each retired table owned the earlier ones, they would form a chain without a limit.
        var kept = retired
        retired = []
        kept.retire(RetiredTable(self))
        self = SteppedTable()
        retired = kept
    }
}

extension PublicKey {
    /// The hash of the key in the engine's table of peers. It has a random seed in each process: a host that chooses its key
    /// cannot choose the key's position.
    var tableHash: UInt32 { UInt32(truncatingIfNeeded: hashValue) }
}
