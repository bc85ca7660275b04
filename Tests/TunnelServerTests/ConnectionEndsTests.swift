// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import TunnelServer

@Suite("Ends of former clients' connections")
struct ConnectionEndsTests {
    private let pool: IPPrefix
    private let (anna, ben, carl): (IPPrefix, IPPrefix, IPPrefix)

    init() throws {
        pool = try IPPrefix("10.66.0.0/24")
        (anna, ben, carl) = (try IPPrefix("10.66.0.2"), try IPPrefix("10.66.0.3"), try IPPrefix("10.66.0.4"))
    }

    @Test("A failed attempt is repeated, but not for an address that a client has now")
    func failed() throws {
        var ends = ConnectionEnds()
        ends.release([anna, ben, try IPPrefix("192.168.50.0/24")])
        #expect(ends.isDue && ends.includes(anna))
        let first = ends.begin(retries: true, clients: [])
        #expect(first?.networks == [anna, ben])
        #expect(!ends.isDue && ends.includes(anna) && ends.begin(retries: true, clients: []) == nil)
        // Another client gets anna's address during the attempt.
        ends.admit([anna])
        ends.finish(isDone: false) { $0 == anna }
        #expect(ends.isDue && !ends.includes(anna))
        #expect(ends.begin(retries: false, clients: [anna]) == nil)
        #expect(ends.begin(retries: true, clients: [anna])?.networks == [ben])
        ends.finish(isDone: true) { $0 == anna }
        #expect(!ends.isDue)
    }

    @Test("At the start the connections of addresses without a client end, and present clients keep theirs")
    func start() {
        var ends = ConnectionEnds()
        ends.retry([pool])
        let first = ends.begin(retries: true, clients: [anna])
        #expect(first?.networks == [pool] && first?.kept == [anna.address])
        #expect(!ends.includes(anna) && ends.includes(ben))
        ends.finish(isDone: true) { $0 == anna }
        #expect(!ends.isDue && !ends.includes(ben))
    }

    @Test("A client that gets an address whose connections were not ended waits for one more attempt")
    func oneMore() {
        var ends = ConnectionEnds()
        ends.release([anna])
        _ = ends.begin(retries: true, clients: [])
        ends.finish(isDone: false) { _ in false }
        ends.admit([anna, ben])
        #expect(ends.includes(anna) && !ends.includes(ben))
        #expect(ends.begin(retries: false, clients: [anna, ben])?.networks == [anna])
        ends.finish(isDone: false) { _ in true }
        #expect(!ends.isDue && !ends.includes(anna))
        // Its own connections end when it leaves.
        ends.release([anna])
        #expect(ends.begin(retries: false, clients: [])?.networks == [anna])
    }

    @Test("Whole networks are tried again without the addresses of clients")
    func networks() {
        var ends = ConnectionEnds()
        ends.retry([pool])
        ends.admit([anna])
        let first = ends.begin(retries: true, clients: [anna])
        #expect(first?.networks == [pool, anna] && first?.kept == [])
        ends.finish(isDone: false) { $0 == anna }
        #expect(ends.isDue && !ends.includes(anna))
        // A present client does not wait; a new one does.
        ends.admit([ben])
        let second = ends.begin(retries: true, clients: [anna, ben])
        #expect(second?.networks == [pool, ben] && second?.kept == [anna.address])
        #expect(!ends.includes(anna) && ends.includes(ben) && ends.includes(carl))
        // The next attempt ends the connections of a client that leaves during the attempt.
        ends.release([anna])
        #expect(ends.includes(anna))
        ends.finish(isDone: true) { $0 == ben }
        #expect(ends.begin(retries: true, clients: [ben])?.networks == [anna])
        ends.finish(isDone: true) { $0 == ben }
        #expect(!ends.isDue)
    }
}
