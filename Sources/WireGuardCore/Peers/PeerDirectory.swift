// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The slots of the peers, by the hash of their public keys: a hash table that grows in steps.
///
/// A table that moves all its entries when it grows would hold the engine for milliseconds with 100,000 peers. This table
/// keeps the former entries in addition to the new ones, and each later change moves some of them. The memory of the
/// larger table is prepared in steps too.
///
/// It contains no keys, so the caller compares the key of the peer in a slot. The hash has a random seed in each process:
/// a host that chooses its key cannot choose the key's position.
struct PeerDirectory: Sendable {
    private struct Entry {
        var hash: UInt32
        /// The slot, or ``unused`` or ``removed``.
        var slot: Int32
    }

    /// The number of positions of the former table that a change moves.
    static let step = 16
    private static let minimumCapacity = 8
    private static let unused: Int32 = -1
    /// Marks a position of the former table whose entry was moved or removed. A search continues after it.
    private static let removed: Int32 = -2
    private static let unusedEntry = Entry(hash: 0, slot: unused)

    /// The table. Its size is a power of two, and at most half of its positions are used, by linear probing.
    private var entries = ContiguousArray(repeating: Self.unusedEntry, count: minimumCapacity)
    /// The entries before the growth; empty unless some of them must still be moved.
    private var former: ContiguousArray<Entry> = []
    /// The position in ``former`` of the next entry to move.
    private var position = 0
    /// The first positions of the larger table for the next growth. Additions prepare them after three quarters of the
    /// usable positions are used.
    private var prepared: ContiguousArray<Entry> = []

    /// The number of slots.
    private(set) var count = 0
    /// The number of positions that must still be moved.
    var remaining: Int { former.count - position }
    /// The number of positions that must be prepared before the next growth.
    var unprepared: Int { entries.count * 2 - prepared.count }

    // MARK: - Lookup

    /// Returns the slot with this hash for which `isWanted` is true.
    func slot(hash: UInt32, where isWanted: (Int32) -> Bool) -> Int32? {
        if let found = Self.find(hash, in: entries, where: isWanted) { return entries[found].slot }
        return Self.find(hash, in: former, where: isWanted).map { former[$0].slot }
    }

    private static func find(
        _ hash: UInt32, in table: ContiguousArray<Entry>, where isWanted: (Int32) -> Bool
    ) -> Int? {
        guard !table.isEmpty else { return nil }
        var position = preferred(hash, in: table)
        while table[position].slot != unused {
            let entry = table[position]
            if entry.hash == hash, entry.slot >= 0, isWanted(entry.slot) { return position }
            position = next(position, in: table)
        }
        return nil
    }

    // MARK: - Change

    /// Adds a slot, which must not be in the table.
    mutating func insert(_ slot: Int32, hash: UInt32) {
        if (count + 1) * 2 > entries.count {
            // Nothing is left to move or to prepare: each addition does several positions, and there were enough of them.
            move(atMost: .max)
            prepare(atMost: .max)
            former = entries
            (entries, prepared) = (prepared, [])
        }
        move(atMost: Self.step)
        if count * 8 >= entries.count * 3 { prepare(atMost: 2 * Self.step) }
        place(Entry(hash: hash, slot: slot))
        count += 1
    }

    /// Removes a slot, if it is in the table with this hash.
    mutating func remove(_ slot: Int32, hash: UInt32) {
        if let found = Self.find(hash, in: entries, where: { $0 == slot }) {
            close(found)
        } else if let found = Self.find(hash, in: former, where: { $0 == slot }) {
            former[found].slot = Self.removed
        } else {
            return
        }
        count -= 1
        if count == 0 { self = PeerDirectory() } else { move(atMost: Self.step) }
    }

    /// Moves the entries at some positions of the former table.
    private mutating func move(atMost most: Int) {
        guard !former.isEmpty else { return }
        let end = position + min(most, remaining)
        while position < end {
            let entry = former[position]
            if entry.slot >= 0 {
                place(entry)
                former[position].slot = Self.removed
            }
            position += 1
        }
        if remaining == 0 { (former, position) = ([], 0) }
    }

    /// Prepares some positions of the next table.
    private mutating func prepare(atMost most: Int) {
        if prepared.isEmpty { prepared.reserveCapacity(entries.count * 2) }
        prepared.append(contentsOf: repeatElement(Self.unusedEntry, count: min(most, unprepared)))
    }

    /// Stores an entry at the first unused position from its preferred one on.
    private mutating func place(_ entry: Entry) {
        var position = Self.preferred(entry.hash, in: entries)
        while entries[position].slot != Self.unused { position = Self.next(position, in: entries) }
        entries[position] = entry
    }

    /// Empties a position, and moves later entries of its run to it.
    private mutating func close(_ position: Int) {
        let mask = entries.count - 1
        var hole = position
        var next = Self.next(hole, in: entries)
        while entries[next].slot != Self.unused {
            // An entry may fill the hole only if its preferred position is not after the hole.
            let displacement = (next - Self.preferred(entries[next].hash, in: entries)) & mask
            if displacement >= (next - hole) & mask {
                entries[hole] = entries[next]
                hole = next
            }
            next = Self.next(next, in: entries)
        }
        entries[hole].slot = Self.unused
    }

    private static func preferred(_ hash: UInt32, in table: ContiguousArray<Entry>) -> Int {
        Int(hash) & (table.count - 1)
    }

    private static func next(_ position: Int, in table: ContiguousArray<Entry>) -> Int {
        (position + 1) & (table.count - 1)
    }
}

extension PublicKey {
    /// The hash of the key in ``PeerDirectory``.
    var directoryHash: UInt32 { UInt32(truncatingIfNeeded: hashValue) }
}
