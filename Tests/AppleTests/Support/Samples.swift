// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import TunnelIO

/// Values that tests share.
enum Samples {
    /// The package's folder.
    static var root: URL {
        (0..<4).reduce(URL(fileURLWithPath: #filePath)) { url, _ in url.deletingLastPathComponent() }
    }

    /// A file for wg-quick, of a client whose default route is the tunnel.
    static let wgQuickFile = """
        [Interface]
        PrivateKey = yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=
        Address = 10.0.0.2/32
        [Peer]
        PublicKey = xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=
        Endpoint = vpn.example:51820
        AllowedIPs = 0.0.0.0/0
        """

    /// A UDP datagram over IPv4 with a unique number.
    static func packet(_ number: Int, size: Int = 1) -> [UInt8] {
        PacketBuilder.udp(
            from: .v4(10, 0, 0, 2), port: 1, to: .v4(10, 0, 0, 1), port: UInt16(truncatingIfNeeded: number),
            payload: [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: size))
    }

    /// The same over IPv6.
    static func packet6(_ number: Int) -> [UInt8] {
        PacketBuilder.udp(
            from: .v6(0xfd00_0000_0000_0000, 2), port: 1, to: .v6(0xfd00_0000_0000_0000, 1), port: 2,
            payload: [UInt8(truncatingIfNeeded: number)])
    }
}
