// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The few facts about a raw IP packet that a tunnel needs.
package enum IPHeader {
    /// The length of an IPv4 header without options (RFC 791).
    package static let minimumLengthV4 = 20
    /// The length of the fixed IPv6 header (RFC 8200).
    package static let lengthV6 = 40

    /// The length in bytes in the IP header, without padding after it.
    ///
    /// `nil` unless `packet` starts with a well-formed packet: version 4 with a header of at least five words and a total
    /// length that contains the header and is available; or version 6 with the whole payload available.
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
