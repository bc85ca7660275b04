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

/// The use of an address, for storage.
package struct AddressUse: Hashable, Sendable {
    package var address: IPAddress
    /// The user whose client has the address, or had it last.
    package var owner: String?
    /// The time since which the address rests, in nanoseconds; `nil` while a client has it.
    package var restsSince: Int64?

    package init(_ address: IPAddress, of owner: String?, restsSince: Int64?) {
        self.address = address
        self.owner = owner
        self.restsSince = restsSince
    }
}

/// The addresses of one network that clients of a server get.
///
/// An address that is given back rests for a while: what was on its way to its last owner does not reach the next. Its last owner
/// gets it again at once, so that nobody empties a pool by coming and going; and where no other is free, the one that has rested
/// longest is given early, after ``shortestRest``. Memory is for the addresses in use and at rest only, however large the network
/// is. A value without a clock.
package struct AddressPool: Sendable {
    private let range: AddressRange
    /// The network.
    package var network: IPPrefix { range.network }
    private var usable: ClosedRange<UInt128> { range.usable }
    /// How long an address rests, and how long where no other is free, in nanoseconds.
    private let rest: Int64
    private let restInNeed: Int64

    /// How long an address rests at least, where it is told to rest that long, in seconds: sessions that are over have heard of it
    /// by then.
    static let shortestRest: Int64 = 60
    /// Ten years, in seconds.
    private static let longestRest: Int64 = 315_360_000

    /// The lowest address that nobody has had yet; nil when all have been given out before.
    private var next: UInt128?
    private var inUse: [UInt128: Use] = [:]
    private struct Use { var owner: String? }
    /// Addresses that belong to somebody, in use or not.
    private var fixed: Set<UInt128> = []
    /// Those that were given back.
    private var resting = RestQueue()
    /// The time since which all other addresses rest, since it is not known who had them; `nil` if they need no rest.
    private var othersRestSince: Int64?

    /// The pool of the network that the server's own address is in.
    /// - Throws: `.noRoom`.
    package init(server: InterfaceAddress, rest: Duration) throws(AddressPoolError) {
        range = try AddressRange(server: server)
        next = range.usable.lowerBound
        let seconds = min(max(rest.components.seconds, 0), Self.longestRest)
        self.rest = seconds * 1_000_000_000
        restInNeed = min(seconds, Self.shortestRest) * 1_000_000_000
    }

    /// How many addresses are in use, and how many rest.
    package var counts: (inUse: Int, resting: Int) { (inUse.count, resting.count) }

    /// Says that an address belongs to somebody: others do not get it.
    /// - Throws: `.outside`.
    package mutating func keep(_ address: IPAddress) throws(AddressPoolError) {
        try check(address)
        fixed.insert(address.value)
    }

    /// An address that was taken, and what it was before.
    struct Lease: Sendable {
        let address: IPAddress
        /// How it rested; nil for one that did not.
        fileprivate let rest: RestQueue.Rest?
    }

    /// Gives an address to a client.
    /// - Parameters:
    ///   - owner: whose client it is. What it gave back it gets again without a rest.
    ///   - now: nanoseconds, as for ``give(back:of:at:)``.
    /// - Throws: `.full`.
    package mutating func take(for owner: String? = nil, at now: Int64) throws(AddressPoolError) -> IPAddress {
        try lease(for: owner, at: now).address
    }

    mutating func lease(for owner: String?, at now: Int64) throws(AddressPoolError) -> Lease {
        while let owner, let (value, rest) = resting.popLatest(of: owner) {
            if isFree(value) { return use(value, of: owner, rest) }
        }
        // Those that were used before come first, so that memory does not grow with the number of clients that ever were.
        if let lease = popOldest(since: now &- rest, for: owner) { return lease }
        if let lease = takeNext(since: now &- rest, for: owner) { return lease }
        if let lease = popOldest(since: now &- restInNeed, for: owner) { return lease }
        if let lease = takeNext(since: now &- restInNeed, for: owner) { return lease }
        throw .full(network, inUse: inUse.count, resting: resting.count)
    }

    /// An address that this pool has not given yet, if those rest since this moment.
    private mutating func takeNext(since limit: Int64, for owner: String?) -> Lease? {
        guard (othersRestSince ?? .min) <= limit else { return nil }
        while let value = next {
            next = following(value)
            // An address of an earlier run may rest, though this one has not given it yet.
            if isFree(value), !resting.contains(value) { return use(value, of: owner, nil) }
        }
        return nil
    }

    private func following(_ value: UInt128) -> UInt128? { value < usable.upperBound ? value + 1 : nil }

    private mutating func popOldest(since limit: Int64, for owner: String?) -> Lease? {
        while let (value, rest) = resting.popOldest(since: limit) {
            if isFree(value) { return use(value, of: owner, rest) }
        }
        return nil
    }

    /// Gives a client the address that belongs to it.
    /// - Throws: `.outside`; `.taken` while it is in use.
    package mutating func take(_ address: IPAddress) throws(AddressPoolError) -> IPAddress {
        try lease(address).address
    }

    mutating func lease(_ address: IPAddress) throws(AddressPoolError) -> Lease {
        try check(address)
        guard inUse[address.value] == nil else { throw .taken(address) }
        return use(address.value, of: nil, resting.remove(address.value))
    }

    /// Takes an address back. One that nobody has is left alone.
    package mutating func give(back address: IPAddress, of owner: String? = nil, at now: Int64) {
        guard address.isIPv6 == network.isIPv6, inUse.removeValue(forKey: address.value) != nil else { return }
        // Its owner alone gets it again.
        guard !fixed.contains(address.value) else { return }
        resting.append(address.value, RestQueue.Rest(since: now, owner: owner))
    }

    /// Takes back an address that nobody has heard of: it rests as it did, or need not.
    mutating func undo(_ lease: Lease) {
        let value = lease.address.value
        guard inUse.removeValue(forKey: value) != nil, !fixed.contains(value) else { return }
        resting.insert(value, lease.rest ?? RestQueue.Rest(since: othersRestSince ?? .min, owner: nil))
    }

    private func check(_ address: IPAddress) throws(AddressPoolError) {
        guard range.contains(address) else { throw .outside(address, network) }
    }

    private func isFree(_ value: UInt128) -> Bool {
        value != range.server.value && inUse[value] == nil && !fixed.contains(value)
    }

    private mutating func use(_ value: UInt128, of owner: String?, _ rest: RestQueue.Rest?) -> Lease {
        inUse[value] = Use(owner: owner)
        return Lease(address: range.address(value), rest: rest)
    }

    // MARK: - Storage

    /// The addresses that other users do not get now, without those that belong to a user.
    func uses(at now: Int64) -> [AddressUse] {
        let present = inUse.filter { !fixed.contains($0.key) }.map { value, use in
            AddressUse(range.address(value), of: use.owner, restsSince: nil)
        }
        let former = resting.all.filter { $0.rest.since > now &- rest && !fixed.contains($0.value) }.map {
            value, rest in
            AddressUse(range.address(value), of: rest.owner, restsSince: rest.since)
        }
        return present + former
    }

    /// The next addresses for users that have none: up to `count`, and no more than an eighth of the pool.
    func upcoming(_ count: Int, at now: Int64) -> [IPAddress] {
        let count = min(count, range.capacity / 8)
        var values = resting.oldest(count, since: now &- rest).filter { isFree($0) }
        var place = (othersRestSince ?? .min) <= now &- rest ? next : nil
        while values.count < count, let value = place {
            place = following(value)
            if isFree(value), !resting.contains(value) { values.append(value) }
        }
        return values.map(range.address)
    }

    /// The time since which the addresses rest that ``uses(at:)`` does not have; `nil` if they need no rest.
    func othersRestSince(at now: Int64) -> Int64? { othersRestSince.flatMap { $0 > now &- rest ? $0 : nil } }

    /// Has all addresses rest that this pool has not given yet. It is not known when which client had them.
    mutating func restOthers(since time: Int64) { othersRestSince = time }

    /// Has the addresses of an earlier run rest. The rest of those that clients had at its end begins now.
    mutating func restore(_ uses: [AddressUse], at now: Int64) {
        let rests = uses.filter { range.contains($0.address) }
            .map {
                (value: $0.address.value, rest: RestQueue.Rest(since: min($0.restsSince ?? now, now), owner: $0.owner))
            }
        for (value, rest) in rests.sorted(by: { $0.rest.since < $1.rest.since })
        where isFree(value) && !resting.contains(value) {
            resting.append(value, rest)
        }
    }
}
