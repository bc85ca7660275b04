// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// How a device lays packets into a batch.
extension PacketBatch {
    /// The least bytes of a batch that packets are read into, whatever the device and its MTU, which may be raised at any
    /// time: room for a packet of any size, with what is kept free around it.
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

    /// Where the next packet begins that is read, at a multiple of 16; nil when there is no room for one of `length` bytes.
    @inline(__always)
    package func nextStart(for length: Int = PacketBatch.longestPacket) -> Int? {
        let gap = tail == 0 ? Self.margin : 2 * Self.margin
        let start = (tail + gap + 15) & ~15
        return count < packetCapacity && start + length + Self.margin <= byteCapacity ? start : nil
    }

    /// Appends a copy of a packet that was read.
    /// - Returns: false when there is no room.
    package func appendRead(_ packet: UnsafeRawBufferPointer) -> Bool {
        guard let start = nextStart(for: packet.count) else { return false }
        if let bytes = packet.baseAddress {
            unsafe (base + start).copyMemory(from: bytes, byteCount: packet.count)
        }
        return append(offset: start, length: packet.count) != nil
    }
}
