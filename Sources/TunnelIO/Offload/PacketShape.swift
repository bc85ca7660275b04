// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The offsets in a TCP or UDP packet that contains its ports.
struct PacketShape {
    let isIPv6: Bool
    let isTCP: Bool
    let transport: Int
    let headers: Int
    let payload: Int
    /// Whether the packet can be joined with others.
    let isCandidate: Bool
    let pushes: Bool
    let hash: Int

    private static let tcp: UInt8 = 6
    private static let udp: UInt8 = 17
    private static let acknowledges: UInt8 = 0x10
    private static let push: UInt8 = 0x08

    /// - Returns: `nil` unless it is a complete TCP or UDP packet with ports.
    /// - Precondition: `count` is at least 28.
    @inline(__always)
    init?(_ packet: UnsafeRawPointer, _ count: Int) {
        let first = unsafe packet.byte(0)
        let number: UInt8
        var isPlain: Bool
        var hash: UInt32
        switch first >> 4 {
        case 4:
            let length = Int(first & 0x0f) &* 4
            // No ports in any fragment but the first.
            guard length >= 20, unsafe packet.big16(6) & 0x1fff == 0, unsafe Int(packet.big16(2)) == count else {
                return nil
            }
            isIPv6 = false
            transport = length
            number = unsafe packet.byte(9)
            // No options, no more fragments, and a reserved bit of zero.
            isPlain = unsafe length == 20 && packet.byte(6) & 0xa0 == 0
            hash = unsafe packet.big32(12) ^ packet.big32(16)
        case 6:
            guard count >= 48, unsafe Int(packet.big16(4)) == count &- 40 else { return nil }
            isIPv6 = true
            transport = 40
            number = unsafe packet.byte(6)
            isPlain = true
            hash = unsafe packet.big32(20) ^ packet.big32(36)
        default:
            return nil
        }
        switch number {
        case Self.tcp:
            guard count &- transport >= 20 else { return nil }
            let length = unsafe Int(packet.byte(transport &+ 12) >> 4) &* 4
            let flags = unsafe packet.byte(transport &+ 13)
            isTCP = true
            isPlain =
                unsafe isPlain && length >= 20 && transport &+ length < count
                && packet.byte(transport &+ 12) & 0x0f == 0
                && flags & ~Self.push == Self.acknowledges && packet.big16(transport &+ 18) == 0
            headers = transport &+ length
            pushes = flags & Self.push != 0
        case Self.udp:
            guard count &- transport >= 8 else { return nil }
            isTCP = false
            isPlain =
                unsafe isPlain && Int(packet.big16(transport &+ 4)) == count &- transport
                && count &- transport > 8 && packet.big16(transport &+ 6) != 0
            headers = transport &+ 8
            pushes = false
        default:
            return nil
        }
        isCandidate = isPlain
        payload = max(0, count &- headers)
        hash ^= unsafe packet.big32(transport)
        hash &*= 0x9e37_79b1
        self.hash = Int(hash >> 26)
    }

    /// The payload of a packet of `count` bytes with headers of this shape.
    @inline(__always)
    func payload(of count: Int) -> Int { count &- headers }

    /// Whether a packet without a shape may still be TCP or UDP: a fragment, or one with extension headers.
    static func hidesPorts(_ packet: UnsafeRawPointer) -> Bool {
        switch unsafe packet.byte(0) >> 4 {
        case 4:
            let number = unsafe packet.byte(9)
            return unsafe (number == tcp || number == udp) && packet.big16(6) & 0x1fff != 0
        case 6:
            switch unsafe packet.byte(6) {
            // Hop-by-hop options, routing, fragment, authentication, destination options, mobility.
            case 0, 43, 44, 51, 60, 135: return true
            default: return false
            }
        default: return false
        }
    }

    /// Whether the two have the same addresses and ports; their families and protocols are the same.
    @inline(__always)
    func isSameFlow(_ a: UnsafeRawPointer, _ b: UnsafeRawPointer) -> Bool {
        // The first packet of a frame has no options; a later packet with options may belong to its flow.
        let other = isIPv6 ? 40 : 20
        guard unsafe a.big32(transport) == b.big32(other) else { return false }
        for offset in stride(from: isIPv6 ? 8 : 12, to: other, by: 4) where unsafe a.big32(offset) != b.big32(offset) {
            return false
        }
        return true
    }

    /// Whether the checksums of a candidate with headers of this shape are right.
    /// - Parameter target: the address of a copy of the payload, made in the pass that sums it; `nil` for no copy.
    @inline(__always)
    func checksumsAreRight(
        _ packet: UnsafeRawPointer, _ count: Int, copyingPayloadTo target: UnsafeMutableRawPointer?
    ) -> Bool {
        if !isIPv6, unsafe InternetChecksum.of(UnsafeRawBufferPointer(start: packet, count: 20)) != 0 { return false }
        let number = isTCP ? Self.tcp : Self.udp
        guard let target = unsafe target else {
            return unsafe TransportChecksum.isRight(
                packet, count: count, isIPv6: isIPv6, number: number, transport: transport)
        }
        var sum = unsafe TransportChecksum.pseudoHeader(
            packet, isIPv6: isIPv6, number: number, length: count &- transport)
        unsafe sum.add(UnsafeRawBufferPointer(start: packet + transport, count: headers &- transport))
        unsafe sum.add(copying: packet + headers, to: target, count: count &- headers)
        return sum.value == 0
    }
}
