// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// Answers ICMP and ICMPv6 echo requests as a host would that has every address (RFC 792, RFC 4443 section 4).
///
/// It answers no fragment, nothing whose checksums are wrong, and neither to nor from a group or an unspecified address.
public struct ICMPResponder: Sendable {
    /// A responder.
    public init() {}

    /// The reply to `packet`; nil when it is no echo request that deserves one.
    public func reply(to packet: UnsafeRawBufferPointer) -> [UInt8]? {
        guard let first = unsafe packet.first else { return nil }
        return switch first >> 4 {
        case 4: unsafe replyV4(packet)
        case 6: unsafe replyV6(packet)
        default: nil
        }
    }

    /// The reply to `packet`; nil when it is no echo request that deserves one.
    public func reply(to packet: [UInt8]) -> [UInt8]? {
        unsafe packet.withUnsafeBytes { unsafe reply(to: $0) }
    }

    private static let echoLength = 8

    private func replyV4(_ packet: UnsafeRawBufferPointer) -> [UInt8]? {
        guard packet.count >= 20 else { return nil }
        let headerLength = unsafe Int(packet[0] & 0x0f) * 4
        let totalLength = unsafe Int(word(packet, 2))
        guard headerLength >= 20, totalLength >= headerLength + Self.echoLength, totalLength <= packet.count,
            // More fragments, or a fragment that is not the first.
            unsafe word(packet, 6) & 0x3fff == 0,
            unsafe packet[9] == PacketBuilder.IPProtocol.icmp,
            unsafe InternetChecksum.of(UnsafeRawBufferPointer(rebasing: packet[..<headerLength])) == 0
        else { return nil }
        let message = unsafe UnsafeRawBufferPointer(rebasing: packet[headerLength..<totalLength])
        guard unsafe message[0] == 8, unsafe message[1] == 0, unsafe InternetChecksum.of(message) == 0 else {
            return nil
        }
        let source = unsafe packet.loadUnaligned(fromByteOffset: 12, as: UInt32.self).bigEndian
        let destination = unsafe packet.loadUnaligned(fromByteOffset: 16, as: UInt32.self).bigEndian
        // 224.0.0.0 upward: groups and the broadcast address.
        guard source != 0, source < 0xe000_0000, destination < 0xe000_0000 else { return nil }
        return unsafe echoReply(to: message, from: .v4(destination), to: .v4(source))
    }

    private func replyV6(_ packet: UnsafeRawBufferPointer) -> [UInt8]? {
        guard packet.count >= 40 else { return nil }
        let end = unsafe 40 + Int(word(packet, 4))
        guard end >= 40 + Self.echoLength, end <= packet.count, unsafe packet[6] == PacketBuilder.IPProtocol.icmpv6
        else { return nil }
        let source = unsafe address(packet, 8)
        let destination = unsafe address(packet, 24)
        guard source != .v6(0, 0), unsafe packet[8] != 0xff, unsafe packet[24] != 0xff else { return nil }
        let message = unsafe UnsafeRawBufferPointer(rebasing: packet[40..<end])
        var checksum = PacketBuilder.pseudoHeader(
            from: source, to: destination, number: PacketBuilder.IPProtocol.icmpv6, length: message.count)
        unsafe checksum.add(message)
        guard unsafe message[0] == 128, unsafe message[1] == 0, checksum.value == 0 else { return nil }
        return unsafe echoReply(to: message, from: destination, to: source)
    }

    private func echoReply(
        to message: UnsafeRawBufferPointer, from source: IPAddress, to destination: IPAddress
    ) -> [UInt8] {
        unsafe PacketBuilder.icmpEcho(
            from: source, to: destination, identifier: word(message, 4), sequence: word(message, 6),
            payload: Array(message[Self.echoLength...]), isReply: true)
    }

    private func word(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> UInt16 {
        unsafe bytes.loadUnaligned(fromByteOffset: offset, as: UInt16.self).bigEndian
    }

    private func address(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> IPAddress {
        unsafe .v6(
            bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self).bigEndian,
            bytes.loadUnaligned(fromByteOffset: offset + 8, as: UInt64.self).bigEndian)
    }
}
