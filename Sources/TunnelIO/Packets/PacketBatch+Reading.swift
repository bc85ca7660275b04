// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The way a device stores packets in a batch.
extension PacketBatch {
    /// The least size, in bytes, of a batch that packets can be read into: room for a packet of any size and the free
    /// bytes around it. It does not depend on the device or the MTU, which may be raised at any time.
    public static let minimumReadBytes = 128 << 10

    /// The most bytes of one IP packet.
    package static let longestPacket = 65_535
    /// The number of bytes kept free before each packet that was read, and again after it. Adjacent packets do not
    /// share free bytes.
    package static let margin = 32

    /// Checks that packets can be read into the batch. Every device calls this before each read, so that all devices
    /// refuse the same batches.
    /// - Throws: `.invalidBatch` if the batch has fewer bytes than ``minimumReadBytes``.
    @inline(__always)
    package func checkReadable() throws(TunnelIOError) {
        guard byteCapacity < Self.minimumReadBytes else { return }
        throw TunnelIOError(
            .invalidBatch(
                packets: packetCapacity, bytes: byteCapacity,
                expected: "large enough to read packets into: at least \(Self.minimumReadBytes) bytes"))
    }

    /// The offset for the next packet, a multiple of 16; `nil` if there is no room for `length` bytes.
    @inline(__always)
    package func nextStart(for length: Int = PacketBatch.longestPacket) -> Int? {
        let gap = tail == 0 ? Self.margin : 2 * Self.margin
        let start = (tail + gap + 15) & ~15
        return count < packetCapacity && start + length + Self.margin <= byteCapacity ? start : nil
    }

    /// Appends a copy of a packet that was read.
    /// - Returns: false if there is no room.
    package func appendRead(_ packet: UnsafeRawBufferPointer) -> Bool {
        guard let start = nextStart(for: packet.count) else { return false }
        if let bytes = packet.baseAddress {
            unsafe (base + start).copyMemory(from: bytes, byteCount: packet.count)
        }
        return append(offset: start, length: packet.count) != nil
    }
}
