// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@testable import WireGuardCore

private let limit = ReplayWindow.rejectAfterMessages
private let window = ReplayWindow.size
private let past = window + 1

@Suite("Replay window")
struct ReplayWindowTests {
    @Test("Limits are those of the protocol")
    func constants() {
        #expect(window == 8_128)
        #expect(limit == 18_446_744_073_709_543_423)
    }

    @Test("Counters around the window's edges and the message limit follow the step table")
    func steps() {
        let steps: [(counter: UInt64, isAccepted: Bool)] = [
            (0, true), (1, true), (1, false), (9, true), (8, true), (7, true), (7, false),
            (past, true), (past - 1, true), (past - 1, false), (past - 2, true), (2, true), (2, false),
            (past + 16, true), (3, false), (past + 16, false),
            (past * 4, true), (past * 4 - (past - 1), true), (10, false), (past * 4 - past, false),
            (past * 4 - (past + 1), false), (past * 4 - (past - 2), true), (past * 4 + 1 - past, false), (0, false),
            (limit, false), (limit - 1, true), (limit, false), (limit - 1, false), (limit - 2, true),
            (limit + 1, false), (limit + 2, false), (limit - 2, false), (limit - 3, true), (0, false),
        ]
        #expect(steps.count == 34)
        var replay = ReplayWindow()
        for (number, step) in steps.enumerated() {
            #expect(replay.mayAccept(step.counter) == step.isAccepted, "step \(number)")
            #expect(replay.accept(step.counter) == step.isAccepted, "step \(number)")
            #expect(replay.mayAccept(step.counter) == false)
        }
    }

    @Test("Counters that ascend from 1 over the whole window are accepted, and then 0 once")
    func ascendingFromOne() {
        var replay = ReplayWindow()
        #expect((1...window).allSatisfy { replay.accept($0) })
        #expect(replay.accept(0) == true)
        #expect(replay.accept(0) == false)
    }

    @Test("Ascending from 2, then 1 fits and 0 does not")
    func ascendingFromTwo() {
        var replay = ReplayWindow()
        #expect((2...window + 1).allSatisfy { replay.accept($0) })
        #expect(replay.accept(1) == true)
        #expect(replay.accept(0) == false)
    }

    @Test("Counters that descend over the whole window are accepted")
    func descending() {
        var replay = ReplayWindow()
        #expect((1...window + 1).reversed().allSatisfy { replay.accept($0) })
    }

    @Test("Descending to 2, then 0 does not fit")
    func descendingToTwo() {
        var replay = ReplayWindow()
        #expect((2...window + 2).reversed().allSatisfy { replay.accept($0) })
        #expect(replay.accept(0) == false)
    }

    @Test("Descending to 1, then one past the start")
    func descendingThenAhead() {
        var replay = ReplayWindow()
        #expect((1...window).reversed().allSatisfy { replay.accept($0) })
        #expect(replay.accept(window + 1) == true)
    }

    @Test("Descending to 1, then 0, then one past the start")
    func descendingThenZeroThenAhead() {
        var replay = ReplayWindow()
        #expect((1...window).reversed().allSatisfy { replay.accept($0) })
        #expect(replay.accept(0) == true)
        #expect(replay.accept(window + 1) == true)
    }

    @Test("Jumps of every size near multiples of a word and of the ring clear the skipped counters")
    func jumps() {
        for jump in [63, 64, 65, 8_127, 8_128, 8_129, 8_191, 8_192, 8_193, 16_384, 1 << 40] as [UInt64] {
            for start in [0, 1, 63, 64, 8_191, 8_192] as [UInt64] {
                var replay = ReplayWindow()
                for counter in start..<start + 130 { #expect(replay.accept(counter) == true) }
                let ahead = start + 129 + jump
                #expect(replay.accept(ahead) == true)
                #expect(replay.accept(ahead) == false)
                let oldest = ahead - min(ahead, window)
                #expect(replay.mayAccept(oldest) == (oldest >= start + 130 || oldest < start))
                if oldest > 0 { #expect(replay.mayAccept(oldest - 1) == false) }
                // Each skipped counter is accepted once.
                if jump > 1 {
                    #expect(replay.accept(ahead - 1) == true)
                    #expect(replay.accept(ahead - 1) == false)
                }
            }
        }
    }

    @Test("Random counters agree with a set that remembers everything", arguments: [1, 2, 3, 4] as [UInt64])
    func random(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var replay = ReplayWindow()
        var seen: Set<UInt64> = []
        var highest: UInt64 = 0
        var differences = 0
        for _ in 0..<20_000 {
            let reach = random.chance(0.01) ? 20_000 : random.chance(0.1) ? 9_000 : 100
            let offset = random.int(in: -reach...reach / 2)
            let counter = UInt64(max(0, Int(highest) + offset))
            let expected = !seen.contains(counter) && (counter > highest || highest - counter <= window)
            if replay.mayAccept(counter) != expected || replay.accept(counter) != expected { differences += 1 }
            if expected {
                seen.insert(counter)
                highest = max(highest, counter)
            }
        }
        #expect(differences == 0)
        #expect(seen.count > 1_000)
    }
}
