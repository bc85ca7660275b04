// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import TunnelServer

private let second: Int64 = 1_000_000_000

@Suite struct AddressPoolTests {
    private func pool(_ server: String, rest: Duration = .seconds(60)) throws -> AddressPool {
        try AddressPool(server: InterfaceAddress(server), rest: rest)
    }

    @Test("A pool gives each address of its network once, and never the server's own, the network's or the broadcast")
    func givesEachOnce() throws {
        var pool = try pool("10.66.0.1/29")
        var given: [String] = []
        for _ in 0..<5 { given.append(try pool.take(at: 0).description) }
        #expect(given == ["10.66.0.2", "10.66.0.3", "10.66.0.4", "10.66.0.5", "10.66.0.6"])
        #expect(throws: AddressPoolError.full(pool.network, inUse: 5, resting: 0)) { try pool.take(at: 0) }
    }

    @Test("An address that was given back rests, and is given again after that and not before")
    func rests() throws {
        var pool = try pool("10.66.0.1/30", rest: .seconds(60))
        let address = try pool.take(at: 0)
        pool.give(back: address, at: second)
        #expect(throws: AddressPoolError.full(pool.network, inUse: 0, resting: 1)) { try pool.take(at: 60 * second) }
        #expect(try pool.take(at: 61 * second) == address)
        // Given back twice, it is still one address.
        pool.give(back: address, at: 61 * second)
        pool.give(back: address, at: 61 * second)
        #expect(try pool.take(at: 200 * second) == address)
        #expect(throws: AddressPoolError.self) { try pool.take(at: 200 * second) }
    }

    @Test("A user that comes and goes gets its own address again and again, and empties no pool")
    func reuses() throws {
        var pool = try pool("10.66.0.1/24", rest: .seconds(3600))
        var given: Set<IPAddress> = []
        for round in 0..<1000 as Range<Int64> {
            let address = try pool.take(for: "anna", at: round)
            given.insert(address)
            pool.give(back: address, of: "anna", at: round)
        }
        #expect(given.count == 1 && pool.counts.resting == 1)
        // To others it is at rest.
        let other = try pool.take(for: "ben", at: 1000)
        #expect(!given.contains(other))
        // Two of its sessions at once have two, and both again afterwards.
        let both = try [pool.take(for: "anna", at: 1000), pool.take(for: "anna", at: 1000)]
        #expect(Set(both).count == 2 && given.isSubset(of: both) && !both.contains(other))
        for address in both { pool.give(back: address, of: "anna", at: 1001) }
        #expect(try Set([pool.take(for: "anna", at: 1002), pool.take(for: "anna", at: 1002)]) == Set(both))
    }

