// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A map from receiver indices to values. Receiver indices are the random 32-bit identifiers of sessions and handshakes
/// in messages.
///
/// The table draws the indices itself. They are uniformly distributed, so they are their own hash: the low bits are the
/// slot number, with linear probing and backward-shift deletion. A lookup of an index that an unknown host chose costs
/// at most the longest run of used slots, which no sender can influence. Zero is never drawn, because it marks empty
/// slots.
@safe
package struct IndexTable<Value>: ~Copyable {
    private struct Slot {
        var index: UInt32
        var value: Value?
    }

    private static var minimumCapacity: Int { 8 }

    private var slots: UnsafeMutablePointer<Slot>
    private var mask: UInt32

    /// The number of indices in use.
    package private(set) var count = 0

    /// An empty table.
    package init() {
        unsafe slots = Self.emptySlots(Self.minimumCapacity)
        mask = UInt32(Self.minimumCapacity - 1)
    }

    deinit {
        unsafe slots.deinitialize(count: Int(mask) + 1)
        unsafe slots.deallocate()
    }

    /// The number of slots, a power of two of which at most half are used.
    package var capacity: Int { Int(mask) + 1 }

    // MARK: - Lookup

    /// The value at an index; `nil` if the index is not in use.
    @inline(__always)
    package subscript(index: UInt32) -> Value? {
        let slot = find(index)
        return slot < 0 ? nil : unsafe slots[slot].value
    }

    /// Returns the slot of an index; -1 if the index is not in use.
    @inline(__always)
    private func find(_ index: UInt32) -> Int {
        guard index != 0 else { return -1 }
        var slot = index & mask
        while true {
            let found = unsafe slots[Int(slot)].index
            if found == index { return Int(slot) }
            if found == 0 { return -1 }
            slot = (slot &+ 1) & mask
        }
    }

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
        } while index == 0 || find(index) >= 0
        return index
    }

    /// Stores `value` under an index from ``freeIndex(using:)``. Only drawn indices keep the probe sequences short.
    package mutating func insert(_ value: Value, at index: UInt32) {
        precondition(index != 0 && find(index) < 0, "the index is in use")
        if (count + 1) * 2 > capacity { resize(to: capacity * 2) }
        place(Slot(index: index, value: value))
        count += 1
    }

    /// Frees an index and returns its value; `nil` if it was not in use.
    @discardableResult
    package mutating func remove(_ index: UInt32) -> Value? {
        let found = find(index)
        guard found >= 0 else { return nil }
        let value = unsafe slots[found].value
        var hole = UInt32(found)
        var next = hole
        while true {
            next = (next &+ 1) & mask
            let candidate = unsafe slots[Int(next)].index
            guard candidate != 0 else { break }
            // An entry may fill the hole only if its preferred slot is not after the hole.
            let displacement = (next &- candidate) & mask
            guard displacement >= (next &- hole) & mask else { continue }
            unsafe slots[Int(hole)] = slots[Int(next)]
            hole = next
        }
        unsafe slots[Int(hole)] = Slot(index: 0, value: nil)
        count -= 1
        if capacity > Self.minimumCapacity, count * 8 < capacity { resize(to: capacity / 2) }
        return value
    }

    // MARK: - Storage

    private static func emptySlots(_ capacity: Int) -> UnsafeMutablePointer<Slot> {
        let slots = UnsafeMutablePointer<Slot>.allocate(capacity: capacity)
        unsafe slots.initialize(repeating: Slot(index: 0, value: nil), count: capacity)
        return unsafe slots
    }

    /// Stores an entry in the first empty slot from its preferred one on.
    private mutating func place(_ entry: Slot) {
        var slot = entry.index & mask
        while unsafe slots[Int(slot)].index != 0 { slot = (slot &+ 1) & mask }
        unsafe slots[Int(slot)] = entry
    }

    private mutating func resize(to newCapacity: Int) {
        let (old, oldCapacity) = unsafe (slots, capacity)
        unsafe slots = Self.emptySlots(newCapacity)
        mask = UInt32(newCapacity - 1)
        for slot in 0..<oldCapacity where unsafe old[slot].index != 0 {
            place(unsafe old[slot])
        }
        unsafe old.deinitialize(count: oldCapacity)
        unsafe old.deallocate()
    }
}

extension IndexTable: @unchecked Sendable where Value: Sendable {}
