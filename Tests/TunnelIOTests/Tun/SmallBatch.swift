// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import TunnelIO

/// Batches that have no room for a packet of any size: every device refuses them alike.
enum SmallBatch {
    static let sizes = [1, 1_500, 65_535, PacketBatch.minimumReadBytes / 2]

    static func expectRefused(by device: some TunDevice, _ bytes: Int) throws {
        let batch = try PacketBatch(packetCapacity: 4, byteCapacity: bytes)
        let error = #expect(throws: TunnelIOError.self) { _ = try device.receive(into: batch) }
        guard case .invalidBatch(packets: 4, bytes: batch.byteCapacity, _)? = error?.code else {
            Issue.record("\(error as Any)")
            return
        }
        #expect(batch.isEmpty)
    }
}
