// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@testable import WireGuardCore

@Suite("Array in blocks")
struct BlockArrayTests {
    @Test("The elements are those of an ordinary array after any additions, removals and changes")
    func againstArray() {
        var random = SeededGenerator(seed: 0xb1)
        var blocks = BlockArray<Int>()
        var expected: [Int] = []
        var wrong = 0
        for round in 0..<20_000 {
            // The array passes the ends of several blocks in both directions.
            if random.chance(round / 5_000 % 2 == 0 ? 0.9 : 0.2) {
                blocks.append(round)
                expected.append(round)
            } else if let last = expected.popLast(), blocks.removeLast() != last {
                wrong += 1
            }
            if !expected.isEmpty {
                let place = random.int(in: 0..<expected.count)
                if blocks[place] != expected[place] { wrong += 1 }
                blocks[place] = -round
                expected[place] = -round
            }
            if blocks.count != expected.count { wrong += 1 }
        }
        #expect(wrong == 0)
        #expect(expected.indices.allSatisfy { blocks[$0] == expected[$0] })
    }

    @Test("Memory grows by one block at a time, and is released with the elements but for one block")
    func memory() {
        var blocks = BlockArray<Int>()
        #expect(blocks.capacity == 0)
        blocks.append(7)
        #expect(blocks.capacity < 16)
        blocks.extend(to: 5_000, with: 7)
        blocks.extend(to: 10, with: 8)
        #expect(blocks.count == 5_000 && blocks.capacity < 5_000 + 4_096)
        #expect(blocks[4_999] == 7)
        for _ in 0..<5_000 { _ = blocks.removeLast() }
        #expect(blocks.count == 0 && blocks.capacity < 2_048)
    }

    @Test(
        "A count that alternates around the end of a block leaves the memory unchanged", arguments: [0, 1_024, 5_120])
    func alternation(_ count: Int) {
        var blocks = BlockArray<Int>()
        blocks.extend(to: count, with: 7)
        blocks.append(8)
        let capacity = blocks.capacity
        for _ in 0..<3 {
            #expect(blocks.removeLast() == 8 && blocks.capacity == capacity)
            blocks.append(8)
            #expect(blocks[count] == 8 && blocks.capacity == capacity)
        }
    }

    @Test("An extension begins and ends at any element of a block", arguments: [0, 1, 1_000, 1_023, 1_024])
    func extends(_ first: Int) {
        for count in [first, first + 1, 1_023, 1_024, 1_025, 3_072, 5_000] {
            var blocks = BlockArray<Int>()
            blocks.extend(to: first, with: 1)
            blocks.extend(to: count, with: 2)
            #expect(blocks.count == max(first, count))
            var sum = 0
            for index in 0..<blocks.count { sum += blocks[index] }
            #expect(sum == first + 2 * (blocks.count - first))
        }
    }
}
