// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The prefix of each packet on a Darwin utun socket: its address family, 32 bits in network order.
package enum UtunFraming {
    /// The bytes in front of each packet.
    package static let length = 4

    /// Darwin's `AF_INET` and `AF_INET6`, whose numbers differ from other systems'.
    private static let inet: UInt32 = 2
    private static let inet6: UInt32 = 30

    /// The header of a packet, as it is in memory; `nil` if the packet is neither IPv4 nor IPv6.
    package static func header(of packet: UnsafeRawBufferPointer) -> UInt32? {
        guard let first = unsafe packet.first else { return nil }
        return switch first >> 4 {
        case 4: inet.bigEndian
        case 6: inet6.bigEndian
        default: nil
        }
    }

    /// The length of the packet in a frame of `count` bytes with this header, as it lay in memory.
    /// - Returns: `nil` if the frame holds no packet, or one of neither family.
    package static func packetLength(frame count: Int, header: UInt32) -> Int? {
        let family = UInt32(bigEndian: header)
        guard count > length, family == inet || family == inet6 else { return nil }
        return count - length
    }

    /// The unit that a name requests: `utun` for any, `utunN` for that one.
    /// - Returns: the unit for `sc_unit`, where 0 is any and N + 1 is `utunN`; `nil` if the name is not a utun's.
    package static func unit(of name: String) -> UInt32? {
        let prefix = "utun"
        guard name.hasPrefix(prefix), name.utf8.count <= 15 else { return nil }
        let digits = name.dropFirst(prefix.count)
        guard !digits.isEmpty else { return 0 }
        guard digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            digits == "0" || digits.first != "0", let number = UInt32(digits), number < .max
        else { return nil }
        return number + 1
    }

    /// The size of a utun socket's buffers: four times the system's default, within the memory of an extension.
    package static let bufferBytes = 2 << 20

    /// Returns the number of packets that the kernel may queue on the socket before it stops the interface
    /// (`UTUN_OPT_MAX_PENDING_PACKETS`).
    ///
    /// The system's default of one packet costs a round trip through flow control for every packet. The result is the
    /// largest power of two at which packets of 1280 bytes fit into the receive buffer, and at least 1.
    package static func pendingPackets(receiveBuffer byteCount: Int) -> UInt32 {
        let packets = UInt32(clamping: max(byteCount / 1280, 1))
        return UInt32(1) << UInt32(packets.bitWidth - 1 - packets.leadingZeroBitCount)
    }
}

/// A message of a Darwin routing socket about an interface (`RTM_IFINFO`, `struct if_msghdr`).
package struct UtunLinkMessage: Hashable, Sendable {
    /// The interface.
    package var index: UInt16
    /// Whether it is up.
    package var isUp: Bool
    /// Its MTU in bytes.
    package var mtu: Int

    private static let type: UInt8 = 0x0e

    /// Reads a message; `nil` for one of another type, or too short.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= 28, unsafe bytes[3] == Self.type else { return nil }
        isUp = unsafe bytes.loadUnaligned(fromByteOffset: 8, as: UInt32.self) & 1 != 0
        index = unsafe bytes.loadUnaligned(fromByteOffset: 12, as: UInt16.self)
        mtu = unsafe Int(bytes.loadUnaligned(fromByteOffset: 24, as: UInt32.self))
    }
}
