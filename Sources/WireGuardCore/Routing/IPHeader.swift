// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The fields of a raw IP packet that a tunnel needs.
package enum IPHeader {
    /// The length of an IPv4 header without options (RFC 791).
    package static let minimumLengthV4 = 20
    /// The length of the fixed IPv6 header (RFC 8200).
    package static let lengthV6 = 40

    /// Returns the length of the packet in bytes according to its IP header, without padding after it.
    ///
    /// Returns `nil` unless `packet` starts with a well-formed packet. For version 4 the header must have at least five
    /// words, and the total length must contain the header and be available. For version 6 the whole payload must be
    /// available.
    package static func totalLength(of packet: UnsafeRawBufferPointer) -> Int? {
        guard packet.count >= minimumLengthV4 else { return nil }
        let first = unsafe packet[0]
        switch first >> 4 {
        case 4:
            let headerLength = Int(first & 0x0f) * 4
            let total = unsafe Int(packet[2]) << 8 | Int(packet[3])
            guard headerLength >= minimumLengthV4, total >= headerLength, total <= packet.count else { return nil }
            return total
        case 6:
            guard packet.count >= lengthV6 else { return nil }
            let total = unsafe lengthV6 + (Int(packet[4]) << 8 | Int(packet[5]))
            return total <= packet.count ? total : nil
        default:
            return nil
        }
    }
}
