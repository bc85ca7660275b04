// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Splits a superframe, several packets of one flow with one header, into its packets.
///
/// It does not change the superframe's bytes, which the caller keeps. So it can stop after any packet and continue later.
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

    private enum Extension {
        static let hopByHop: UInt8 = 0
        static let routing: UInt8 = 43
        static let authentication: UInt8 = 51
        static let destination: UInt8 = 60
        static let mobility: UInt8 = 135
    }

    private let isIPv6: Bool
    private let isTCP: Bool
    /// The offset of the transport header.
    private let transport: Int
    /// The bytes in front of the payload.
    private let headers: Int
    private let payload: Int
    private let segmentSize: Int
    /// Whether the transport header follows an IP header without options or extensions.
    private let isDirect: Bool
    /// The packets.
    package let count: Int
    /// The next packet to be written.
    private var index = 0

    /// Checks the kernel's description of `packet` against the packet itself.
    /// - Returns: `nil` if it is not a TCP or UDP superframe, is not as long as its header says, or contradicts itself.
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
            Int(header.checksumOffset) == (isTCP ? Transport.tcpChecksum : Transport.udpChecksum),
            unsafe Self.transportBegins(at: transport, in: packet, isIPv6, isTCP ? Transport.tcp : Transport.udp)
        else { return nil }
        // The header length in the kernel's description is not reliable for forwarded packets.
        let own = unsafe isTCP ? Int(base.byte(transport + 12) >> 4) * 4 : 8
        guard own >= smallest, transport + own <= packet.count else { return nil }
        headers = transport + own
        payload = packet.count - headers
        segmentSize = Int(header.segmentSize)
        count = max(1, (payload + segmentSize - 1) / segmentSize)
        isDirect = transport == (isIPv6 ? 40 : 20)
    }

    /// Whether the IP header is complete, has the packet's length, is not that of a fragment, and leads to this
    /// transport header.
    private static func transportBegins(
        at transport: Int, in packet: UnsafeRawBufferPointer, _ isIPv6: Bool, _ number: UInt8
    ) -> Bool {
        guard let base = packet.baseAddress else { return false }
        guard isIPv6 else {
            let length = unsafe Int(base.byte(0) & 0x0f) * 4
            return unsafe length >= 20 && length == transport && base.byte(9) == number
                && Int(base.big16(2)) == packet.count && base.big16(6) & 0x3fff == 0
        }
        guard transport >= 40, unsafe Int(base.big16(4)) == packet.count - 40 else { return false }
        var next = unsafe base.byte(6)
        var at = 40
        while at < transport {
            switch next {
            case Extension.hopByHop, Extension.routing, Extension.destination, Extension.mobility:
                next = unsafe base.byte(at)
                at += unsafe (Int(base.byte(at + 1)) + 1) * 8
            case Extension.authentication:
                next = unsafe base.byte(at)
                at += unsafe (Int(base.byte(at + 1)) + 2) * 4
            default: return false
            }
        }
        return at == transport && next == number
    }

    /// Whether every packet was written.
    package var isFinished: Bool { index >= count }

    /// The bytes of the packet that ``write(from:to:)`` writes next.
    @inline(__always)
    package var nextLength: Int { headers &+ min(segmentSize, payload &- index &* segmentSize) }

    /// Writes the next packet, complete, to `out`, which has room for ``nextLength`` bytes.
    ///
    /// The payload is summed as it is copied.
    /// - Parameter packet: the superframe that this was made for.
    @unsafe
    @inline(__always)
    package mutating func write(from packet: UnsafeRawPointer, to out: UnsafeMutableRawPointer) {
        let start = index &* segmentSize
        let total = nextLength
        unsafe out.copyMemory(from: packet, byteCount: headers)
        let payloadSum = unsafe InternetChecksum.copy(
            from: packet + (headers &+ start), to: out + headers, count: total &- headers)
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
        var sum = unsafe pseudoHeader(of: packet, field: field, length: total &- transport)
        unsafe sum.add(UnsafeRawBufferPointer(start: out + transport, count: headers &- transport))
        sum.add(payloadSum)
        // In UDP, zero means that there is no checksum.
        unsafe out.setBig16(sum.value == 0 && !isTCP ? 0xffff : sum.value, at: field)
        index &+= 1
    }

    /// The pseudo-header's sum for a packet with `length` bytes behind the IP header.
    @inline(__always)
    private func pseudoHeader(of packet: UnsafeRawPointer, field: Int, length: Int) -> InternetChecksum {
        guard isDirect else {
            // An option or extension header may hold the final destination, which the kernel has put into its sum; the
            // length is all that changes.
            var sum = InternetChecksum()
            sum.add(unsafe packet.big16(field))
            sum.add(~UInt16(truncatingIfNeeded: headers &- transport &+ payload))
            sum.add(UInt16(truncatingIfNeeded: length))
            return sum
        }
        return unsafe TransportChecksum.pseudoHeader(
            packet, isIPv6: isIPv6, number: isTCP ? Transport.tcp : Transport.udp, length: length)
    }
}
