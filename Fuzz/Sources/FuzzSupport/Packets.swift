// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import WireGuardCore

/// IPv4 and IPv6 packets for runs.
enum TestPacket {
    /// An IPv4 packet of `count` bytes, header included, filled with `fill`.
    static func v4(from source: UInt32, to destination: UInt32, count: Int, fill: UInt8) -> [UInt8] {
        let total = max(count, 20)
        var packet = [UInt8](repeating: fill, count: total)
        let header: [UInt8] = [0x45, 0, UInt8(total >> 8 & 255), UInt8(total & 255), 0, 0, 0x40, 0, 64, 17, 0, 0]
        packet.replaceSubrange(0..<20, with: header + bytes(source) + bytes(destination))
        return packet
    }

    /// An IPv6 packet of `count` bytes, header included, filled with `fill`.
    static func v6(
        from source: (UInt64, UInt64), to destination: (UInt64, UInt64), count: Int, fill: UInt8
    ) -> [UInt8] {
        let total = max(count, 40)
        var packet = [UInt8](repeating: fill, count: total)
        let payload = total - 40
        let header: [UInt8] = [0x60, 0, 0, 0, UInt8(payload >> 8 & 255), UInt8(payload & 255), 59, 64]
        let addresses = [source.0, source.1, destination.0, destination.1].flatMap { word in
            bytes(UInt32(word >> 32)) + bytes(UInt32(truncatingIfNeeded: word))
        }
        packet.replaceSubrange(0..<40, with: header + addresses)
        return packet
    }

    private static func bytes(_ word: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: word >> $0) }
    }

    /// The network of `length` bits of `address`, with the length limited to that of the family.
    static func prefix(_ address: IPAddress, _ length: Int) -> IPPrefix {
        guard let prefix = IPPrefix(address, length: min(max(length, 0), address.family.bitWidth)) else {
            finding("no prefix of length \(length)")
        }
        return prefix
    }

    /// All addresses of both families.
    static let everything = [
        prefix(IPAddress.v4(0), 0), prefix(IPAddress.v6(0, 0), 0),
    ]
}
