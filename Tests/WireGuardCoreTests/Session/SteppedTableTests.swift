// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@testable import WireGuardCore

@Suite("Hash table that grows in steps")
struct SteppedTableTests {
    @Test(
        "The table agrees with a dictionary in any order of changes, even if many hashes are equal",
        arguments: [1, 16, 4_096, UInt32.max])
    func random(_ mostHash: UInt32) {
        var random = SeededGenerator(seed: UInt64(mostHash))
        var table = SteppedTable()
        var expected: [Int32: UInt32] = [:]
        var free = Array(Int32(0)..<600)
        for round in 0..<6_000 {
            // The table grows, then shrinks to nothing, then grows again.
            let grows = round / 1_500 % 2 == 0
            if random.int(in: 0..<4) == 0 ? !grows : grows, let slot = free.popLast() {
                let hash = UInt32(truncatingIfNeeded: random.next()) % mostHash
                table.insert(slot, hash: hash)
                expected[slot] = hash
            } else if let slot = expected.keys.randomElement(using: &random), let hash = expected[slot] {
                table.remove(hash: hash) { $0 == slot }
                expected[slot] = nil
                free.append(slot)
            }
            guard round % 50 == 0 else { continue }
            #expect(table.count == expected.count)
            var missing = 0
            for (slot, hash) in expected where table.slot(hash: hash, where: { $0 == slot }) != slot {
                missing += 1
            }
            for slot in free where table.slot(hash: 0, where: { $0 == slot }) != nil { missing += 1 }
            #expect(missing == 0)
        }
    }

    @Test("Each addition moves at most 16 positions and prepares at most 32, and none is left when the table grows")
    func steps() {
        var random = SeededGenerator(seed: 1)
        var table = SteppedTable()
        var hashes: [UInt32] = []
        var (growths, most, mostPrepared, unfinished) = (0, 0, 0, 0)
        for slot in Int32(0)..<70_000 {
            let (before, unprepared) = (table.remaining, table.unprepared)
            let hash = UInt32(truncatingIfNeeded: random.next())
            table.insert(slot, hash: hash)
            hashes.append(hash)
            if table.remaining > before {
                growths += 1
                if before > 0 || unprepared > 0 { unfinished += 1 }
            } else {
                most = max(most, before - table.remaining)
                mostPrepared = max(mostPrepared, unprepared - table.unprepared)
            }
            // The oldest entry is the first to be moved.
            if table.slot(hash: hashes[0], where: { $0 == 0 }) != 0 { unfinished += 1 }
        }
        #expect(growths >= 10 && unfinished == 0)
        #expect(most == SteppedTable.step && mostPrepared == 2 * SteppedTable.step)
        var missing = 0
        for slot in hashes.indices where table.slot(hash: hashes[slot], where: { $0 == slot }) != Int32(slot) {
            missing += 1
        }
        #expect(missing == 0 && table.remaining > 0)
    }

    @Test("A slot with another hash is not removed")
    func otherHash() {
        var table = SteppedTable()
        table.insert(3, hash: 5)
        #expect(table.remove(hash: 6) { $0 == 3 } == nil)
        #expect(table.remove(hash: 5) { $0 == 4 } == nil)
        #expect(table.count == 1)
        #expect(table.slot(hash: 5) { $0 == 3 } == 3)
        #expect(table.slot(hash: 5) { _ in false } == nil)
        #expect(table.remove(hash: 5) { $0 == 3 } == 3)
        #expect(table.count == 0 && table.capacity == 8)
    }

    @Test("Large memory that is no longer in use is kept for the owner")
    func retirement() {
        var table = SteppedTable()
        let count = SteppedTable.mostReleased * 4
        for hash in 0..<UInt32(count) {
            if table.capacity <= SteppedTable.mostReleased { #expect(table.retired.isEmpty) }
            table.insert(Int32(hash), hash: hash)
        }
        weak let earlier = table.retired.last
        #expect(!table.retired.isEmpty)
        // In this order, no removal moves other entries.
        for hash in (0..<UInt32(count)).reversed() { table.remove(hash: hash) { _ in true } }
        #expect(table.count == 0 && table.capacity == 8 && table.retired.count == 2 && earlier != nil)
        table.retired = []
        #expect(earlier == nil)
    }

    @Test("A table that is filled and emptied again and again keeps at most two retired tables")
    func cycles() {
        var table = SteppedTable()
        weak var first: RetiredMemory?
        let hashes = 0..<UInt32(SteppedTable.mostReleased)
        for cycle in 0..<4 {
            for hash in hashes { table.insert(Int32(hash), hash: hash) }
            for hash in hashes.reversed() { table.remove(hash: hash) { _ in true } }
            if cycle == 0 {
                first = table.retired.last
                #expect(first != nil)
            }
            #expect(table.retired.count <= 2)
        }
        #expect(first == nil)
    }
}
