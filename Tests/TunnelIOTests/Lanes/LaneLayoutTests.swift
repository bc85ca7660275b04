// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import TunnelIO

@Suite("A lane layout")
struct LaneLayoutTests {
    @Test(
        "A layout is read from its name; the number of workers of earlier versions is ignored",
        arguments: [
            ("auto", LaneLayout.automatic), ("server", .server), ("1", .single), ("2", .perDirection),
            ("3", .many(lanes: 3)), ("64", .many(lanes: 64)), ("1+2", .many(lanes: 1)), ("2+0", .many(lanes: 2)),
            ("4+2", .many(lanes: 4)), ("64+64", .many(lanes: 64)),
        ])
    func names(_ text: String, _ layout: LaneLayout) {
        #expect(LaneLayout(text) == layout)
    }

    @Test(
        "Other names are refused",
        arguments: [
            "", "0", "65", "-1", "+1", "1+", "+", "1+65", "1+1+1", "one", "Auto", " 1", "1 ", "001",
            "99999999999999999999",
            "²", "1.5", "0+1", "auto+1", "server+1", "servers",
        ])
    func notNames(_ text: String) {
        #expect(LaneLayout(text) == nil)
    }

    @Test(
        "A client has one thread on one or two cores, otherwise two; a server has a lane for each of 4 to 16 cores",
        arguments: [
            (1, LaneLayout.single, LaneLayout.single), (2, .single, .single), (3, .perDirection, .perDirection),
            (4, .perDirection, .many(lanes: 4)), (8, .perDirection, .many(lanes: 8)),
            (16, .perDirection, .many(lanes: 16)), (64, .perDirection, .many(lanes: 16)),
        ])
    func rule(_ cores: Int, _ client: LaneLayout, _ server: LaneLayout) {
        #expect(LaneLayout.automatic.resolved(cores: cores) == client)
        #expect(LaneLayout.server.resolved(cores: cores) == server)
    }

    @Test("A server needs queues on a machine with at least four cores")
    func queues() {
        let cores = ProcessorCount.forLanes()
        #expect(cores >= 1)
        #expect(LaneLayout.server.needsQueues == (cores >= 4))
        #expect(!LaneLayout.automatic.needsQueues && !LaneLayout.perDirection.needsQueues)
        #expect(LaneLayout.many(lanes: 2).needsQueues && !LaneLayout.many(lanes: 1).needsQueues)
    }

    @Test("A requested layout is used within its bounds")
    func bounds() {
        for layout in [LaneLayout.single, .perDirection, .many(lanes: 5)] {
            #expect(layout.resolved(cores: 1) == layout)
        }
        #expect(LaneLayout.many(lanes: 1).resolved(cores: 8) == .single)
        #expect(LaneLayout.many(lanes: 0).resolved(cores: 2) == .single)
        #expect(LaneLayout.many(lanes: .max).resolved(cores: 2) == .many(lanes: 64))
    }

    @Test("A layout is limited to a number of queues, and is the automatic one if there is one queue")
    func limited() {
        for layout in [LaneLayout.automatic, .single, .perDirection] { #expect(layout.limited(to: 1) == layout) }
        #expect(LaneLayout.many(lanes: 4).limited(to: 16) == .many(lanes: 4))
        #expect(LaneLayout.many(lanes: 4).limited(to: 3) == .many(lanes: 3))
        for count in [1, 0, -1] { #expect(LaneLayout.many(lanes: 4).limited(to: count) == .automatic) }
        #expect(LaneLayout.server.resolved(cores: 8).limited(to: 2) == .many(lanes: 2))
    }
}
