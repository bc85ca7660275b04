// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// Why a pool has no address to give.
package enum AddressPoolError: Error, Hashable, Sendable, CustomStringConvertible {
    /// All addresses are given out, or rest after they were.
    case full(IPPrefix, inUse: Int, resting: Int)
    /// The address is another client's at this moment.
    case taken(IPAddress)
    /// The address is not one that a client of this pool can have.
    case outside(IPAddress, IPPrefix)
    /// The network has no address for any client.
    case noRoom(IPPrefix)

    /// What it is, and what to do.
    package var description: String {
        switch self {
        case .full(let network, let inUse, let resting):
            "no address of \(network) is free: \(inUse) are in use and \(resting) rest after use; make the network larger, or "
                + "let addresses rest for a shorter time"
        case .taken(let address): "\(address) is in use"
        case .outside(let address, let network):
            "\(address) is no client's address in \(network): it lies outside, or is the network's or the server's own"
        case .noRoom(let network): "\(network) has no address for a client beside the server's"
        }
    }
}

/// The addresses of one network that clients of a server get.
///
/// An address that is given back rests for a while: what was on its way to its last owner does not reach the next. Memory is
/// for the addresses in use and at rest only, however large the network is. A value without a clock.
package struct AddressPool: Sendable {
    /// The network.
    package let network: IPPrefix
    private let server: UInt128
    private let usable: ClosedRange<UInt128>
    /// How long an address rests, in nanoseconds.
    private let rest: Int64

    /// Ten years, in seconds.
    private static let longestRest: Int64 = 315_360_000

    /// The lowest address that nobody had yet; nil when there is none.
    private var next: UInt128?
    private var inUse: Set<UInt128> = []
    /// Addresses that belong to somebody, in use or not.
    private var fixed: Set<UInt128> = []
    /// Those that were given back, in the order in which they may be given again.
    private var resting = RestQueue()

    /// The pool of the network that the server's own address is in.
    /// - Throws: `.noRoom`.
    package init(server: InterfaceAddress, rest: Duration) throws(AddressPoolError) {
        network = server.network
        self.server = server.address.value
        let isIPv6 = network.isIPv6
        let bits = UInt128(network.address.bitWidth - network.length)
        let first = network.address.value
        let last = first | ((UInt128(1) << bits) &- 1)
        // The network's own address (of IPv6: that of any router, RFC 4291 section 2.6.1) and the broadcast are no host's; a
        // network of two addresses has neither (RFC 3021, RFC 6164).
        let low = bits > 1 ? first + 1 : first
        let high = bits > 1 && !isIPv6 ? last - 1 : last
        guard bits > 0, low < high || low != server.address.value else { throw .noRoom(network) }
        usable = low...high
        next = low
        self.rest = min(max(rest.components.seconds, 0), Self.longestRest) * 1_000_000_000
    }

    /// How many addresses are in use, and how many rest.
    package var counts: (inUse: Int, resting: Int) { (inUse.count, resting.count) }

    /// Says that an address belongs to somebody: others do not get it.
    /// - Throws: `.outside`.
    package mutating func keep(_ address: IPAddress) throws(AddressPoolError) {
        try check(address)
        fixed.insert(address.value)
    }

    /// Gives an address to a client.
    /// - Parameter now: nanoseconds, as for ``give(back:at:)``.
    /// - Throws: `.full`.
    package mutating func take(at now: Int64) throws(AddressPoolError) -> IPAddress {
        // Those that were used before come first, so that memory does not grow with the number of clients that ever were.
        while let value = resting.popFirst(until: now) {
            if isFree(value) { return use(value) }
        }
        while let value = next {
            next = value < usable.upperBound ? value + 1 : nil
            if isFree(value) { return use(value) }
        }
        throw .full(network, inUse: inUse.count, resting: resting.count)
    }

    /// Gives a client the address that belongs to it.
    /// - Throws: `.outside`; `.taken` while it is in use.
    package mutating func take(_ address: IPAddress) throws(AddressPoolError) -> IPAddress {
        try check(address)
        guard !inUse.contains(address.value) else { throw .taken(address) }
        return use(address.value)
    }

    /// Takes an address back. One that nobody has is left alone.
    package mutating func give(back address: IPAddress, at now: Int64) {
        guard address.isIPv6 == network.isIPv6, inUse.remove(address.value) != nil else { return }
        // Its owner alone gets it again.
        guard !fixed.contains(address.value) else { return }
        resting.append(address.value, until: now.addingReportingOverflow(rest).partialValue)
    }

    /// Takes back an address that nobody has heard of: it need not rest.
    mutating func undo(_ address: IPAddress) {
        guard inUse.remove(address.value) != nil, !fixed.contains(address.value) else { return }
        resting.prepend(address.value)
    }

    private func check(_ address: IPAddress) throws(AddressPoolError) {
        guard address.isIPv6 == network.isIPv6, usable.contains(address.value), address.value != server else {
            throw .outside(address, network)
        }
    }

    private func isFree(_ value: UInt128) -> Bool {
        value != server && !inUse.contains(value) && !fixed.contains(value)
    }

    private mutating func use(_ value: UInt128) -> IPAddress {
        inUse.insert(value)
        return IPAddress(isIPv6: network.isIPv6, value: value)
    }
}

/// Addresses at rest. All rest equally long, so the first is the one that is free again first.
private struct RestQueue: Sendable {
    private var entries: [(value: UInt128, until: Int64)] = []
    private var start = 0

    var count: Int { entries.count - start }

    mutating func append(_ value: UInt128, until: Int64) {
        entries.append((value, until))
    }

    mutating func prepend(_ value: UInt128) {
        entries.insert((value, .min), at: start)
    }

    /// Takes out the first if it has rested.
    mutating func popFirst(until now: Int64) -> UInt128? {
        guard start < entries.count, entries[start].until <= now else { return nil }
        defer {
            start += 1
            if start > 64, start * 2 > entries.count {
                entries.removeFirst(start)
                start = 0
            }
        }
        return entries[start].value
    }
}
