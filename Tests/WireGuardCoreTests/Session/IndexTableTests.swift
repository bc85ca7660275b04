// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@testable import WireGuardCore

/// Hands out numbers from a list, then zeros forever.
private struct ScriptedGenerator: RandomNumberGenerator {
    var numbers: [UInt64]
    mutating func next() -> UInt64 { numbers.isEmpty ? 0 : numbers.removeFirst() }
}

@Suite("Index table")
struct IndexTableTests {
    @Test("An index leads to its slot until it is removed")
    func basics() {
        var random = SeededGenerator(seed: 1)
        var table = IndexTable()
        let a = table.insert(1, using: &random)
        let b = table.insert(3, using: &random)
        #expect(table.count == 2)
        #expect(table[a] == 1)
        #expect(table[b] == 3)
        #expect(table[a &+ 1] == nil)
        #expect(table.remove(a) == 1)
        #expect(table[a] == nil)
        #expect(table.remove(a) == nil)
        #expect(table.count == 1)
    }

    @Test("Indices in use and zero are never drawn")
    func uniqueness() {
        var random = ScriptedGenerator(numbers: [5, 5, 0, 1 << 32, 1 << 32 | 5, 13])
        var table = IndexTable()
        #expect(table.insert(100, using: &random) == 5)
        #expect(table.insert(200, using: &random) == 13)
        #expect(table[0] == nil)
        #expect(table.remove(0) == nil)
        #expect(table[5] == 100)
        #expect(table[13] == 200)
    }

    @Test("Removal from the middle of a run leaves the rest of the run reachable")
    func runs() {
        // All of these want slot 7 of 8 or one just after it, so the run wraps around.
        let indices: [UInt64] = [7, 15, 8, 23]
        for victim in indices {
            var random = ScriptedGenerator(numbers: indices)
            var table = IndexTable()
            for index in indices { #expect(table.insert(Int32(index), using: &random) == UInt32(index)) }
            #expect(table.capacity == 8)
            #expect(table.remove(UInt32(victim)) == Int32(victim))
            for index in indices { #expect(table[UInt32(index)] == (index == victim ? nil : Int32(index))) }
        }
    }

    @Test("Random operations agree with a dictionary", arguments: [10, 11, 12] as [UInt64])
    func againstDictionary(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var table = IndexTable()
        var reference: [UInt32: Int32] = [:]
        var live: [UInt32] = []
        for step in 0..<6_000 {
            let grow = (step / 1_500) % 2 == 0 ? 0.7 : 0.25
            if live.isEmpty || random.chance(grow) {
                let index = table.insert(Int32(step), using: &random)
                #expect(reference.updateValue(Int32(step), forKey: index) == nil)
                live.append(index)
            } else {
                let index = live.remove(at: random.int(in: 0..<live.count))
                #expect(table.remove(index) == reference.removeValue(forKey: index))
            }
            if step % 200 == 0 {
                #expect(table.count == reference.count)
                #expect(reference.allSatisfy { table[$0.key] == $0.value })
            }
            #expect(table.count * 2 <= table.capacity)
        }
        for index in live { table.remove(index) }
        #expect(table.count == 0)
        #expect(table.capacity == 8)
    }

    @Test("Indices are spread evenly over their high and low bytes")
    func distribution() {
        var random = SeededGenerator(seed: 99)
        var table = IndexTable()
        var (high, low) = ([Int](repeating: 0, count: 256), [Int](repeating: 0, count: 256))
        let count = 25_600
        for number in 0..<Int32(count) {
            let index = table.insert(number, using: &random)
            high[Int(index >> 24)] += 1
            low[Int(index & 255)] += 1
        }
        // Chi-squared with 255 degrees of freedom: 99.9 % lie below 331.
        for counts in [high, low] {
            let statistic = counts.reduce(0.0) { $0 + Double(($1 - 100) * ($1 - 100)) / 100 }
            #expect(statistic < 331)
        }
    }

    @Test("An index that was drawn ahead of its slot is not in use until the slot is stored, and then is")
    func drawnAhead() {
        var table = IndexTable()
        var random = SeededGenerator(seed: 6)
        for slot in 0..<100 as Range<Int32> {
            let index = table.freeIndex(using: &random)
            #expect(table[index] == nil)
            table.insert(slot, at: index)
            #expect(table[index] == slot)
            #expect(table.count == Int(slot) + 1)
        }
    }
}
