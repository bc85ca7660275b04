// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import TunnelIO

@Suite("Lane configuration")
struct LaneConfigurationTests {
    @Test("Values that are too small are raised", arguments: [0, -1, 1])
    func workable(_ value: Int) {
        let small = LaneConfiguration(
            packetCount: value, packetBytes: value, datagramCount: value, batchesPerTurn: value
        ).workable
        #expect(small.packetCount == 1)
        #expect(small.packetBytes == PacketBatch.minimumReadBytes)
        #expect(small.datagramCount == 1)
        #expect(small.batchesPerTurn == 1)
    }

    @Test("Sufficient values are unchanged")
    func enough() {
        #expect(LaneConfiguration().workable == LaneConfiguration())
    }

    @Test("A full batch of packets of MTU 1420 fills whole messages, and fits its region")
    func wholeMessages() {
        let lane = LaneConfiguration()
        let datagram = 1420 + 32
        #expect(lane.packetCount % (65_507 / datagram) == 0)
        let spaced = 1420 + 2 * PacketBatch.margin
        #expect(lane.packetCount * (spaced + 15) <= lane.packetBytes)
        #expect(lane.packetCount * datagram <= lane.outgoingBytes)
    }
}
