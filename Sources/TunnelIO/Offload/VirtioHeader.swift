// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// `struct virtio_net_hdr` without the count of merged buffers, its numbers in the machine's byte order.
package struct VirtioHeader: Hashable, Sendable {
    /// The bytes that it takes.
    package static let length = 10
    /// In ``flags``: the checksum at ``checksumStart`` and ``checksumOffset`` contains only the sum of the pseudo-header.
    package static let needsChecksum: UInt8 = 1

    /// The way to split a superframe.
    package enum Segmentation {
        package static let none: UInt8 = 0
        package static let tcp4: UInt8 = 1
        package static let tcp6: UInt8 = 4
        package static let udp: UInt8 = 5
        /// Set in addition if congestion was signalled (ECN).
        package static let congestion: UInt8 = 0x80
    }

    package var flags: UInt8 = 0
    package var segmentation: UInt8 = 0
    /// The length of all headers in bytes. Not reliable for packets that the kernel forwards.
    package var headerLength: UInt16 = 0
    /// The payload of each segment but the last.
    package var segmentSize: UInt16 = 0
    package var checksumStart: UInt16 = 0
    package var checksumOffset: UInt16 = 0

    /// All zero: one packet, complete.
    package init() {}

    /// Reads the header at the start of `bytes`; `nil` if there are fewer than ten.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= Self.length else { return nil }
        flags = unsafe bytes[0]
        segmentation = unsafe bytes[1]
        headerLength = unsafe bytes.loadUnaligned(fromByteOffset: 2, as: UInt16.self)
        segmentSize = unsafe bytes.loadUnaligned(fromByteOffset: 4, as: UInt16.self)
        checksumStart = unsafe bytes.loadUnaligned(fromByteOffset: 6, as: UInt16.self)
        checksumOffset = unsafe bytes.loadUnaligned(fromByteOffset: 8, as: UInt16.self)
    }

    /// Writes the header to the first ten bytes of `bytes`.
    package func store(to bytes: UnsafeMutableRawBufferPointer) {
        precondition(bytes.count >= Self.length)
        unsafe bytes[0] = flags
        unsafe bytes[1] = segmentation
        unsafe bytes.storeBytes(of: headerLength, toByteOffset: 2, as: UInt16.self)
        unsafe bytes.storeBytes(of: segmentSize, toByteOffset: 4, as: UInt16.self)
        unsafe bytes.storeBytes(of: checksumStart, toByteOffset: 6, as: UInt16.self)
        unsafe bytes.storeBytes(of: checksumOffset, toByteOffset: 8, as: UInt16.self)
    }
}

/// Numbers in network order at offsets that were checked before.
extension UnsafeRawPointer {
    @inline(__always)
    func byte(_ offset: Int) -> UInt8 { unsafe load(fromByteOffset: offset, as: UInt8.self) }

    @inline(__always)
    func big16(_ offset: Int) -> UInt16 {
        UInt16(bigEndian: unsafe loadUnaligned(fromByteOffset: offset, as: UInt16.self))
    }

    @inline(__always)
    func big32(_ offset: Int) -> UInt32 {
        UInt32(bigEndian: unsafe loadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }
}

extension UnsafeMutableRawPointer {
    @inline(__always)
    func setBig16(_ value: UInt16, at offset: Int) {
        unsafe storeBytes(of: value.bigEndian, toByteOffset: offset, as: UInt16.self)
    }

    @inline(__always)
    func setBig32(_ value: UInt32, at offset: Int) {
        unsafe storeBytes(of: value.bigEndian, toByteOffset: offset, as: UInt32.self)
    }
}

/// Checksums of whole packets. The caller has checked that the packets are long enough.
enum TransportChecksum {
    /// The sum of the pseudo-header (RFC 768, RFC 8200 section 8.1), not complemented.
    @inline(__always)
    static func pseudoHeader(_ packet: UnsafeRawPointer, isIPv6: Bool, number: UInt8, length: Int) -> InternetChecksum {
        var sum = InternetChecksum()
        if isIPv6 {
            unsafe sum.add(UnsafeRawBufferPointer(start: packet + 8, count: 32))
        } else {
            unsafe sum.add(UnsafeRawBufferPointer(start: packet + 12, count: 8))
        }
        sum.add(UInt32(truncatingIfNeeded: length))
        sum.add(UInt16(number))
        return sum
    }

    /// Whether the transport checksum of a packet of `count` bytes is right.
    @inline(__always)
    static func isRight(
        _ packet: UnsafeRawPointer, count: Int, isIPv6: Bool, number: UInt8, transport: Int
    ) -> Bool {
        var sum = unsafe pseudoHeader(packet, isIPv6: isIPv6, number: number, length: count &- transport)
        unsafe sum.add(UnsafeRawBufferPointer(start: packet + transport, count: count &- transport))
        return sum.value == 0
    }
}
