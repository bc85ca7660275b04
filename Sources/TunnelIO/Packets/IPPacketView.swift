// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// The header of an IP packet (RFC 791, RFC 8200), with all lengths checked: ``payload`` is within the bytes.
///
/// IPv6 extension headers are not followed: they are part of the payload.
package struct IPPacketView {
    package let source: IPAddress
    package let destination: IPAddress
    /// The protocol number of the payload; of the first extension header if there is one.
    package let number: UInt8
    /// Whether it is an IPv4 fragment.
    package let isFragment: Bool
    /// The offsets of the payload. Bytes behind it are not part of the packet.
    package let payload: Range<Int>

    /// Returns `nil` unless `packet` starts with a whole packet.
    @inline(__always)
    package init?(_ packet: UnsafeRawBufferPointer) {
        guard packet.count >= 20, let bytes = packet.baseAddress else { return nil }
        let first = unsafe bytes.byte(0)
        switch first >> 4 {
        case 4:
            let (start, end) = (Int(first & 0x0f) * 4, unsafe Int(bytes.big16(2)))
            guard start >= 20, start <= end, end <= packet.count else { return nil }
            source = unsafe .v4(bytes.big32(12))
            destination = unsafe .v4(bytes.big32(16))
            number = unsafe bytes.byte(9)
            // More fragments follow, or it is not the first one.
            isFragment = unsafe bytes.big16(6) & 0x3fff != 0
            payload = start..<end
        case 6:
            guard packet.count >= 40 else { return nil }
            let end = unsafe 40 + Int(bytes.big16(4))
            guard end <= packet.count else { return nil }
            source = unsafe Self.addressV6(bytes, 8)
            destination = unsafe Self.addressV6(bytes, 24)
            number = unsafe bytes.byte(6)
            isFragment = false
            payload = 40..<end
        default: return nil
        }
    }

    @inline(__always)
    private static func addressV6(_ bytes: UnsafeRawPointer, _ offset: Int) -> IPAddress {
        unsafe .v6(
            UInt64(bytes.big32(offset)) << 32 | UInt64(bytes.big32(offset + 4)),
            UInt64(bytes.big32(offset + 8)) << 32 | UInt64(bytes.big32(offset + 12)))
    }

    /// The checksum of the payload together with the pseudo-header of the addresses; 0 if the payload has a correct one.
    fileprivate func transportChecksum(of payload: UnsafeRawBufferPointer) -> UInt16 {
        var checksum = PacketBuilder.pseudoHeader(
            from: source, to: destination, number: number, length: payload.count)
        unsafe checksum.add(payload)
        return checksum.value
    }
}

/// A UDP datagram (RFC 768) in an IP packet that is not a fragment.
package struct UDPDatagramView {
    package let packet: IPPacketView
    package let sourcePort: UInt16
    package let destinationPort: UInt16
    /// The offsets of the payload in the packet.
    package let payload: Range<Int>
    /// Whether the checksum is correct. IPv4 permits datagrams without one (RFC 8200 section 8.1).
    package let isIntact: Bool

    /// Returns `nil` unless `bytes` start with a whole datagram whose length is that of the packet's payload.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        guard let packet = unsafe IPPacketView(bytes), packet.number == PacketBuilder.IPProtocol.udp,
            !packet.isFragment, packet.payload.count >= 8
        else { return nil }
        let datagram = unsafe UnsafeRawBufferPointer(rebasing: bytes[packet.payload])
        guard let start = datagram.baseAddress, unsafe Int(start.big16(4)) == datagram.count else { return nil }
        self.packet = packet
        sourcePort = unsafe start.big16(0)
        destinationPort = unsafe start.big16(2)
        payload = packet.payload.dropFirst(8)
        isIntact =
            unsafe start.big16(6) == 0 ? !packet.source.isIPv6 : packet.transportChecksum(of: datagram) == 0
    }

    /// Returns `nil` unless `bytes` start with a whole datagram whose length is that of the packet's payload.
    package init?(_ bytes: [UInt8]) {
        guard let view = unsafe bytes.withUnsafeBytes({ unsafe Self($0) }) else { return nil }
        self = view
    }
}

/// An echo request or reply of ICMP or ICMPv6 (RFC 792, RFC 4443 section 4) in an IP packet that is not a fragment.
package struct EchoMessageView {
    package let packet: IPPacketView
    package let isReply: Bool
    package let identifier: UInt16
    package let sequence: UInt16
    /// The offsets of the data in the packet.
    package let payload: Range<Int>
    /// Whether the checksums of the message and of an IPv4 header are correct.
    package let isIntact: Bool

    /// Returns `nil` unless `bytes` start with a whole echo request or reply.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        guard let packet = unsafe IPPacketView(bytes), !packet.isFragment, packet.payload.count >= 8 else {
            return nil
        }
        let message = unsafe UnsafeRawBufferPointer(rebasing: bytes[packet.payload])
        guard let start = message.baseAddress else { return nil }
        let typeAndCode = unsafe start.big16(0)
        switch (packet.source.isIPv6, packet.number, typeAndCode) {
        case (false, PacketBuilder.IPProtocol.icmp, 0x0800), (true, PacketBuilder.IPProtocol.icmpv6, 0x8000):
            isReply = false
        case (false, PacketBuilder.IPProtocol.icmp, 0x0000), (true, PacketBuilder.IPProtocol.icmpv6, 0x8100):
            isReply = true
        default: return nil
        }
        self.packet = packet
        identifier = unsafe start.big16(4)
        sequence = unsafe start.big16(6)
        payload = packet.payload.dropFirst(8)
        if packet.source.isIPv6 {
            isIntact = unsafe packet.transportChecksum(of: message) == 0
        } else {
            let header = unsafe UnsafeRawBufferPointer(rebasing: bytes[..<packet.payload.lowerBound])
            isIntact = unsafe InternetChecksum.of(header) == 0 && InternetChecksum.of(message) == 0
        }
    }

    /// Returns `nil` unless `bytes` start with a whole echo request or reply.
    package init?(_ bytes: [UInt8]) {
        guard let view = unsafe bytes.withUnsafeBytes({ unsafe Self($0) }) else { return nil }
        self = view
    }
}
