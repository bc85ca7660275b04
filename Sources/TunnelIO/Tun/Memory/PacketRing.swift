// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A first-in, first-out queue of packets in memory that is allocated once, bounded in packets and in bytes.
///
/// Each packet is contiguous; one that does not fit before the end of the region is stored at its start. The type is
/// sendable, since a ring cannot be copied and nothing else uses its memory.
@safe
struct PacketRing: ~Copyable, @unchecked Sendable {
    private let region: PageMapping
    private let slots: UnsafeMutablePointer<PacketDescriptor>
    /// The most packets.
    let packetCapacity: Int
    /// The most bytes of all packets.
    let byteCapacity: Int
    private var first = 0
    /// The number of packets.
    private(set) var count = 0
    /// The offset for the next packet.
    private var writeOffset = 0

    /// An empty ring.
    /// - Throws: `.outOfMemory`.
    init(packetCapacity: Int, byteCapacity: Int) throws(TunnelIOError) {
        precondition(packetCapacity > 0 && byteCapacity > 0, "a ring holds at least one packet")
        precondition(byteCapacity <= 1 << 30, "offsets in a ring are 32 bits")
        region = try PageMapping(byteCount: byteCapacity)
        self.packetCapacity = packetCapacity
        self.byteCapacity = byteCapacity
        unsafe slots = .allocate(capacity: packetCapacity)
        unsafe slots.initialize(repeating: PacketDescriptor(offset: 0, length: 0), count: packetCapacity)
    }

    deinit {
        unsafe slots.deallocate()
    }

    /// Appends a copy of `packet`.
    /// - Returns: false if there is no room.
    mutating func push(_ packet: UnsafeRawBufferPointer) -> Bool {
        guard count < packetCapacity, let start = packet.baseAddress, let offset = place(for: packet.count) else {
            return false
        }
        unsafe (region.base + offset).copyMemory(from: start, byteCount: packet.count)
        let slot = (first + count) % packetCapacity
        unsafe slots[slot] = PacketDescriptor(offset: UInt32(offset), length: UInt32(packet.count))
        writeOffset = offset + packet.count
        count += 1
        return true
    }

    /// The offset of `length` contiguous free bytes.
    private mutating func place(for length: Int) -> Int? {
        let end = byteCapacity
        guard count > 0 else { return length <= end ? 0 : nil }
        let oldest = unsafe Int(slots[first].offset)
        if writeOffset > oldest {
            if length <= end - writeOffset { return writeOffset }
            return length <= oldest ? 0 : nil
        }
        // Packets wrap around; equal offsets mean that the region is full.
        return length <= oldest - writeOffset ? writeOffset : nil
    }

    /// Passes the oldest packet, if there is one, to `body`, and removes it if `body` returns true.
    /// - Returns: whether a packet was removed.
    mutating func pop(_ body: (UnsafeRawBufferPointer) -> Bool) -> Bool {
        guard count > 0 else { return false }
        let slot = unsafe slots[first]
        let packet = unsafe UnsafeRawBufferPointer(start: region.base + Int(slot.offset), count: Int(slot.length))
        guard unsafe body(packet) else { return false }
        first = (first + 1) % packetCapacity
        count -= 1
        return true
    }

    /// Removes every packet.
    mutating func removeAll() {
        (first, count, writeOffset) = (0, 0, 0)
    }
}
