// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Cuts a superframe, several packets of one flow with a single header, into the packets that it stands for.
///
/// The superframe's bytes are kept by the caller and not changed, so that cutting may stop at any packet and go on later.
package struct SegmentSplitter: Sendable {
    private enum Transport {
        static let tcp: UInt8 = 6
        static let udp: UInt8 = 17
        static let tcpChecksum = 16
        static let udpChecksum = 6
        static let tcpFlags = 13
        static let fin: UInt8 = 0x01
        static let push: UInt8 = 0x08
        static let congestionReduced: UInt8 = 0x80
    }

    private let isIPv6: Bool
    private let isTCP: Bool
    /// Where the transport header begins.
    private let transport: Int
    /// The bytes in front of the payload.
    private let headers: Int
    private let payload: Int
    private let segmentSize: Int
    /// The packets.
    package let count: Int
    /// The next packet to be written.
    private var index = 0

    /// Checks what the kernel says about `packet` against the packet itself.
    /// - Returns: nil for what is no TCP or UDP superframe, or one whose header contradicts itself.
    package init?(_ header: VirtioHeader, _ packet: UnsafeRawBufferPointer) {
        guard let base = packet.baseAddress, packet.count >= 20 else { return nil }
        guard header.flags & VirtioHeader.needsChecksum != 0, header.segmentSize > 0 else { return nil }
        let version = unsafe base.byte(0) >> 4
        switch header.segmentation & ~VirtioHeader.Segmentation.congestion {
        case VirtioHeader.Segmentation.tcp4 where version == 4: isTCP = true
        case VirtioHeader.Segmentation.tcp6 where version == 6: isTCP = true
        case VirtioHeader.Segmentation.udp where version == 4 || version == 6: isTCP = false
        default: return nil
        }
        isIPv6 = version == 6
        transport = Int(header.checksumStart)
        let smallest = isTCP ? 20 : 8
        guard transport + smallest <= packet.count,
            Int(header.checksumOffset) == (isTCP ? Transport.tcpChecksum : Transport.udpChecksum)
        else { return nil }
        if isIPv6 {
            // Extension headers may stand in between; where they end, the kernel has said.
            guard transport >= 40 else { return nil }
        } else {
            let length = unsafe Int(base.byte(0) & 0x0f) * 4
            guard length >= 20, length == transport,
                unsafe base.byte(9) == (isTCP ? Transport.tcp : Transport.udp)
            else { return nil }
        }
        // The length that the kernel gives is a guess where it forwards.
        let own = unsafe isTCP ? Int(base.byte(transport + 12) >> 4) * 4 : 8
        guard own >= smallest, transport + own <= packet.count else { return nil }
        headers = transport + own
        payload = packet.count - headers
        segmentSize = Int(header.segmentSize)
        count = max(1, (payload + segmentSize - 1) / segmentSize)
        // Each packet is as long as its own length field can say.
        guard headers + min(segmentSize, payload) <= 65_535 else { return nil }
    }

    /// Whether every packet was written.
    package var isFinished: Bool { index >= count }

    /// The bytes of the packet that ``write(from:to:)`` writes next.
    @inline(__always)
    package var nextLength: Int { headers &+ min(segmentSize, payload &- index &* segmentSize) }

    /// Writes the next packet, complete, to `out`, which has room for ``nextLength`` bytes.
    /// - Parameter packet: the superframe that this was made for.
    @unsafe
    @inline(__always)
    package mutating func write(from packet: UnsafeRawPointer, to out: UnsafeMutableRawPointer) {
        let start = index &* segmentSize
        let total = nextLength
        unsafe out.copyMemory(from: packet, byteCount: headers)
        unsafe (out + headers).copyMemory(from: packet + (headers &+ start), byteCount: total &- headers)
        if isIPv6 {
            unsafe out.setBig16(UInt16(truncatingIfNeeded: total &- 40), at: 4)
        } else {
            unsafe out.setBig16(UInt16(truncatingIfNeeded: total), at: 2)
            unsafe out.setBig16(packet.big16(4) &+ UInt16(truncatingIfNeeded: index), at: 4)
            unsafe out.setBig16(0, at: 10)
            let sum = unsafe InternetChecksum.of(UnsafeRawBufferPointer(start: out, count: transport))
            unsafe out.setBig16(sum, at: 10)
        }
        let field: Int
        if isTCP {
            let sequence = unsafe packet.big32(transport &+ 4) &+ UInt32(truncatingIfNeeded: start)
            unsafe out.setBig32(sequence, at: transport &+ 4)
            var flags = unsafe packet.byte(transport &+ Transport.tcpFlags)
            if index &+ 1 < count { flags &= ~(Transport.fin | Transport.push) }
            if index > 0 { flags &= ~Transport.congestionReduced }
            unsafe out.storeBytes(of: flags, toByteOffset: transport &+ Transport.tcpFlags, as: UInt8.self)
            field = transport &+ Transport.tcpChecksum
        } else {
            unsafe out.setBig16(UInt16(truncatingIfNeeded: total &- transport), at: transport &+ 4)
            field = transport &+ Transport.udpChecksum
        }
        unsafe out.setBig16(0, at: field)
        var sum = unsafe TransportChecksum.pseudoHeader(
            out, isIPv6: isIPv6, number: isTCP ? Transport.tcp : Transport.udp, length: total &- transport)
        unsafe sum.add(UnsafeRawBufferPointer(start: out + transport, count: total &- transport))
        // Zero would say "none" in UDP, and is the same number to TCP.
        unsafe out.setBig16(sum.value == 0 ? 0xffff : sum.value, at: field)
        index &+= 1
    }
}
