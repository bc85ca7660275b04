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

    /// The pauses after 100 losses, each some time after the firewall was in effect again.
    private func pauses(interval: Int64) -> [Int64] {
        var losses = LossBackoff()
        return (0..<Int64(100)).map { number in
            losses.recordLoss(at: number * interval)
            losses.recordInEffect(at: number * interval)
            return losses.pause
        }
    }

    @Test("Losses that are a minute apart cause no pause")
    func minutes() {
        #expect(pauses(interval: 60 * Self.second).allSatisfy { $0 == 0 })
    }

    @Test("Losses that are at most ten seconds apart lead to longer and longer pauses", arguments: [100, 1000, 10_000])
    func seconds(milliseconds: Int64) {
        let pauses = pauses(interval: milliseconds * Self.second / 1000)
        #expect(pauses == pauses.sorted() && pauses.last == 32 * Self.second)
    }

    @Test("Each quarter of a minute in effect takes one loss off the series")
    func decays() {
        var losses = LossBackoff()
        for _ in 0..<100 {
            losses.recordLoss(at: 0)
            losses.recordInEffect(at: 0)
        }
        #expect(losses.count == LossBackoff.most)
        losses.recordLoss(at: 4 * LossBackoff.decay - 1)
        losses.recordInEffect(at: 4 * LossBackoff.decay)
        #expect(losses.count == LossBackoff.most - 3 + 1)
        losses.recordLoss(at: 104 * LossBackoff.decay)
        #expect(losses.count == 1)
    }
}
