// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Finds the packets of a batch that can be written as one superframe: consecutive packets of one TCP or UDP flow whose
/// headers can be restored when the superframe is split.
///
/// A packet is joined only after its checksums were verified, since a superframe gets new checksums: a forged packet must not
/// become valid. Packets of one flow keep their order.
///
/// The push flag of a packet moves to the last packet of its superframe, which arrives at the same time. A bulk sender
/// pushes at the end of each superframe that it hands to its kernel, and a batch here ends at another packet. If a
/// superframe ended at each push too, there would be a quarter more of them, and so more work for the system.
@safe
package struct CoalescingPlan {
    /// The most packets of one superframe. All kernels accept this number.
    package static let mostSegments = 64
    /// The most bytes of one superframe.
    package static let longest = 65_535

    /// The common headers of the packets of one superframe, and the links between them.
    package struct Frame {
        /// The first packet.
        package let head: Int
        /// The bytes in front of the payload.
        package let headers: Int
        /// The offset of the transport header.
        package let transport: Int
        package let isIPv6: Bool
        package let isTCP: Bool
        /// The payload of each packet but the last.
        package let segmentSize: Int
        /// The packets.
        package var count = 1
        /// The bytes of the headers and all payloads.
        package var total: Int
        /// Whether one of the packets has the push flag.
        package var pushes: Bool
        var last: Int
        var hash: Int
        var isOpen = true
        var isVerified = false
        /// The offset of the payloads of all packets, one after another, in the memory for copies; `nil` if they are only in
        /// the batch.
        package fileprivate(set) var copy: Int?
        /// The frame before this one with the same hash.
        var older: Int32
    }

    /// The place of a packet in the frames.
    private struct Place {
        /// The packet that follows in the same frame; -1 at the end.
        var following: Int32 = -1
        /// The frame that begins with the packet; -1 if there is none.
        var headed: Int32 = -1
        /// Whether the packet is in a frame, but not its first.
        var isJoined = false
    }

    /// The frames, in the order of their first packets. Some have only one packet.
    package private(set) var frames: ContiguousArray<Frame> = []
    /// The place of each packet.
    private var places: ContiguousArray<Place> = []
    /// The memory for copies during ``make(for:joinsTCP:joinsUDP:copyingTo:)``, and the number of its bytes in use.
    private var room: UnsafeMutableRawBufferPointer?
    private var copied = 0
    /// The newest frame of each hash.
    private var newest = ContiguousArray<Int32>(repeating: -1, count: 64)
    /// The indices of the first IPv4 frame and the first IPv6 frame that may be open. Earlier frames are closed.
    private var openFrom4 = 0
    private var openFrom6 = 0
    /// The most frames of one hash that are checked.
    private static let reach = 8

    /// An empty plan.
    package init() {}

    /// The packet behind packet `index` in its frame.
    @inline(__always)
    package func next(after index: Int) -> Int? {
        let following = places[index].following
        return following >= 0 ? Int(following) : nil
    }

    /// The frame that starts with packet `index`; `nil` if no frame of two or more packets does.
    @inline(__always)
    package func frame(at index: Int) -> Frame? {
        let headed = Int(places[index].headed)
        return headed < 0 || frames[headed].count < 2 ? nil : frames[headed]
    }

    /// Whether packet `index` is a later part of a frame.
    @inline(__always)
    package func isJoined(_ index: Int) -> Bool { places[index].isJoined }

    /// Plans the frames of a batch. The batch is not changed.
    package mutating func make(for batch: PacketBatch, joinsTCP: Bool, joinsUDP: Bool) {
        unsafe make(for: batch, joinsTCP: joinsTCP, joinsUDP: joinsUDP, copyingTo: nil)
    }

    /// Plans the frames of a batch, and copies payloads.
    ///
    /// While the plan verifies the packets of a frame, it copies their payloads one after another, since the system copies
    /// one piece faster than many. There is no copy of a frame if the memory does not suffice, or if frames alternate.
    /// - Parameter room: the memory for the copies; `nil` for no copies.
    @unsafe
    mutating func make(
        for batch: PacketBatch, joinsTCP: Bool, joinsUDP: Bool, copyingTo room: UnsafeMutableRawBufferPointer?
    ) {
        unsafe self.room = room
        defer { unsafe self.room = nil }
        copied = 0
        frames.removeAll(keepingCapacity: true)
        openFrom4 = 0
        openFrom6 = 0
        places.removeAll(keepingCapacity: true)
        for bucket in newest.indices { newest[bucket] = -1 }
        for index in 0..<batch.count {
            places.append(Place())
            let packet = unsafe UnsafeRawBufferPointer(batch.bytes(of: index))
            guard let base = packet.baseAddress, packet.count >= 28 else { continue }
            unsafe consider(index, base, packet.count, of: batch, joinsTCP: joinsTCP, joinsUDP: joinsUDP)
        }
    }

    /// Adds packet `index` to the open frame of its flow, or starts a frame with it, unless it cannot be joined.
    @inline(__always)
    private mutating func consider(
        _ index: Int, _ packet: UnsafeRawPointer, _ count: Int, of batch: PacketBatch, joinsTCP: Bool, joinsUDP: Bool
    ) {
        guard let shape = unsafe PacketShape(packet, count) else {
            // Its flow is unknown, so no later packet may overtake it.
            if unsafe PacketShape.hidesPorts(packet) {
                if unsafe packet.byte(0) >> 4 == 4 { openFrom4 = frames.count } else { openFrom6 = frames.count }
            }
            return
        }
        guard shape.isTCP ? joinsTCP : joinsUDP else { return }
        let found = unsafe newestFrame(shape, packet, of: batch)
        if let found, found < (shape.isIPv6 ? openFrom6 : openFrom4) { frames[found].isOpen = false }
        guard shape.isCandidate else {
            // Later packets must not overtake it.
            if let found { frames[found].isOpen = false }
            return
        }
        var isVerified = false
        if let found {
            let head = unsafe UnsafeRawPointer(batch.base + Int(batch[frames[found].head].offset))
            if frames[found].isOpen, unsafe follows(shape, packet, frames[found], head) {
                if !frames[found].isVerified {
                    let count = Int(batch[frames[found].head].length)
                    frames[found].isVerified = true
                    let target = unsafe place(shape.payload(of: count), after: copied)
                    if unsafe !shape.checksumsAreRight(head, count, copyingPayloadTo: target) {
                        frames[found].isOpen = false
                    } else if unsafe target != nil {
                        frames[found].copy = copied
                        copied &+= shape.payload(of: count)
                    }
                }
                isVerified = true
                let end = frames[found].copy.map { $0 &+ frames[found].total &- shape.headers }
                let target = unsafe place(shape.payload, after: end)
                let isRight = unsafe shape.checksumsAreRight(packet, count, copyingPayloadTo: target)
                if isRight, frames[found].isOpen {
                    if unsafe target == nil { frames[found].copy = nil } else { copied &+= shape.payload }
                    join(index, shape, to: found)
                    return
                }
                frames[found].isOpen = false
                // Written unchanged: the system verifies it.
                if !isRight { return }
            }
            frames[found].isOpen = false
        }
        var frame = Frame(
            head: index, headers: shape.headers, transport: shape.transport, isIPv6: shape.isIPv6,
            isTCP: shape.isTCP, segmentSize: shape.payload, total: count, pushes: shape.pushes, last: index,
            hash: shape.hash, older: newest[shape.hash])
        frame.isVerified = isVerified
        newest[shape.hash] = Int32(truncatingIfNeeded: frames.count)
        places[index].headed = Int32(truncatingIfNeeded: frames.count)
        frames.append(frame)
    }

    /// The address for a copy of `count` bytes after the copies of a frame, which end at `end`; `nil` if copies of another
    /// frame follow them, or if the memory does not suffice.
    @inline(__always)
    private func place(_ count: Int, after end: Int?) -> UnsafeMutableRawPointer? {
        guard let room = unsafe room, let base = room.baseAddress, end == copied, count <= room.count &- copied else {
            return nil
        }
        return unsafe base + copied
    }

    private mutating func join(_ index: Int, _ shape: PacketShape, to frame: Int) {
        places[frames[frame].last].following = Int32(truncatingIfNeeded: index)
        places[index].isJoined = true
        frames[frame].last = index
        frames[frame].count += 1
        frames[frame].total += shape.payload
        if shape.pushes { frames[frame].pushes = true }
        if shape.payload < frames[frame].segmentSize { frames[frame].isOpen = false }
    }

    /// The newest frame of the packet's flow.
    @inline(__always)
    private func newestFrame(_ shape: PacketShape, _ packet: UnsafeRawPointer, of batch: PacketBatch) -> Int? {
        var at = newest[shape.hash]
        var steps = 0
        while at >= 0, steps < Self.reach {
            let frame = frames[Int(at)]
            if frame.isIPv6 == shape.isIPv6, frame.isTCP == shape.isTCP {
                let head = unsafe UnsafeRawPointer(batch.base + Int(batch[frame.head].offset))
                if unsafe shape.isSameFlow(packet, head) { return Int(at) }
            }
            at = frame.older
            steps += 1
        }
        return nil
    }

    /// Whether the packet may follow the last packet of `frame`.
    @inline(__always)
    private func follows(
        _ shape: PacketShape, _ packet: UnsafeRawPointer, _ frame: Frame, _ head: UnsafeRawPointer
    ) -> Bool {
        guard frame.count < Self.mostSegments, frame.total &+ shape.payload <= Self.longest,
            shape.payload <= frame.segmentSize, shape.headers == frame.headers
        else { return false }
        if shape.isIPv6 {
            // Version, traffic class and flow label; hop limit.
            guard unsafe packet.big32(0) == head.big32(0), unsafe packet.byte(7) == head.byte(7) else { return false }
        } else {
            guard unsafe packet.big16(0) == head.big16(0), unsafe packet.big16(6) == head.big16(6),
                unsafe packet.byte(8) == head.byte(8)
            else { return false }
            // The identification of a packet that must not be fragmented has no meaning (RFC 6864).
            if unsafe packet.byte(6) & 0x40 == 0 {
                let expected = unsafe head.big16(4) &+ UInt16(truncatingIfNeeded: frame.count)
                guard unsafe packet.big16(4) == expected else { return false }
            }
        }
        guard shape.isTCP else { return true }
        let transport = shape.transport
        let expected = unsafe head.big32(transport &+ 4) &+ UInt32(truncatingIfNeeded: frame.total &- frame.headers)
        guard unsafe packet.big32(transport &+ 4) == expected,
            unsafe packet.big32(transport &+ 8) == head.big32(transport &+ 8),
            unsafe packet.big16(transport &+ 14) == head.big16(transport &+ 14)
        else { return false }
        // The length of options is a multiple of 4.
        var offset = transport &+ 20
        while offset < shape.headers {
            guard unsafe packet.big32(offset) == head.big32(offset) else { return false }
            offset &+= 4
        }
        return true
    }
}
