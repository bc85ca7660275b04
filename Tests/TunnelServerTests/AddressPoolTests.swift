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
