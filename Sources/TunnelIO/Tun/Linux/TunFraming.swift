// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// What stands in front of each packet on a Linux TUN descriptor: nothing, 4 bytes of packet information (without
/// `IFF_NO_PI`), a 10-byte `struct virtio_net_hdr` (with `IFF_VNET_HDR`), or both in that order.
///
/// Superframes are not handled here: with the offload mask at zero the kernel makes none and wants none.
package struct TunFraming: Hashable, Sendable {
    /// Whether there is packet information: 16 bits of flags and the EtherType, in network order.
    package var hasPacketInformation: Bool
    /// Whether there is a virtio network header, its numbers in the machine's byte order.
    package var hasVirtioHeader: Bool

    /// The length of `struct virtio_net_hdr` without the count of merged buffers.
    package static let virtioLength = 10
    private static let informationLength = 4

    /// The framing of a descriptor.
    package init(hasPacketInformation: Bool = false, hasVirtioHeader: Bool = false) {
        self.hasPacketInformation = hasPacketInformation
        self.hasVirtioHeader = hasVirtioHeader
    }

    /// The bytes in front of each packet, at most 14.
    package var length: Int {
        (hasPacketInformation ? Self.informationLength : 0) + (hasVirtioHeader ? Self.virtioLength : 0)
    }

    private enum Virtio {
        static let needsChecksum: UInt8 = 1
        static let noSegments: UInt8 = 0
    }

    /// Checks a frame that was read, and completes the checksum that the kernel left to the hardware that a TUN device has not.
    ///
    /// `frame` is the framing and the packet behind it.
    /// - Returns: the length of the packet; nil when the frame is too short, inconsistent, or a superframe.
    package func finish(_ frame: UnsafeMutableRawBufferPointer) -> Int? {
        let count = frame.count - length
        guard count > 0 else { return nil }
        guard hasVirtioHeader else { return count }
        let at = length - Self.virtioLength
        let flags = unsafe frame[at]
        let segmentation = unsafe frame[at + 1]
        guard segmentation == Virtio.noSegments else { return nil }
        guard flags & Virtio.needsChecksum != 0 else { return count }
        let start = unsafe Int(frame.loadUnaligned(fromByteOffset: at + 6, as: UInt16.self))
        let offset = unsafe Int(frame.loadUnaligned(fromByteOffset: at + 8, as: UInt16.self))
        guard start + offset + 2 <= count else { return nil }
        let packet = unsafe UnsafeMutableRawBufferPointer(rebasing: frame[length...])
        unsafe Self.completeChecksum(of: packet, from: start, at: start + offset)
        return count
    }

    /// The field holds the sum of the pseudo-header, so that summing over it as it stands includes that.
    private static func completeChecksum(of packet: UnsafeMutableRawBufferPointer, from start: Int, at field: Int) {
        var checksum = unsafe InternetChecksum.of(UnsafeRawBufferPointer(rebasing: packet[start...]))
        // A computed zero would mean "none" in UDP and is the same number to TCP (RFC 768, RFC 1071).
        if checksum == 0 { checksum = 0xffff }
        unsafe packet.storeBytes(of: checksum.bigEndian, toByteOffset: field, as: UInt16.self)
    }

    /// Writes the framing of a packet whose checksums are complete.
    ///
    /// `header` has room for ``length`` bytes; `version` is the packet's IP version, 4 or 6.
    package func writeHeader(_ header: UnsafeMutableRawBufferPointer, version: UInt8) {
        for index in 0..<length { unsafe header[index] = 0 }
        guard hasPacketInformation else { return }
        let type: UInt16 = version == 6 ? 0x86dd : 0x0800
        unsafe header.storeBytes(of: type.bigEndian, toByteOffset: 2, as: UInt16.self)
    }
}
