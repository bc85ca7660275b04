// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// The error of a network that is unsuitable for clients' addresses.
package enum AddressRangeError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The network has no address for any client.
    case noRoom(IPPrefix)

    package var description: String {
        switch self {
        case .noRoom(let network): "\(network) has no address left for a client"
        }
    }
}

/// The addresses that clients of a server can have in a network. A value without state.
package struct AddressRange: Hashable, Sendable {
    package let network: IPPrefix
    /// The server's own address.
    package let server: IPAddress
    /// The addresses that a host can have, as numbers. The server's address may be among them.
    package let usable: ClosedRange<UInt128>

    /// The addresses of the network that the server's own address is in.
    /// - Throws: `.noRoom`.
    package init(server: InterfaceAddress) throws(AddressRangeError) {
        network = server.network
        self.server = server.address
        let isIPv6 = network.isIPv6
        let bits = UInt128(network.address.bitWidth - network.length)
        let first = network.address.value
        let last = first | ((UInt128(1) << bits) &- 1)
        // A host cannot have the network's own address (in IPv6 the subnet-router anycast address, RFC 4291 section 2.6.1) or
        // the broadcast address. A network of two addresses has neither (RFC 3021, RFC 6164).
        let low = bits > 1 ? first + 1 : first
        let high = bits > 1 && !isIPv6 ? last - 1 : last
        guard bits > 0, low < high || low != server.address.value else { throw .noRoom(network) }
        usable = low...high
    }

    /// Whether a client can have this address.
    package func contains(_ address: IPAddress) -> Bool {
        address.isIPv6 == network.isIPv6 && usable.contains(address.value) && address != server
    }

    /// The number of addresses for clients, at most `Int.max`.
    package var capacity: Int {
        let count = usable.upperBound - usable.lowerBound
        // The range has `count` + 1 addresses. If the server's address is one of them, `count` are left for clients.
        let (sum, overflows) = count.addingReportingOverflow(usable.contains(server.value) ? 0 : 1)
        return overflows ? .max : Int(exactly: sum) ?? .max
    }

    /// The address with this value.
    package func address(_ value: UInt128) -> IPAddress { IPAddress(isIPv6: network.isIPv6, value: value) }
}
