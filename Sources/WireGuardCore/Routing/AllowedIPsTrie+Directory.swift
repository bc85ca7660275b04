// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension AllowedIPsTrie {
    // MARK: - Position of a prefix

    /// The directory slot of a key inside the region.
    @inline(__always)
    func slotIndex(_ key: Key) -> Int {
        // Use two shifts: a single shift by the full width, needed without a directory, would be a special case.
        let aligned = (key &<< Key(truncatingIfNeeded: regionLength)) &>> 1
        return Int(truncatingIfNeeded: aligned &>> Key(truncatingIfNeeded: Key.bitWidth &- 1 &- directoryBits))
    }

    private func isBelowSlot(_ bits: Key, _ length: Int) -> Bool {
        length >= regionLength + directoryBits && (bits ^ region).leadingZeroBitCount >= regionLength
    }

    /// The root of the trie for a prefix; -1 if that trie is empty.
    func top(for bits: Key, _ length: Int) -> Int32 {
        isBelowSlot(bits, length) ? unsafe slots[slotIndex(bits)].root : mainRoot
    }

    mutating func setTop(for bits: Key, _ length: Int, to node: Int32) {
        if isBelowSlot(bits, length) {
            unsafe slots[slotIndex(bits)].root = node
        } else {
            mainRoot = node
        }
    }

    // MARK: - Covers

    /// The slots that a prefix of the main trie covers: all, a contiguous range, or none.
    private func coveredSlots(_ bits: Key, _ length: Int) -> Range<Int> {
        guard !isBelowSlot(bits, length),
            (bits ^ region).leadingZeroBitCount >= min(length, regionLength)
        else { return 0..<0 }
        guard length > regionLength else { return 0..<(1 << directoryBits) }
        let first = slotIndex(bits)
        return first..<(first + 1 << (regionLength + directoryBits - length))
    }

    /// Records a new entry of the main trie in the slots in which it is the longest.
    func noteCover(_ entry: Int32) {
        let length = self[entry].length
        for slot in coveredSlots(self[entry].bits, Int(length)) {
            let cover = unsafe slots[slot].cover
            if cover < 0 || self[cover].length < length { unsafe slots[slot].cover = entry }
        }
    }

    /// Removes an entry of the main trie, which is still linked, from its slots. The next longest entry replaces it.
    func forgetCover(_ entry: Int32) {
        let covered = coveredSlots(self[entry].bits, Int(self[entry].length))
        guard !covered.isEmpty else { return }
        var heir = self[entry].parent
        while heir >= 0, self[heir].peer < 0 { heir = self[heir].parent }
        for slot in covered where unsafe slots[slot].cover == entry {
            unsafe slots[slot].cover = heir
        }
    }

    // MARK: - Layout

    /// Chooses the region and the size of the directory for the present entries, and links every entry again.
    ///
    /// Entries keep their node, so the peers' lists do not change.
    mutating func layOutDirectory() {
        plannedCount = count
        planRegion()
        unsafe slots.deallocate()
        unsafe slots = .allocate(capacity: 1 << directoryBits)
        unsafe slots.initialize(repeating: Slot(root: -1, cover: -1), count: 1 << directoryBits)
        mainRoot = -1

        let all = Int32(usedNodes)
        for node in 0..<all where self[node].length != Self.freeMark {
            if self[node].peer < 0 {
                giveBack(node)
            } else {
                self[node].children = (-1, -1)
                self[node].parent = -1
            }
        }
        for node in 0..<all where self[node].length != Self.freeMark && self[node].peer >= 0 {
            let place = link(node)
            if place != node { substitute(node, for: place) }
        }
        for node in 0..<all where self[node].length != Self.freeMark && self[node].peer >= 0 {
            noteCover(node)
        }
    }

    /// Replaces the branch with the same prefix by an entry.
    private mutating func substitute(_ entry: Int32, for branch: Int32) {
        relink(branch, to: entry)
        let children = self[branch].children
        adopt(children.0, by: entry)
        adopt(children.1, by: entry)
        giveBack(branch)
    }

    /// Sets the region to the longest prefix that contains 15 of 16 entries of a sample, and the size of the directory
    /// to about one slot per entry inside the region.
    private mutating func planRegion() {
        (region, regionLength, directoryBits) = (0, 0, 0)
        guard count >= Self.directoryThreshold else { return }
        var sample: [(bits: Key, length: Int)] = []
        let stride = max(1, usedNodes / 2_048)
        for node in Swift.stride(from: Int32(0), to: Int32(usedNodes), by: stride)
        where self[node].length != Self.freeMark && self[node].peer >= 0 {
            sample.append((self[node].bits, Int(self[node].length)))
        }
        let wanted = sample.count - sample.count / 16
        while regionLength < Key.bitWidth - 8 {
            let longer = sample.filter { $0.length > regionLength }
            let ones = longer.count { Self.side(of: $0.bits, after: regionLength) == 1 }
            let side = ones * 2 > longer.count ? 1 : 0
            guard max(ones, longer.count - ones) >= max(wanted, 1) else { break }
            sample = longer.filter { Self.side(of: $0.bits, after: regionLength) == side }
            if side == 1 { region |= 1 << Key(truncatingIfNeeded: Key.bitWidth - 1 - regionLength) }
            regionLength += 1
        }
        let magnitude = Int.bitWidth - 1 - count.leadingZeroBitCount
        directoryBits = min(magnitude + 1, Self.maximumDirectoryBits, Key.bitWidth - max(regionLength, 1))
    }
}
