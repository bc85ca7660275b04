// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The prefix of each packet on a Linux TUN descriptor: none; a 10-byte `struct virtio_net_hdr` (with `IFF_VNET_HDR`); a
/// 4-byte `struct tun_pi` (without `IFF_NO_PI`); or both, the latter first.
///
/// `SegmentSplitter` and `CoalescingPlan` handle superframes.
package struct TunFraming: Hashable, Sendable {
    /// Whether there is a virtio network header, its numbers in the machine's byte order.
    package var hasVirtioHeader: Bool
    /// Whether there is packet information: 16 bits of flags, and the protocol as in an Ethernet header.
    package var hasPacketInformation: Bool

    /// The length of `struct virtio_net_hdr` without the count of merged buffers.
    package static let virtioLength = 10

    /// The framing of a descriptor.
    package init(hasVirtioHeader: Bool = false, hasPacketInformation: Bool = false) {
        self.hasVirtioHeader = hasVirtioHeader
        self.hasPacketInformation = hasPacketInformation
    }

    /// The bytes in front of each packet.
    package var length: Int { virtioOffset + (hasVirtioHeader ? Self.virtioLength : 0) }

    /// The offset of the virtio header.
    package var virtioOffset: Int { hasPacketInformation ? 4 : 0 }

    /// The packet information of a packet, as it is in memory; `nil` if the packet is neither IPv4 nor IPv6.
    package static func packetInformation(of packet: UnsafeRawBufferPointer) -> UInt32? {
        guard let first = unsafe packet.first else { return nil }
        return switch first >> 4 {
        case 4: UInt32(0x0800).bigEndian
        case 6: UInt32(0x86dd).bigEndian
        default: nil
        }
    }

    private enum Virtio {
        static let needsChecksum: UInt8 = 1
        static let noSegments: UInt8 = 0
    }

    /// Checks a frame that was read, and completes a checksum that the kernel left to hardware, which a TUN device does
    /// not have.
    ///
    /// `frame` contains the prefix and the packet after it.
    /// - Returns: the length of the packet; `nil` if the frame is too short, inconsistent, or a superframe.
    package func finish(_ frame: UnsafeMutableRawBufferPointer) -> Int? {
        let count = frame.count - length
        guard count > 0 else { return nil }
        guard hasVirtioHeader else { return count }
        let flags = unsafe frame[virtioOffset]
        let segmentation = unsafe frame[virtioOffset + 1]
        guard segmentation == Virtio.noSegments else { return nil }
        guard flags & Virtio.needsChecksum != 0 else { return count }
        let start = unsafe Int(frame.loadUnaligned(fromByteOffset: virtioOffset + 6, as: UInt16.self))
        let offset = unsafe Int(frame.loadUnaligned(fromByteOffset: virtioOffset + 8, as: UInt16.self))
        guard start + offset + 2 <= count else { return nil }
        let packet = unsafe UnsafeMutableRawBufferPointer(rebasing: frame[length...])
        unsafe Self.completeChecksum(of: packet, from: start, at: start + offset)
        return count
    }

    /// Completes the checksum at `field`, which contains the sum of the pseudo-header, so that a sum over the bytes
    /// from `start` includes it.
    private static func completeChecksum(of packet: UnsafeMutableRawBufferPointer, from start: Int, at field: Int) {
        var checksum = unsafe InternetChecksum.of(UnsafeRawBufferPointer(rebasing: packet[start...]))
        // A computed zero would mean "none" in UDP and is the same number to TCP (RFC 768, RFC 1071).
        if checksum == 0 { checksum = 0xffff }
        unsafe packet.storeBytes(of: checksum.bigEndian, toByteOffset: field, as: UInt16.self)
    }
}
