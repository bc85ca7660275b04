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
    /// - Parameter owner: whose client it is. What it gave back it gets again without a rest.
    /// - Returns: the addresses, each alone in its network.
    /// - Throws: `.full`, `.taken`, `.outside`; then nothing was given.
    package mutating func take(
        own: [IPAddress] = [], for owner: String? = nil, at now: Int64
    ) throws(AddressPoolError) -> [IPAddress] {
        if let address = own.first(where: { index(of: $0) == nil }) { throw outside(address) }
        var leases: [AddressPool.Lease] = []
        do throws(AddressPoolError) {
            for index in pools.indices {
                let isIPv6 = pools[index].network.isIPv6
                if let address = own.first(where: { $0.isIPv6 == isIPv6 }) {
                    leases.append(try pools[index].lease(address))
                } else {
                    leases.append(try pools[index].lease(for: owner, at: now))
                }
            }
        } catch {
            for (index, lease) in leases.enumerated() { pools[index].undo(lease) }
            throw error
        }
        return leases.map(\.address)
    }

    /// Takes addresses back.
    package mutating func give(back addresses: [IPAddress], of owner: String? = nil, at now: Int64) {
        for address in addresses {
            if let index = index(of: address) { pools[index].give(back: address, of: owner, at: now) }
        }
    }

    /// The addresses that other users do not get now, without those that belong to a user.
    package func uses(at now: Int64) -> [AddressUse] { pools.flatMap { $0.uses(at: now) } }

    /// The next addresses for users that have none: up to `count` of each pool, and no more than an eighth of it.
    package func upcoming(_ count: Int, at now: Int64) -> [IPAddress] {
        pools.flatMap { $0.upcoming(count, at: now) }
    }

    /// The time since which all addresses rest that ``uses(at:)`` does not have; `nil` if they need no rest.
    package func othersRestSince(at now: Int64) -> Int64? {
        pools.lazy.compactMap { $0.othersRestSince(at: now) }.max()
    }

    /// Has all addresses rest that no client has had yet, since it is not known who had them in an earlier run.
    package mutating func restOthers(since time: Int64) {
        for index in pools.indices { pools[index].restOthers(since: time) }
    }

    /// Has the addresses of an earlier run rest. The rest of those that clients had at its end begins now.
    package mutating func restore(_ uses: [AddressUse], at now: Int64) {
        for index in pools.indices { pools[index].restore(uses, at: now) }
    }

    private func index(of address: IPAddress) -> Int? {
        pools.firstIndex { $0.network.contains(address) }
    }

    private func outside(_ address: IPAddress) -> AddressPoolError {
        let network = pools.first { $0.network.isIPv6 == address.isIPv6 } ?? pools.first
        return .outside(address, network?.network ?? IPPrefix(host: address))
    }
}
