// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// The pools of a server, at most one of each family.
package struct AddressPools: Sendable {
    private var pools: [AddressPool]

    /// Pools of the networks that these addresses of the server are in.
    /// - Parameter rest: how long an address that was given back is given to nobody.
    package init(servers: [InterfaceAddress], rest: Duration) throws(AddressPoolError) {
        pools = []
        for server in servers { pools.append(try AddressPool(server: server, rest: rest)) }
    }

    /// The networks.
    package var networks: [IPPrefix] { pools.map(\.network) }

    /// How many addresses are in use, and how many rest.
    package var counts: (inUse: Int, resting: Int) {
        pools.reduce((0, 0)) { ($0.0 + $1.counts.inUse, $0.1 + $1.counts.resting) }
    }

    /// Says that addresses belong to somebody.
    /// - Throws: `.outside` for the first that is in none of the networks.
    package mutating func keep(_ addresses: [IPAddress]) throws(AddressPoolError) {
        for address in addresses {
            guard let index = index(of: address) else { throw outside(address) }
            try pools[index].keep(address)
        }
    }

    /// Gives a client an address of each pool: of `own` where that has one, else any.
    /// - Returns: the addresses, each alone in its network.
    /// - Throws: `.full`, `.taken`, `.outside`; then nothing was given.
    package mutating func take(own: [IPAddress] = [], at now: Int64) throws(AddressPoolError) -> [IPAddress] {
        if let address = own.first(where: { index(of: $0) == nil }) { throw outside(address) }
        var addresses: [IPAddress] = []
        do throws(AddressPoolError) {
            for index in pools.indices {
                let isIPv6 = pools[index].network.isIPv6
                if let address = own.first(where: { $0.isIPv6 == isIPv6 }) {
                    addresses.append(try pools[index].take(address))
                } else {
                    addresses.append(try pools[index].take(at: now))
                }
            }
        } catch {
            for (index, address) in addresses.enumerated() { pools[index].undo(address) }
            throw error
        }
        return addresses
    }

    /// Takes addresses back.
    package mutating func give(back addresses: [IPAddress], at now: Int64) {
        for address in addresses {
            if let index = index(of: address) { pools[index].give(back: address, at: now) }
        }
    }

    private func index(of address: IPAddress) -> Int? {
        pools.firstIndex { $0.network.contains(address) }
    }

    private func outside(_ address: IPAddress) -> AddressPoolError {
        let network = pools.first { $0.network.isIPv6 == address.isIPv6 } ?? pools.first
        return .outside(address, network?.network ?? IPPrefix(host: address))
    }
}
