// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Small IP packets with correct checksums, for probes, demonstrations and tests. Not for the data path: each is an array.
package enum PacketBuilder {
    /// An address in host order.
    package enum Address: Hashable, Sendable {
        /// An IPv4 address.
        case v4(UInt32)
        /// The two halves of an IPv6 address.
        case v6(UInt64, UInt64)

        /// `a.b.c.d`.
        package static func v4(_ a: UInt8, _ b: UInt8, _ c: UInt8, _ d: UInt8) -> Address {
            .v4(UInt32(a) << 24 | UInt32(b) << 16 | UInt32(c) << 8 | UInt32(d))
        }

        /// The bytes in network order.
        package var bytes: [UInt8] {
            switch self {
            case .v4(let address): PacketBuilder.bytes(address)
            case .v6(let high, let low): PacketBuilder.bytes(high) + PacketBuilder.bytes(low)
            }
        }
    }

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
        from source: Address, to destination: Address, identifier: UInt16, sequence: UInt16, payload: [UInt8] = [],
        isReply: Bool = false, hopLimit: UInt8 = 64
    ) -> [UInt8] {
        let type: UInt8
        let number: UInt8
        switch source {
        case .v4: (type, number) = (isReply ? 0 : 8, IPProtocol.icmp)
        case .v6: (type, number) = (isReply ? 129 : 128, IPProtocol.icmpv6)
        }
        var message: [UInt8] = [type, 0, 0, 0] + bytes(identifier) + bytes(sequence) + payload
        var checksum =
            switch source {
            case .v4: InternetChecksum()
            case .v6: pseudoHeader(from: source, to: destination, number: number, length: message.count)
            }
        unsafe message.withUnsafeBytes { unsafe checksum.add($0) }
        message.replaceSubrange(2..<4, with: bytes(checksum.value))
        return ipPacket(from: source, to: destination, number: number, payload: message, hopLimit: hopLimit)
    }

    /// A UDP datagram in an IP packet. Both addresses are of one family; the packet may not exceed 65,535 bytes.
    package static func udp(
        from source: Address, port sourcePort: UInt16, to destination: Address, port destinationPort: UInt16,
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
        from source: Address, to destination: Address, number: UInt8, payload: [UInt8], hopLimit: UInt8 = 64
    ) -> [UInt8] {
        switch source {
        case .v4:
            let length = UInt16(clamping: 20 + payload.count)
            var header: [UInt8] = [0x45, 0] + bytes(length) + [0, 0, 0x40, 0, hopLimit, number, 0, 0]
            header += source.bytes + destination.bytes
            let checksum = unsafe header.withUnsafeBytes { unsafe InternetChecksum.of($0) }
            header.replaceSubrange(10..<12, with: bytes(checksum))
            return header + payload
        case .v6:
            let length = UInt16(clamping: payload.count)
            return [0x60, 0, 0, 0] + bytes(length) + [number, hopLimit] + source.bytes + destination.bytes + payload
        }
    }

    /// The sum that a transport checksum starts from (RFC 768, RFC 8200 section 8.1).
    package static func pseudoHeader(
        from source: Address, to destination: Address, number: UInt8, length: Int
    ) -> InternetChecksum {
        var checksum = InternetChecksum()
        for address in [source, destination] {
            switch address {
            case .v4(let word): checksum.add(word)
            case .v6(let high, let low):
                checksum.add(high)
                checksum.add(low)
            }
        }
        checksum.add(UInt32(clamping: length))
        checksum.add(UInt16(number))
        return checksum
    }

    private static func bytes(_ value: some FixedWidthInteger) -> [UInt8] {
        unsafe withUnsafeBytes(of: value.bigEndian) { unsafe Array($0) }
    }
}
