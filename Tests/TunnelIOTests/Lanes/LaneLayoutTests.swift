// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import TunnelIO

@Suite("A lane layout")
struct LaneLayoutTests {
    @Test(
        "A layout is read from its name",
        arguments: [
            ("auto", LaneLayout.automatic), ("1", .single), ("2", .perDirection), ("3", .many(lanes: 3, workers: 0)),
            ("64", .many(lanes: 64, workers: 0)), ("1+2", .many(lanes: 1, workers: 2)),
            ("2+0", .many(lanes: 2, workers: 0)), ("64+64", .many(lanes: 64, workers: 64)),
        ])
    func names(_ text: String, _ layout: LaneLayout) {
        #expect(LaneLayout(text) == layout)
    }

    @Test(
        "Other names are refused",
        arguments: [
            "", "0", "65", "-1", "+1", "1+", "+", "1+65", "1+1+1", "one", "Auto", " 1", "1 ", "001",
            "99999999999999999999",
            "²", "1.5", "0+1", "auto+1",
        ])
    func notNames(_ text: String) {
        #expect(LaneLayout(text) == nil)
    }

    @Test("Automatic is one thread on one and two cores, and one for each direction on more")
    func automatic() {
        #expect(LaneLayout.automatic.resolved(cores: 1) == .single)
        #expect(LaneLayout.automatic.resolved(cores: 2) == .single)
        #expect(LaneLayout.automatic.resolved(cores: 3) == .perDirection)
        #expect(LaneLayout.automatic.resolved(cores: 128) == .perDirection)
        #expect(ProcessorCount.forLanes() >= 1)
    }

    @Test("A requested layout is used within its bounds")
    func bounds() {
        for layout in [LaneLayout.single, .perDirection, .many(lanes: 5, workers: 3)] {
            #expect(layout.resolved(cores: 1) == layout)
        }
        #expect(LaneLayout.many(lanes: 0, workers: -1).resolved(cores: 2) == .many(lanes: 1, workers: 0))
        #expect(LaneLayout.many(lanes: .max, workers: .max).resolved(cores: 2) == .many(lanes: 64, workers: 64))
        #expect(LaneLayout.many(lanes: 2, workers: 0).needsQueues)
        #expect(!LaneLayout.many(lanes: 1, workers: 9).needsQueues && !LaneLayout.perDirection.needsQueues)
    }

    @Test("A layout is limited to the available memory")
    func limited() {
        #expect(
            LaneLayout.automatic.limited(to: 1) == .automatic && LaneLayout.perDirection.limited(to: 1) == .perDirection
        )
        #expect(LaneLayout.many(lanes: 4, workers: 0).limited(to: 3) == .many(lanes: 3, workers: 0))
        #expect(LaneLayout.many(lanes: 4, workers: 2).limited(to: 9) == .many(lanes: 2, workers: 2))
        #expect(LaneLayout.many(lanes: 4, workers: 2).limited(to: 3) == .many(lanes: 3, workers: 0))
        #expect(LaneLayout.many(lanes: 4, workers: 2).limited(to: 16) == .many(lanes: 4, workers: 2))
        #expect(LaneLayout.many(lanes: 4, workers: 2).limited(to: 0) == .many(lanes: 1, workers: 0))
    }
}
