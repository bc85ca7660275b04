// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The way a device stores packets in a batch.
extension PacketBatch {
    /// The smallest batch, in bytes, that packets can be read into, with any device and any MTU, which may be raised at any
    /// time: room for a packet of any size, with the free bytes around it.
    public static let minimumReadBytes = 128 << 10

    /// The most bytes of one IP packet.
    package static let longestPacket = 65_535
    /// The bytes kept free in front of each packet that was read, and as many behind it: neighbours do not share theirs.
    package static let margin = 32

    /// - Throws: `.invalidBatch` for fewer bytes than ``minimumReadBytes``. A device asks before each read, so that a batch
    ///   which is too small is refused by all of them alike.
    @inline(__always)
    package func checkReadable() throws(TunnelIOError) {
        guard byteCapacity < Self.minimumReadBytes else { return }
        throw TunnelIOError(
            .invalidBatch(
                packets: packetCapacity, bytes: byteCapacity,
                expected: "one to read packets into, which has at least \(Self.minimumReadBytes) bytes"))
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
