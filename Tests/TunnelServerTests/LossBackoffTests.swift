// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import TunnelServer

@Suite("The pause after losses of the firewall")
struct LossBackoffTests {
    private static let second: Int64 = 1_000_000_000

    @Test("The first losses of a series cause no pause, and each later one doubles the pause, up to its limit")
    func doubles() {
        var losses = LossBackoff()
        var pauses: [Int64] = []
        for number in 0..<10 {
            let now = Int64(number) * Self.second / 10
            losses.recordLoss(at: now)
            #expect(losses.remaining(at: now) == nil)
            losses.recordInEffect(at: now)
            pauses.append(losses.remaining(at: now).map { $0 / Self.second } ?? -1)
        }
        #expect(pauses == [0, 0, 1, 2, 4, 8, 16, 32, 32, 32])
    }

    @Test("A loss during a pause restarts it, and calls before the next restoration count as one loss")
    func restarts() {
        var losses = LossBackoff()
        for _ in 0..<3 {
            for _ in 0..<5 { losses.recordLoss(at: 0) }
            losses.recordInEffect(at: 0)
        }
        #expect(losses.count == 3)
        losses.recordInEffect(at: Self.second / 2)
        #expect(losses.remaining(at: Self.second / 2) == Self.second / 2)
        losses.recordLoss(at: Self.second * 3 / 4)
        #expect(losses.remaining(at: Self.second * 3 / 4) == nil)
        losses.recordInEffect(at: Self.second)
        #expect(losses.remaining(at: Self.second) == 2 * Self.second)
        #expect(losses.remaining(at: 3 * Self.second) == 0)
    }

    @Test("A series ends after a minute without a loss")
    func forgets() {
        var losses = LossBackoff()
        for _ in 0..<9 {
            losses.recordLoss(at: 0)
            losses.recordInEffect(at: 0)
        }
        losses.recordLoss(at: LossBackoff.memory - 1)
        losses.recordInEffect(at: LossBackoff.memory - 1)
        #expect(losses.remaining(at: LossBackoff.memory) != 0)
        losses.recordLoss(at: 2 * LossBackoff.memory)
        losses.recordInEffect(at: 2 * LossBackoff.memory)
        #expect(losses.count == 1 && losses.remaining(at: 2 * LossBackoff.memory) == 0)
    }
}