    @Test("The upcoming addresses are those that new users get, in this order")
    func upcoming() throws {
        var pool = try pool("10.66.0.1/26", rest: .seconds(60))
        for _ in 0..<3 { pool.give(back: try pool.take(for: "anna", at: 0), of: "anna", at: 0) }
        let held = try [pool.take(for: "anna", at: 0), pool.take(for: "ben", at: 0)]
        pool.give(back: held[0], of: "anna", at: second)
        for now in [2 * second, 61 * second] {
            var pool = pool
            let upcoming = pool.upcoming(100, at: now)
            // An eighth of the pool.
            #expect(upcoming.count == 7 && pool.upcoming(2, at: now) == Array(upcoming.prefix(2)))
            #expect(upcoming.contains(held[0]) == (now > 60 * second) && !upcoming.contains(held[1]))
            for address in upcoming { #expect(try pool.take(for: "cleo", at: now) == address) }
        }
    }

    @Test("If the former users are unknown, all addresses rest, for less time if no other is free")
    func restsOthers() throws {
        var pool = try pool("10.66.0.1/24", rest: .seconds(3600))
        pool.restore([AddressUse(try IPAddress("10.66.0.9"), of: "anna", restsSince: nil)], at: 0)
        pool.restOthers(since: 0)
        #expect(pool.upcoming(10, at: 0).isEmpty && pool.othersRestSince(at: 0) == 0)
        #expect(throws: AddressPoolError.self) { try pool.take(for: "ben", at: 59 * second) }
        #expect(try pool.take(for: "anna", at: 0) == IPAddress("10.66.0.9"))
        #expect(try pool.take(for: "ben", at: 60 * second) == IPAddress("10.66.0.2"))
        #expect(pool.othersRestSince(at: 3600 * second) == nil)
        #expect(pool.upcoming(1, at: 3600 * second) == [try IPAddress("10.66.0.3")])
    }

    @Test("Where no other address is free, the one that has rested longest is given early, but not at once")
    func restsLessInNeed() throws {
        var pool = try pool("10.66.0.1/29", rest: .seconds(3600))
        var addresses: [IPAddress] = []
        for number in 0..<5 as Range<Int64> { addresses.append(try pool.take(for: "user\(number)", at: 0)) }
        for (index, address) in addresses.enumerated() {
            pool.give(back: address, of: "user\(index)", at: Int64(index) * second)
        }
        #expect(throws: AddressPoolError.full(pool.network, inUse: 0, resting: 5)) {
            try pool.take(for: "new", at: 60 * second - 1)
        }
        #expect(try pool.take(for: "new", at: 60 * second) == addresses[0])
        // Only that one has rested a minute.
        #expect(throws: AddressPoolError.self) { try pool.take(for: "new", at: 60 * second) }
        #expect(try pool.take(for: "user3", at: 60 * second) == addresses[3])
        #expect(try pool.take(for: "new", at: 61 * second) == addresses[1])
    }

    @Test("Addresses that users had before a restart go to other users after their rest only, and to their own at once")
    func restores() throws {
        var before = try AddressPools(servers: [InterfaceAddress("10.66.0.1/29")], rest: .seconds(3600))
        let anna = try before.take(for: "anna", at: 0)
        let ben = try before.take(for: "ben", at: 0)
        before.give(back: anna, of: "anna", at: 10 * second)
        let uses = before.uses(at: 20 * second)
        #expect(
            Set(uses) == [
                AddressUse(anna[0], of: "anna", restsSince: 10 * second),
                AddressUse(ben[0], of: "ben", restsSince: nil),
            ])

