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
}
