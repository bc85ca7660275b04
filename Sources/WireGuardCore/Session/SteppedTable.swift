// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A hash table that grows in steps.
///
/// A table that moves all its entries when it grows would hold the engine for milliseconds with 100,000 entries. This table
/// keeps the former entries in addition to the new ones, and each later change moves some of them. The memory of the
/// larger table is prepared in steps too. A lookup that finds its entry in the new part never searches the former one. The
/// memory is released with the last entry.
///
/// It contains no keys: the caller supplies a hash, and compares the values that have it. Hashes must be distributed so that
/// no sender can choose the position of an entry.
@safe
struct SteppedTable<Value>: ~Copyable {
    private enum Content {
        case unused
        /// Marks a position of the former part whose entry was moved or removed. A search continues after it.
        case removed
        case used(Value)
    }

    private struct Entry {
        var hash: UInt32
        var content: Content
    }

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
            unsafe (entries + preparedCount).initialize(repeating: Entry(hash: 0, content: .unused), count: count)
            preparedCount += count
        }

        func deallocate() {
            unsafe entries.deinitialize(count: preparedCount)
            unsafe entries.deallocate()
        }

        @inline(__always)
        subscript(position: Int) -> Entry {
            get { unsafe entries[position] }
            nonmutating set { unsafe entries[position] = newValue }
        }

        @inline(__always)
        func preferred(_ hash: UInt32) -> Int { Int(hash) & (capacity &- 1) }

        @inline(__always)
        func next(_ position: Int) -> Int { (position &+ 1) & (capacity &- 1) }

        /// Finds a value with this hash.
        /// - Returns: The value and its position, or `nil` if there is none.
        @inline(__always)
        func find(_ hash: UInt32, where isWanted: (Value) -> Bool) -> (value: Value, position: Int)? {
            var position = preferred(hash)
            while true {
                switch unsafe entries[position].content {
                case .unused: return nil
                case .removed: break
                case .used(let value):
                    if unsafe entries[position].hash == hash, isWanted(value) { return (value, position) }
                }
                position = next(position)
            }
        }

        /// Stores an entry at the first unused position from its preferred one on.
        func place(_ entry: Entry) {
            var position = preferred(entry.hash)
            while case .used = self[position].content { position = next(position) }
            self[position] = entry
        }

        /// Empties a position, and moves later entries of its run to it.
        func close(_ position: Int) {
            var hole = position
            var next = next(hole)
            while case .used = self[next].content {
                // An entry may fill the hole only if its preferred position is not after the hole.
                let displacement = (next - preferred(self[next].hash)) & (capacity - 1)
                if displacement >= (next - hole) & (capacity - 1) {
                    self[hole] = self[next]
                    hole = next
                }
                next = self.next(next)
            }
            self[hole] = Entry(hash: 0, content: .unused)
        }
    }

    /// The number of positions of the former part that a change moves.
    static var step: Int { 16 }
    private static var minimumCapacity: Int { 8 }

    private var present: Part
    /// The entries before the growth; `nil` unless some of them must still be moved.
    private var former: Part?
    /// The position in ``former`` of the next entry to move.
    private var position = 0
    /// The part of twice the capacity for the next growth. Additions prepare it after three quarters of the usable positions
    /// are used.
    private var larger: Part?

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

    /// Returns the value with this hash for which `isWanted` is true.
    @inline(__always)
    func value(hash: UInt32, where isWanted: (Value) -> Bool) -> Value? {
        if let found = present.find(hash, where: isWanted) { return found.value }
        return former?.find(hash, where: isWanted)?.value
    }

    // MARK: - Change

    /// Adds a value, which must not be in the table.
    mutating func insert(_ value: Value, hash: UInt32) {
        if (count + 1) * 2 > capacity { grow() }
        move(atMost: Self.step)
        if count * 8 >= capacity * 3 { prepare(atMost: 2 * Self.step) }
        present.place(Entry(hash: hash, content: .used(value)))
        count += 1
    }

    /// Removes the value with this hash for which `isWanted` is true.
    /// - Returns: The value, or `nil` if there is none.
    @discardableResult
    mutating func remove(hash: UInt32, where isWanted: (Value) -> Bool) -> Value? {
        let value: Value
        if let found = present.find(hash, where: isWanted) {
            value = found.value
            present.close(found.position)
        } else if let former, let found = former.find(hash, where: isWanted) {
            value = found.value
            former[found.position].content = .removed
        } else {
            return nil
        }
        count -= 1
        if count == 0 { self = SteppedTable() } else { move(atMost: Self.step) }
        return value
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
            if case .used = former[position].content {
                present.place(former[position])
                former[position].content = .removed
            }
            position += 1
        }
        guard remaining == 0 else { return }
        former.deallocate()
        (self.former, position) = (nil, 0)
    }

    /// Prepares some positions of the next part.
    private mutating func prepare(atMost most: Int) {
        var part = larger ?? Part(capacity: capacity * 2)
        part.prepare(atMost: most)
        larger = part
    }
}

extension SteppedTable: @unchecked Sendable where Value: Sendable {}

extension PublicKey {
    /// The hash of the key in the engine's table of peers. It has a random seed in each process: a host that chooses its key
    /// cannot choose the key's position.
    var tableHash: UInt32 { UInt32(truncatingIfNeeded: hashValue) }
}
