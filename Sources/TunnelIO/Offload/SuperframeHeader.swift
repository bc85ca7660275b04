// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The header of a superframe: that of its first packet with lengths, checksums and flags for the whole.
package enum SuperframeHeader {
    /// The most bytes: IPv6, and TCP with all options.
    package static let longest = 100

    /// Writes the header of `frame` to `out`, which has room for ``longest`` bytes.
    /// - Parameter head: the frame's first packet.
    /// - Returns: the frame's description for the kernel.
    @unsafe
    package static func write(
        _ frame: CoalescingPlan.Frame, head: UnsafeRawPointer, to out: UnsafeMutableRawPointer
    ) -> VirtioHeader {
        unsafe out.copyMemory(from: head, byteCount: frame.headers)
        let transport = frame.transport
        let length = frame.total - transport
        if frame.isIPv6 {
            unsafe out.setBig16(UInt16(truncatingIfNeeded: length), at: 4)
        } else {
            unsafe out.setBig16(UInt16(truncatingIfNeeded: frame.total), at: 2)
            unsafe out.setBig16(0, at: 10)
            let sum = unsafe InternetChecksum.of(UnsafeRawBufferPointer(start: out, count: transport))
            unsafe out.setBig16(sum, at: 10)
        }
        var header = VirtioHeader()
        header.flags = VirtioHeader.needsChecksum
        header.headerLength = UInt16(truncatingIfNeeded: frame.headers)
        header.segmentSize = UInt16(truncatingIfNeeded: frame.segmentSize)
        header.checksumStart = UInt16(truncatingIfNeeded: transport)
        if frame.isTCP {
            header.segmentation =
                frame.isIPv6 ? VirtioHeader.Segmentation.tcp6 : VirtioHeader.Segmentation.tcp4
            header.checksumOffset = 16
            let flags = unsafe head.byte(transport + 13) | (frame.pushes ? 0x08 : 0)
            unsafe out.storeBytes(of: flags, toByteOffset: transport + 13, as: UInt8.self)
        } else {
            header.segmentation = VirtioHeader.Segmentation.udp
            header.checksumOffset = 6
            unsafe out.setBig16(UInt16(truncatingIfNeeded: length), at: transport + 4)
        }
        let sum = unsafe TransportChecksum.pseudoHeader(
            head, isIPv6: frame.isIPv6, number: frame.isTCP ? 6 : 17, length: length)
        unsafe out.setBig16(sum.partial, at: transport + Int(header.checksumOffset))
        return header
    }
}
