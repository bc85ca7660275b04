// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// The memory of a lane.
extension LaneConfiguration {
    /// The bytes that each packet or datagram uses besides its content: its descriptor and its endpoint.
    private static let descriptorBytes = MemoryLayout<PacketDescriptor>.stride + MemoryLayout<Endpoint>.stride
    /// The memory of a device and two sockets: a superframe that is being split, two that are being joined, and the headers,
    /// names and control messages of system calls.
    package static let systemBytes = 320 << 10

    /// The most bytes of memory that a lane uses, including its device and its sockets: the three regions of packets, their
    /// descriptors, and the memory of device and sockets.
    public var memoryByteCount: Int { packetRegionBytes + outgoingRegionBytes + incomingRegionBytes + Self.systemBytes }

    /// The region of packets that come from the device.
    package var packetRegionBytes: Int {
        let lane = workable
        return Self.pages(lane.packetBytes) + lane.packetCount * Self.descriptorBytes
    }

    /// The region of datagrams to send.
    package var outgoingRegionBytes: Int {
        let lane = workable
        return Self.pages(lane.outgoingBytes) + lane.packetCount * Self.descriptorBytes
    }

    /// The region of received datagrams.
    package var incomingRegionBytes: Int {
        let lane = workable
        return Self.pages(lane.incomingBytes) + lane.datagramCount * Self.descriptorBytes
    }

    /// Rounds `bytes` up to whole pages of 16 KiB, the largest page size to expect.
    private static func pages(_ bytes: Int) -> Int { (bytes + 16_383) & ~16_383 }
}

extension LaneConfiguration {
    /// Sets the size of the sockets' queues in the system. Sockets in memory are unchanged.
    func limitQueues(of sockets: DatagramSockets?) {
        guard let socketQueueBytes, let sockets else { return }
        let bytes = Int32(clamping: max(socketQueueBytes, Self.datagramSlotBytes))
        for socket in sockets.all { SocketQueue.setSize(of: socket.readiness, bytes) }
    }
}
