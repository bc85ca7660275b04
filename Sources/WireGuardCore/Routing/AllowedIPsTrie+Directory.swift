// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension AllowedIPsTrie {
    /// A slot of the directory.
    struct Slot {
        /// The first node below the slot, which is at least as long as the depth; -1 if there is none.
        var root: Int32
        /// The longest shorter entry that covers the slot; -1 if there is none.
        var cover: Int32
    }

    /// Shortcuts into the trie. The trie owns the memory of the slots.
    @safe
    struct Directory {
        private let slots: UnsafeMutablePointer<Slot>
        let bits: Int
        let region: Key
        let regionLength: Int
        /// The number of slots that are filled, from the first one on.
        private(set) var filledCount = 0

        /// A directory without a filled slot. The region has `regionLength` bits.
        init(region: Key = 0, regionLength: Int = 0, bits: Int = 0) {
            (self.region, self.regionLength, self.bits) = (region, regionLength, bits)
            unsafe slots = .allocate(capacity: 1 << bits)
        }

        func deallocate() { unsafe slots.deallocate() }

        /// The memory, which the caller releases.
        var block: UnsafeMutableRawPointer { unsafe UnsafeMutableRawPointer(slots) }

        var slotCount: Int { 1 << bits }
        var depth: Int { regionLength + bits }

        /// A slot, which must be filled.
        @inline(__always)
        subscript(slot: Int) -> Slot {
            get { unsafe slots[slot] }
            nonmutating set { unsafe slots[slot] = newValue }
        }

        /// Fills the next slot.
        mutating func append(_ slot: Slot) {
            unsafe slots[filledCount] = slot
            filledCount += 1
        }

        /// Whether a key is inside the region.
        @inline(__always)
        func contains(_ key: Key) -> Bool { (key ^ region).leadingZeroBitCount >= regionLength }

        /// The slot of a key inside the region.
        @inline(__always)
        func index(of key: Key) -> Int {
            // Use two shifts: a single shift by the full width, needed without a directory, would be a special case.
            let aligned = (key &<< Key(truncatingIfNeeded: regionLength)) &>> 1
            return Int(truncatingIfNeeded: aligned &>> Key(truncatingIfNeeded: Key.bitWidth &- 1 &- bits))
        }

        /// The first key of a slot.
        func key(of slot: Int) -> Key {
            region | Key(truncatingIfNeeded: slot) << Key(truncatingIfNeeded: Key.bitWidth - depth)
        }

        /// Whether a prefix is inside the region and at least as long as the depth.
        func isBelowSlot(_ bits: Key, _ length: Int) -> Bool { length >= depth && contains(bits) }

        /// The filled slots that a shorter prefix covers: all, a contiguous range, or none.
        func covered(by bits: Key, _ length: Int) -> Range<Int> {
            guard length < depth, (bits ^ region).leadingZeroBitCount >= min(length, regionLength) else { return 0..<0 }
            guard length > regionLength else { return 0..<filledCount }
            let first = index(of: bits)
            return (first..<(first + 1 << (depth - length))).clamped(to: 0..<filledCount)
        }
    }

    // MARK: - Changes of the trie

    /// Replaces the first node of a slot in both directories, if `node` is the first one of a slot by its links.
    func noteFirst(_ node: Int32, replacement: Int32) {
        noteFirst(node, replacement: replacement, in: directory)
        if let next { noteFirst(node, replacement: replacement, in: next) }
    }

    private func noteFirst(_ node: Int32, replacement: Int32, in directory: Directory) {
        let (bits, length, parent) = (self[node].bits, Int(self[node].length), self[node].parent)
        guard directory.isBelowSlot(bits, length) else { return }
        guard parent < 0 || Int(self[parent].length) < directory.depth else { return }
        let slot = directory.index(of: bits)
        if slot < directory.filledCount { directory[slot].root = replacement }
    }

    /// Records a new entry in the slots in which it is the longest cover.
    func noteCover(_ entry: Int32) {
        noteCover(entry, in: directory)
        if let next { noteCover(entry, in: next) }
    }

    private func noteCover(_ entry: Int32, in directory: Directory) {
        let length = self[entry].length
        for slot in directory.covered(by: self[entry].bits, Int(length)) {
            let cover = directory[slot].cover
            if cover < 0 || self[cover].length < length { directory[slot].cover = entry }
        }
    }

    /// Removes an entry, which is still linked, from the slots that it covers. The next longest entry replaces it.
    func forgetCover(_ entry: Int32) {
        var heir = self[entry].parent
        while heir >= 0, self[heir].peer < 0 { heir = self[heir].parent }
        forgetCover(entry, heir: heir, in: directory)
        if let next { forgetCover(entry, heir: heir, in: next) }
    }

    private func forgetCover(_ entry: Int32, heir: Int32, in directory: Directory) {
        for slot in directory.covered(by: self[entry].bits, Int(self[entry].length))
        where directory[slot].cover == entry {
            directory[slot].cover = heir
        }
    }

    // MARK: - The next directory

    /// Begins a directory for the present entries.
    mutating func planDirectory() {
        plannedCount = count
        let planned = plan()
        next = planned
        if planned.slotCount <= mostAtOnce { fillSlots(atMost: planned.slotCount) }
    }

    /// Fills slots of the next directory, and uses that directory when it has all of them.
    mutating func fillSlots(atMost most: Int) {
        guard var filling = next else { return }
        let end = min(filling.filledCount + most, filling.slotCount)
        while filling.filledCount < end { filling.append(slot(filling.filledCount, of: filling)) }
        next = filling
        guard end == filling.slotCount else { return }
        unsafe retire(directory.block, isLarge: directory.slotCount > mostAtOnce)
        (directory, next) = (filling, nil)
    }

    /// Finds the content of a slot of another directory.
    private func slot(_ number: Int, of other: Directory) -> Slot {
        let (key, depth) = (other.key(of: number), other.depth)
        // The present directory leads to the same nodes if it is not deeper.
        var found =
            directory.depth <= depth && directory.contains(key)
            ? directory[directory.index(of: key)] : Slot(root: root, cover: -1)
        while found.root >= 0 {
            let node = self[found.root]
            let length = Int(node.length)
            guard (key ^ node.bits).leadingZeroBitCount >= min(length, depth) else {
                found.root = -1
                break
            }
            if length >= depth { break }
            if node.peer >= 0 { found.cover = found.root }
            found.root = Self.side(of: key, after: length) == 0 ? node.children.0 : node.children.1
        }
        return found
    }

    /// A directory whose region is the longest prefix that contains 15 of 16 entries of a sample, with about one slot per
    /// entry inside the region.
    private func plan() -> Directory {
        guard count >= Self.directoryThreshold else { return Directory() }
        var sample: [(bits: Key, length: Int)] = []
        // An odd number, so that the sample does not follow the pattern of entries and reserved branches.
        let stride = usedNodes / 512 | 1
        for node in Swift.stride(from: Int32(0), to: Int32(usedNodes), by: stride)
        where self[node].length != Self.freeMark && self[node].peer >= 0 {
            sample.append((self[node].bits, Int(self[node].length)))
        }
        let wanted = max(sample.count - sample.count / 16, 1)
        var (region, length): (Key, Int) = (0, 0)
        while length < Key.bitWidth - 8 {
            var counts = (0, 0)
            for entry in sample where entry.length > length && (entry.bits ^ region).leadingZeroBitCount >= length {
                if Self.side(of: entry.bits, after: length) == 0 { counts.0 += 1 } else { counts.1 += 1 }
            }
            guard max(counts.0, counts.1) >= wanted else { break }
            if counts.1 > counts.0 { region |= 1 << Key(truncatingIfNeeded: Key.bitWidth - 1 - length) }
            length += 1
        }
        let magnitude = Int.bitWidth - 1 - count.leadingZeroBitCount
        let bits = min(magnitude + 1, Self.maximumDirectoryBits, Key.bitWidth - max(length, 1))
        return Directory(region: region, regionLength: length, bits: bits)
    }
}
