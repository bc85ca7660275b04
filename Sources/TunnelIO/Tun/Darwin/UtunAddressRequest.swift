// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// A request that adds an address to a utun interface, as bytes: `struct ifaliasreq` (net/if.h) for SIOCAIFADDR, or `struct
/// in6_aliasreq` (netinet6/in6_var.h) for SIOCAIFADDR_IN6. dev/apple/DarwinLayout.c checks the layout against Apple's
/// headers, and that of IPv6 against Apple's sources.
package struct UtunAddressRequest: Equatable, Sendable {
    package let isIPv6: Bool
    package let bytes: [UInt8]

    private static let nameLength = 16

    /// - Parameter name: the name of the interface.
    package init(_ address: InterfaceAddress, interface name: String) {
        isIPv6 = address.isIPv6
        let name = Array(name.utf8.prefix(Self.nameLength - 1))
        let mask = address.network.maskAddress
        var bytes = name + Self.zeros(Self.nameLength - name.count) + Self.socketAddress(address.address)
        if isIPv6 {
            // Only a host address has a destination; otherwise the address is all zero.
            bytes += address.peer.map(Self.socketAddress) ?? Self.zeros(28)
            bytes += Self.socketAddress(mask)
            // No flags; no dates, and lifetimes without end (ND6_INFINITE_LIFETIME).
            bytes += Self.zeros(4) + Self.zeros(16) + [UInt8](repeating: 0xff, count: 8)
        } else {
            // A point-to-point interface needs an address of the other end, which may equal the local address.
            bytes += Self.socketAddress(address.peer ?? address.address) + Self.socketAddress(mask)
        }
        self.bytes = bytes
    }

    /// `struct sockaddr_in` or `struct sockaddr_in6`, whose first byte is its length, and the second its family.
    private static func socketAddress(_ address: IPAddress) -> [UInt8] {
        address.isIPv6
            ? [28, 30] + zeros(6) + address.bytes + zeros(4) : [16, 2] + zeros(2) + address.bytes + zeros(8)
    }

    private static func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: max(count, 0)) }
}
