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
        var table = SteppedTable<Int32>()
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
            for (slot, hash) in expected where table.value(hash: hash, where: { $0 == slot }) != slot {
                missing += 1
            }
            for slot in free where table.value(hash: 0, where: { $0 == slot }) != nil { missing += 1 }
            #expect(missing == 0)
        }
    }

    @Test("Each addition moves at most 16 positions and prepares at most 32, and none is left when the table grows")
    func steps() {
        var random = SeededGenerator(seed: 1)
        var table = SteppedTable<Int32>()
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
            if table.value(hash: hashes[0], where: { $0 == 0 }) != 0 { unfinished += 1 }
        }
        #expect(growths >= 10 && unfinished == 0)
        #expect(most == SteppedTable<Int32>.step && mostPrepared == 2 * SteppedTable<Int32>.step)
        var missing = 0
        for slot in hashes.indices where table.value(hash: hashes[slot], where: { $0 == slot }) != Int32(slot) {
            missing += 1
        }
        #expect(missing == 0 && table.remaining > 0)
    }

    @Test("A value with another hash is not removed")
    func otherHash() {
        var table = SteppedTable<Int32>()
        table.insert(3, hash: 5)
        #expect(table.remove(hash: 6) { $0 == 3 } == nil)
        #expect(table.remove(hash: 5) { $0 == 4 } == nil)
        #expect(table.count == 1)
        #expect(table.value(hash: 5) { $0 == 3 } == 3)
        #expect(table.value(hash: 5) { _ in false } == nil)
        #expect(table.remove(hash: 5) { $0 == 3 } == 3)
        #expect(table.count == 0 && table.capacity == 8)
    }

    private final class Object {}

    @Test("Objects are released when they leave the table, from either part of it, and with the table")
    func objects() throws {
        weak var first: Object?
        weak var last: Object?
        weak var kept: Object?
        do {
            var table = SteppedTable<Object>()
            // After this growth, only some of the entries are moved.
            for hash in 0..<33 as Range<UInt32> {
                let object = Object()
                if hash == 0 { first = object }
                if hash == 31 { last = object }
                if hash == 30 { kept = object }
                table.insert(object, hash: hash &* 2)
            }
            #expect(table.remaining > 0)
            table.remove(hash: 0) { _ in true }
            table.remove(hash: 62) { _ in true }
            #expect(first == nil && last == nil && kept != nil)
        }
        #expect(kept == nil)
    }
}
