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
    /// The packets.
    package let count: Int
    /// The sum of the IPv4 header without the fields that differ from packet to packet.
    private let commonIP: InternetChecksum
    /// The sum of the pseudo-header and the transport header without the fields that differ from packet to packet.
    private let common: InternetChecksum
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
        let number = isTCP ? Transport.tcp : Transport.udp
        guard transport + smallest <= packet.count,
            Int(header.checksumOffset) == (isTCP ? Transport.tcpChecksum : Transport.udpChecksum),
            unsafe Self.transportBegins(at: transport, in: packet, isIPv6, number)
        else { return nil }
        // The header length in the kernel's description is not reliable for forwarded packets.
        let own = unsafe isTCP ? Int(base.byte(transport + 12) >> 4) * 4 : 8
        guard own >= smallest, transport + own <= packet.count else { return nil }
        headers = transport + own
        payload = packet.count - headers
        segmentSize = Int(header.segmentSize)
        count = max(1, (payload + segmentSize - 1) / segmentSize)
        var ip = InternetChecksum()
        if !isIPv6 {
            unsafe ip.add(UnsafeRawBufferPointer(start: base, count: transport))
            unsafe ip.subtract(base.big16(2))
            unsafe ip.subtract(base.big16(4))
            unsafe ip.subtract(base.big16(10))
        }
        commonIP = ip
        let field = transport + (isTCP ? Transport.tcpChecksum : Transport.udpChecksum)
        var sum = InternetChecksum()
        unsafe sum.add(UnsafeRawBufferPointer(start: base + transport, count: own))
        unsafe sum.subtract(base.big16(field))
        unsafe sum.subtract(base.big16(transport + 4))
        if isTCP {
            unsafe sum.subtract(base.big16(transport + 6))
            unsafe sum.subtract(base.big16(transport + Transport.tcpFlags - 1))
        }
        if transport == (isIPv6 ? 40 : 20) {
            unsafe sum.add(TransportChecksum.pseudoHeader(base, isIPv6: isIPv6, number: number, length: 0).partial)
        } else {
            // An option or extension header may contain the final destination, which the kernel has added to its sum.
            unsafe sum.add(base.big16(field))
            sum.subtract(UInt16(truncatingIfNeeded: packet.count - transport))
        }
        common = sum
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
        if isIPv6 {
            unsafe out.setBig16(UInt16(truncatingIfNeeded: total &- 40), at: 4)
        } else {
            let identification = unsafe packet.big16(4) &+ UInt16(truncatingIfNeeded: index)
            unsafe out.setBig16(UInt16(truncatingIfNeeded: total), at: 2)
            unsafe out.setBig16(identification, at: 4)
            var sum = commonIP
            sum.add(UInt16(truncatingIfNeeded: total))
            sum.add(identification)
            unsafe out.setBig16(sum.value, at: 10)
        }
        let length = UInt16(truncatingIfNeeded: total &- transport)
        var sum = common
        sum.add(length)
        if isTCP {
            let sequence = unsafe packet.big32(transport &+ 4) &+ UInt32(truncatingIfNeeded: start)
            unsafe out.setBig32(sequence, at: transport &+ 4)
            sum.add(sequence)
            var flags = unsafe packet.big16(transport &+ Transport.tcpFlags &- 1)
            if index &+ 1 < count { flags &= ~UInt16(Transport.fin | Transport.push) }
            if index > 0 { flags &= ~UInt16(Transport.congestionReduced) }
            unsafe out.setBig16(flags, at: transport &+ Transport.tcpFlags &- 1)
            sum.add(flags)
        } else {
            unsafe out.setBig16(length, at: transport &+ 4)
            sum.add(length)
        }
        unsafe sum.add(copying: packet + (headers &+ start), to: out + headers, count: total &- headers)
        // In UDP, zero means that there is no checksum.
        unsafe out.setBig16(
            sum.value == 0 && !isTCP ? 0xffff : sum.value,
            at: transport &+ (isTCP ? Transport.tcpChecksum : Transport.udpChecksum))
        index &+= 1
    }
}
