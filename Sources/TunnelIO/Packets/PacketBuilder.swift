// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// Small IP packets with correct checksums, for probes, demonstrations and tests. Not for the data path: each is an array.
package enum PacketBuilder {
    /// The protocol numbers of what is built here.
    package enum IPProtocol {
        package static let icmp: UInt8 = 1
        package static let udp: UInt8 = 17
        package static let icmpv6: UInt8 = 58
    }

    /// An ICMP or ICMPv6 echo request or reply.
    ///
    /// Both addresses are of one family; the packet may not exceed 65,535 bytes.
    package static func icmpEcho(
        from source: IPAddress, to destination: IPAddress, identifier: UInt16, sequence: UInt16, payload: [UInt8] = [],
        isReply: Bool = false, hopLimit: UInt8 = 64
    ) -> [UInt8] {
        let (request, reply, number) =
            source.isIPv6 ? (UInt8(128), UInt8(129), IPProtocol.icmpv6) : (8, 0, IPProtocol.icmp)
        var message: [UInt8] = [isReply ? reply : request, 0, 0, 0] + bytes(identifier) + bytes(sequence) + payload
        var checksum =
            source.isIPv6
            ? pseudoHeader(from: source, to: destination, number: number, length: message.count) : InternetChecksum()
        unsafe message.withUnsafeBytes { unsafe checksum.add($0) }
        message.replaceSubrange(2..<4, with: bytes(checksum.value))
        return ipPacket(from: source, to: destination, number: number, payload: message, hopLimit: hopLimit)
    }

    /// A UDP datagram in an IP packet. Both addresses are of one family; the packet may not exceed 65,535 bytes.
    package static func udp(
        from source: IPAddress, port sourcePort: UInt16, to destination: IPAddress, port destinationPort: UInt16,
        payload: [UInt8], hopLimit: UInt8 = 64
    ) -> [UInt8] {
        let length = UInt16(clamping: 8 + payload.count)
        var datagram = bytes(sourcePort) + bytes(destinationPort) + bytes(length) + [0, 0] + payload
        var checksum = pseudoHeader(
            from: source, to: destination, number: IPProtocol.udp, length: datagram.count)
        unsafe datagram.withUnsafeBytes { unsafe checksum.add($0) }
        // Zero means "none" on the wire, so a computed zero is sent as its other form (RFC 768).
        datagram.replaceSubrange(6..<8, with: bytes(checksum.value == 0 ? 0xffff : checksum.value))
        return ipPacket(
            from: source, to: destination, number: IPProtocol.udp, payload: datagram, hopLimit: hopLimit)
    }

    /// An IP header in front of `payload`. Both addresses are of one family.
    package static func ipPacket(
        from source: IPAddress, to destination: IPAddress, number: UInt8, payload: [UInt8], hopLimit: UInt8 = 64
    ) -> [UInt8] {
        let addresses = source.bytes + destination.bytes
        if source.isIPv6 {
            let length = UInt16(clamping: payload.count)
            return [0x60, 0, 0, 0] + bytes(length) + [number, hopLimit] + addresses + payload
        }
        let length = UInt16(clamping: 20 + payload.count)
        var header = [0x45, 0] + bytes(length) + [0, 0, 0x40, 0, hopLimit, number, 0, 0] + addresses
        let checksum = unsafe header.withUnsafeBytes { unsafe InternetChecksum.of($0) }
        header.replaceSubrange(10..<12, with: bytes(checksum))
        return header + payload
    }

    /// The sum that a transport checksum starts from (RFC 768, RFC 8200 section 8.1).
    package static func pseudoHeader(
        from source: IPAddress, to destination: IPAddress, number: UInt8, length: Int
    ) -> InternetChecksum {
        var checksum = InternetChecksum()
        // The first half of an IPv4 address is zero, as is half of the second.
        for half in [source.high, source.low, destination.high, destination.low] { checksum.add(half) }
        checksum.add(UInt32(clamping: length))
        checksum.add(UInt16(number))
        return checksum
    }

    private static func bytes(_ value: some FixedWidthInteger) -> [UInt8] {
        unsafe withUnsafeBytes(of: value.bigEndian) { unsafe Array($0) }
    }
}
