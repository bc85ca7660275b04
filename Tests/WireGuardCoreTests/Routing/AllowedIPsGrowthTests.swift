// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@testable import WireGuardCore

@Suite("Growth of the table of allowed IPs")
struct AllowedIPsGrowthTests {
    private typealias Trie = AllowedIPsTrie<UInt32>

    /// The progress of a trie's growth.
    private struct Progress {
        var capacity: Int
        /// The nodes that are not in the larger block yet; all of them if there is none.
        var uncopied: Int
        /// The slots that the next directory has; `nil` if there is none.
        var filled: Int?
        /// The slots that the next directory does not have yet.
        var unfilled = 0

        init(_ trie: borrowing Trie) {
            capacity = trie.capacity
            uncopied = unsafe trie.larger == nil ? trie.usedNodes : trie.usedNodes - trie.copiedNodes
            filled = trie.next?.filledCount
            if let next = trie.next { unfilled = next.slotCount - next.filledCount }
        }
    }

    private func keys(_ count: Int, isDense: Bool) -> [UInt32] {
        var random = SeededGenerator(seed: 0xa1)
        var keys: Set<UInt32> = []
        if isDense { return (0..<UInt32(count)).map { 0x0a00_0000 + $0 } }
        while keys.count < count { keys.insert(UInt32(truncatingIfNeeded: random.next())) }
        return keys.sorted { $0 &* 0x9e37_79b1 < $1 &* 0x9e37_79b1 }
    }

    @Test(
        "An insertion into a large table copies at most 40 nodes and fills at most 4 slots, and all are found at any time",
        arguments: [false, true])
    func steps(isDense: Bool) {
        var trie = Trie()
        let keys = keys(70_000, isDense: isDense)
        var (growths, directories, tooMuch, wrong) = (0, 0, 0, 0)
        for (number, key) in keys.enumerated() {
            let before = Progress(trie)
            _ = trie.insert(key, length: 32, peer: Int32(number))
            let after = Progress(trie)
            if trie.capacity > 2 * Trie.standardMostAtOnce {
                // Nothing but the nodes of this step was left when the larger block came into use.
                let isReplaced = after.capacity != before.capacity
                if isReplaced { growths += 1 }
                if isReplaced && before.uncopied > Trie.copiedPerChange { tooMuch += 1 }
                if !isReplaced && trie.copiedNodes > 0 && before.uncopied - after.uncopied > Trie.copiedPerChange {
                    tooMuch += 1
                }
            }
            if let filled = before.filled {
                if let now = after.filled {
                    if now - filled > Trie.slotsPerChange { tooMuch += 1 }
                } else {
                    directories += 1
                    if before.unfilled > Trie.slotsPerChange { tooMuch += 1 }
                }
            }
            // The newest, the oldest and one between them.
            for place in [number, 0, number / 2] where trie.lookup(keys[place]) != Int32(place) { wrong += 1 }
        }
        #expect(growths >= 5 && directories >= 5 && tooMuch == 0 && wrong == 0)
        #expect(trie.retired.count == 2)
        for (number, key) in keys.enumerated() where trie.lookup(key) != Int32(number) { wrong += 1 }
        let isGrowing = trie.isGrowing
        #expect(isGrowing)
        while trie.isGrowing { trie.continueGrowth(changes: 100) }
        for (number, key) in keys.enumerated() where trie.lookup(key) != Int32(number) { wrong += 1 }
        #expect(wrong == 0)
    }

    @Test("The removal of the last entry keeps large memory for the owner, and releases small memory")
    func lastRemoval() {
        var trie = Trie()
        _ = trie.insert(0x0a00_0000, length: 32, peer: 0)
        trie.removeAll(of: 0)
        #expect(trie.retired.isEmpty)
        for key in 0..<5_000 as Range<UInt32> { _ = trie.insert(key, length: 32, peer: 1) }
        trie.removeAll(of: 1, atMost: 4_999)
        #expect(trie.retired.count == 2)
        weak let earlier = trie.retired.last
        trie.removeAll(of: 1)
        #expect(trie.retired.count == 2 && earlier != nil)
        #expect(trie.capacity == Trie.initialCapacity && trie.count == 0 && trie.lookup(1) == -1)
        trie.retired = []
        #expect(earlier == nil)
        #expect(trie.insert(1, length: 32, peer: 2) == nil)
        #expect(trie.lookup(1) == 2)
    }

    @Test("Removals and wider networks during the growth have the same result as after it")
    func changesMeanwhile() {
        var growing = Trie(mostAtOnce: 0)
        var whole = Trie(mostAtOnce: .max)
        var random = SeededGenerator(seed: 0xa2)
        var wrong = 0
        for round in 0..<20_000 {
            let length = [8, 16, 20, 24, 28, 32, 32, 32][random.int(in: 0..<8)]
            let bits = Trie.masked(0x0a00_0000 | UInt32(truncatingIfNeeded: random.next()) >> 12, length)
            let peer = Int32(random.int(in: 0..<50))
            if round % 4_000 < 3_000 {
                if growing.insert(bits, length: length, peer: peer) != whole.insert(bits, length: length, peer: peer) {
                    wrong += 1
                }
            } else if growing.removeAll(of: peer, atMost: 3) != whole.removeAll(of: peer, atMost: 3) {
                wrong += 1
            }
            let key = 0x0a00_0000 | UInt32(truncatingIfNeeded: random.next()) >> 12
            if growing.lookup(key) != whole.lookup(key) { wrong += 1 }
        }
        #expect(wrong == 0)
        #expect(growing.count == whole.count)
        #expect(growing.nodeCount == whole.nodeCount)
    }
}