        var after = try AddressPools(servers: [InterfaceAddress("10.66.0.1/29")], rest: .seconds(3600))
        // An address of a network that the server has no more is left out.
        let foreign = AddressUse(.v4(10, 99, 0, 1), of: "cleo", restsSince: nil)
        after.restore(uses + [foreign], at: 20 * second)
        #expect(after.counts.inUse == 0 && after.counts.resting == 2)
        #expect(try after.take(for: "ben", at: 21 * second) == ben)
        let others = try (0..<3).map { _ in try after.take(for: "dora", at: 21 * second)[0] }
        #expect(!others.contains(anna[0]))
        #expect(throws: AddressPoolError.self) { try after.take(for: "emil", at: 22 * second) }
        // It has rested for a minute since the tenth second.
        #expect(try after.take(for: "emil", at: 70 * second) == anna)
    }

    @Test("An address that has rested for its time is not stored")
    func storesRests() throws {
        var pools = try AddressPools(servers: [InterfaceAddress("10.66.0.1/29")], rest: .seconds(3600))
        try pools.keep([.v4(10, 66, 0, 6)])
        _ = try pools.take(own: [.v4(10, 66, 0, 6)], at: 0)
        let address = try pools.take(for: "anna", at: 0)
        pools.give(back: address, of: "anna", at: 0)
        #expect(pools.uses(at: 3599 * second) == [AddressUse(address[0], of: "anna", restsSince: 0)])
        #expect(pools.uses(at: 3600 * second).isEmpty)
    }

    @Test("An address that a client was almost given rests on as it did")
    func undoes() throws {
        var pools = try AddressPools(
            servers: [InterfaceAddress("10.66.0.1/30"), InterfaceAddress("fd00::1/127")], rest: .seconds(3600))
        let first = try pools.take(for: "anna", at: 0)
        pools.give(back: [first[0]], of: "anna", at: second)
        // Its address of IPv6 is still in use.
        #expect(throws: AddressPoolError.self) { try pools.take(for: "anna", at: 2 * second) }
        pools.give(back: [first[1]], of: "anna", at: 2 * second)
        #expect(throws: AddressPoolError.self) { try pools.take(for: "ben", at: 60 * second) }
        #expect(try pools.take(for: "anna", at: 60 * second) == first)
    }

    @Test("An address that belongs to a user is given to nobody else, and to its user without a rest")
    func keepsFixed() throws {
        var pool = try pool("10.66.0.1/29")
        let own = try IPAddress("10.66.0.3")
        try pool.keep(own)
        var others: Set<IPAddress> = []
        for _ in 0..<4 { others.insert(try pool.take(at: 0)) }
        #expect(!others.contains(own))
        #expect(try pool.take(own) == own)
        #expect(throws: AddressPoolError.taken(own)) { try pool.take(own) }
        pool.give(back: own, at: 0)
        #expect(try pool.take(own) == own)
        for address in ["10.66.0.0", "10.66.0.1", "10.66.0.7", "10.66.0.8", "fd00::1"] {
            #expect(throws: AddressPoolError.self, "\(address)") { try pool.keep(IPAddress(address)) }
        }
    }

    @Test("A pool of 2^64 addresses needs memory for those in use alone, however many clients come and go")
    func staysSmall() throws {
        var pool = try pool("fd00:66::1/64", rest: .seconds(1))
        var highest: IPAddress?
        for round in 0..<10_000 {
            let address = try pool.take(at: Int64(round) * second)
            highest = max(highest ?? address, address, by: { $0.value < $1.value })
            pool.give(back: address, at: Int64(round) * second)
            #expect(pool.counts.resting <= 2)
        }
        for round in 0..<10_000 as Range<Int64> {
            let address = try pool.take(for: "user\(round % 3)", at: 20_000 * second)
            pool.give(back: address, of: "user\(round % 3)", at: 20_000 * second)
        }
        #expect(pool.counts.resting <= 5)
        #expect(highest?.description == "fd00:66::2" || highest?.description == "fd00:66::3")
    }

    @Test("A network without room for a client is refused, and one with two addresses has room for one")
    func refusesTooSmall() throws {
        #expect(throws: AddressPoolError.self) { try self.pool("10.66.0.1/32") }
        #expect(throws: AddressPoolError.self) { try self.pool("fd00::1/128") }
        var two = try pool("10.66.0.0/31")
        #expect(try two.take(at: 0).description == "10.66.0.1")
        var three = try pool("fd00::/127")
        #expect(try three.take(at: 0).description == "fd00::1")
    }

    @Test("A client gets an address of each pool, or none of either")
    func givesBothOrNone() throws {
        var pools = try AddressPools(
            servers: [InterfaceAddress("10.66.0.1/24"), InterfaceAddress("fd00::1/127")], rest: .seconds(60))
        let first = try pools.take(at: 0)
        #expect(first.map(\.description) == ["10.66.0.2", "fd00::"])
        #expect(throws: AddressPoolError.self) { try pools.take(at: 0) }
        #expect(pools.counts.inUse == 2)
        pools.give(back: first, at: 0)
        // What the second client was almost given need not rest.
        #expect(try pools.take(at: 60 * second).map(\.description) == ["10.66.0.3", "fd00::"])
        #expect(throws: AddressPoolError.self) { try pools.take(own: [IPAddress("192.0.2.1")], at: 0) }
    }
}

private func max(
    _ left: IPAddress, _ right: IPAddress, by isLess: (IPAddress, IPAddress) -> Bool
) -> IPAddress { isLess(left, right) ? right : left }
