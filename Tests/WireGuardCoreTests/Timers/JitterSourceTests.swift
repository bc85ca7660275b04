// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import WireGuardCore

@Suite("Jitter")
struct JitterSourceTests {
    @Test("Every value from zero to the bound comes up, about as often as any other")
    func evenSpread() {
        var source = JitterSource(seed: 7)
        var counts = [Int](repeating: 0, count: 10)
        for _ in 0..<100_000 { counts[Int(source.next(upTo: 9))] += 1 }
        #expect(counts.allSatisfy { (9_500...10_500).contains($0) })
    }

    @Test("A bound of zero or less gives zero")
    func noRoom() {
        var source = JitterSource(seed: 1)
        #expect(source.next(upTo: 0) == 0)
        #expect(source.next(upTo: -5) == 0)
    }

    @Test("Seeds have separate sequences")
    func seeds() {
        var (first, second) = (JitterSource(seed: 1), JitterSource(seed: 2))
        let bound = TimerConstants.maximumJitter
        #expect((0..<8).map { _ in first.next(upTo: bound) } != (0..<8).map { _ in second.next(upTo: bound) })
    }
}
