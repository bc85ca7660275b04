// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import WireGuardCore

/// Allowed IPs as a list that is searched from end to end.
struct ModelTable {
    /// A network: the library's form of it, and 4 or 16 bytes of which the first bits count.
    struct Network {
        var prefix: IPPrefix
        var bytes: [UInt8]
    }

    private(set) var entries: [(network: Network, peer: Int)] = []

    mutating func set(_ network: Network, to peer: Int) {
        entries.removeAll { $0.network.prefix == network.prefix }
        entries.append((network, peer))
    }

    mutating func remove(_ prefix: IPPrefix, from peer: Int) {
        entries.removeAll { $0.network.prefix == prefix && $0.peer == peer }
    }

    /// The peer with the longest network that contains the destination; `nil` for none, and for bytes that are not an IP
    /// packet.
    func peer(of packet: [UInt8]) -> Int? {
        guard packet.count >= 20 else { return nil }
        let family: IPFamily
        let destination: [UInt8]
        switch packet[0] >> 4 {
        case 4: (family, destination) = (.v4, Array(packet[16..<20]))
        case 6 where packet.count >= 40: (family, destination) = (.v6, Array(packet[24..<40]))
        default: return nil
        }
        let holding = entries.filter { entry in
            guard entry.network.prefix.address.family == family else { return false }
            return (0..<entry.network.prefix.length).allSatisfy { bit in
                let differing = entry.network.bytes[bit / 8] ^ destination[bit / 8]
                return differing & (0x80 >> UInt8(bit % 8)) == 0
            }
        }
        return holding.max { $0.network.prefix.length < $1.network.prefix.length }?.peer
    }
}
