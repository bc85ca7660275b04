// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// Builds small IP packets with correct checksums, for probes, demonstrations and tests. Not for the data path, since each
/// packet is an array.
///
/// Both addresses must be of one family, and the packet must not exceed 65,535 bytes. Otherwise the result is empty,
/// and no device accepts it.
public enum PacketBuilder {
    /// The protocol numbers of the packets that are built here.
    package enum IPProtocol {
        package static let icmp: UInt8 = 1
        package static let udp: UInt8 = 17
        package static let icmpv6: UInt8 = 58
    }

    /// An ICMP or ICMPv6 echo request or reply (RFC 792, RFC 4443 section 4).
    ///
    /// - Parameters:
    ///   - source: the sender.
    ///   - destination: the receiver.
    ///   - identifier: identifies the program that sends requests.
    ///   - sequence: the number of the request.
    ///   - payload: the bytes that the reply repeats.
    ///   - isReply: whether it is a reply, not a request.
    ///   - hopLimit: the number of routers that may forward it, plus one.
    public static func icmpEcho(
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

    /// A UDP datagram in an IP packet (RFC 768).
    ///
    /// - Parameters:
    ///   - source: the sender's address and port.
    ///   - destination: the receiver's address and port.
    ///   - payload: the bytes of the datagram.
    ///   - hopLimit: the number of routers that may forward it, plus one.
    public static func udp(
        from source: Endpoint, to destination: Endpoint, payload: [UInt8], hopLimit: UInt8 = 64
    ) -> [UInt8] {
        udp(
            from: source.address, port: source.port, to: destination.address, port: destination.port,
            payload: payload, hopLimit: hopLimit)
    }

    /// A UDP datagram in an IP packet.
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

    /// An IP header without options or extensions, followed by `payload` (RFC 791, RFC 8200).
    ///
    /// - Parameters:
    ///   - source: the sender.
    ///   - destination: the receiver.
    ///   - number: the protocol of the payload: 1 is ICMP, 6 TCP, 17 UDP, 58 ICMPv6.
    ///   - payload: the bytes after the header.
    ///   - hopLimit: the number of routers that may forward it, plus one.
    public static func ipPacket(
        from source: IPAddress, to destination: IPAddress, number: UInt8, payload: [UInt8], hopLimit: UInt8 = 64
    ) -> [UInt8] {
        let most = source.isIPv6 ? 65_535 - 40 : 65_535 - 20
        guard source.isIPv6 == destination.isIPv6, payload.count <= most else { return [] }
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

    /// An ICMP or ICMPv6 echo request or reply between addresses as text, such as `192.0.2.1` or `2001:db8::1`.
    /// - Throws: an error that describes the invalid address, or that the families differ.
    public static func icmpEcho(
        from source: String, to destination: String, identifier: UInt16, sequence: UInt16, payload: [UInt8] = [],
        isReply: Bool = false, hopLimit: UInt8 = 64
    ) throws(AddressTextError) -> [UInt8] {
        let (from, to) = (try IPAddress(source), try IPAddress(destination))
        try check(from, to)
        return icmpEcho(
            from: from, to: to, identifier: identifier, sequence: sequence, payload: payload, isReply: isReply,
            hopLimit: hopLimit)
    }

    /// A UDP datagram between endpoints as text, such as `192.0.2.1:7` or `[2001:db8::1]:7`.
    /// - Throws: an error that describes the invalid endpoint, or that the families differ.
    public static func udp(
        from source: String, to destination: String, payload: [UInt8], hopLimit: UInt8 = 64
    ) throws(AddressTextError) -> [UInt8] {
        let (from, to) = (try Endpoint(source), try Endpoint(destination))
        try check(from.address, to.address)
        return udp(from: from, to: to, payload: payload, hopLimit: hopLimit)
    }

    private static func check(_ source: IPAddress, _ destination: IPAddress) throws(AddressTextError) {
        guard source.isIPv6 != destination.isIPv6 else { return }
        throw AddressTextError("\(source) and \(destination) are not of one family", at: 0)
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
