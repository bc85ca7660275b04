// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

private func link(_ conditions: LinkConditions, seed: UInt64 = 1) -> LossyLink<Int> {
    LossyLink(conditions, seed: seed) { message, _ in message = -message }
}

@Suite("Lossy link")
struct LossyLinkTests {
    @Test("A perfect link delivers everything once and in order")
    func perfect() {
        var link = link(.perfect)
        for number in 1...100 { link.send(number, at: 0) }
        #expect(link.nextDelivery == 0)
        #expect(link.deliver(upTo: 0) == Array(1...100))
        #expect(link.nextDelivery == nil)
        var expected = LinkStatistics()
        expected.sent = 100
        expected.delivered = 100
        #expect(link.statistics == expected)
    }

    @Test("Nothing arrives before its time")
    func delay() {
        var link = link(LinkConditions(delay: .milliseconds(10) ... .milliseconds(10)))
        link.send(1, at: 0)
        link.send(2, at: 5_000_000)
        #expect(link.deliver(upTo: 9_999_999) == [])
        #expect(link.nextDelivery == 10_000_000)
        #expect(link.deliver(upTo: 10_000_000) == [1])
        #expect(link.inFlightCount == 1)
        #expect(link.deliver(upTo: 15_000_000) == [2])
    }

    @Test("Loss, duplication, damage and overtaking happen about as often as asked, and are counted")
    func rates() {
        let conditions = LinkConditions(
            loss: 0.1, duplication: 0.2, corruption: 0.05, delay: .milliseconds(1) ... .milliseconds(50))
        var link = link(conditions, seed: 42)
        var arrived: [Int] = []
        for number in 1...10_000 {
            let now = Int64(number) * 1_000_000
            arrived += link.deliver(upTo: now)
            link.send(number, at: now)
        }
        arrived += link.deliver(upTo: .max)
        let statistics = link.statistics
        #expect(statistics.sent == 10_000)
        #expect((900...1_100).contains(statistics.lost))
        #expect((1_600...2_000).contains(statistics.duplicated))
        #expect((400...680).contains(statistics.corrupted))
        #expect(statistics.delivered == arrived.count)
        #expect(statistics.delivered == statistics.sent - statistics.lost + statistics.duplicated)
        #expect(arrived.count { $0 < 0 } == statistics.corrupted)
        #expect(statistics.overtaken > 1_000)
        #expect(arrived.map(abs) != arrived.map(abs).sorted())
    }

    @Test("The same seed repeats the same trouble")
    func repeats() {
        func run(_ seed: UInt64) -> [Int] {
            var link = link(LinkConditions(loss: 0.3, duplication: 0.3, delay: .zero ... .seconds(1)), seed: seed)
            for number in 0..<200 { link.send(number, at: 0) }
            return link.deliver(upTo: .max)
        }
        #expect(run(5) == run(5))
        #expect(run(5) != run(6))
    }

    @Test("Damage to a datagram flips one bit")
    func corruption() throws {
        var link = LossyLink<[UInt8]>(LinkConditions(corruption: 1), seed: 3)
        let original = [UInt8](0..<100)
        link.send(original, at: 0)
        link.send([], at: 0)
        let arrived = link.deliver(upTo: 0)
        try #require(arrived.count == 2)
        let flipped = zip(original, arrived[0]).map { ($0 ^ $1).nonzeroBitCount }.reduce(0, +)
        #expect(flipped == 1)
        #expect(arrived[1] == [])
    }

    @Test("A network that goes down loses its datagrams in flight, and conditions can change")
    func goesDown() {
        var link = link(LinkConditions(delay: .seconds(1) ... .seconds(1)))
        link.send(1, at: 0)
        link.dropAll()
        link.conditions.loss = 1
        link.send(2, at: 0)
        link.conditions = .perfect
        link.send(3, at: 0)
        #expect(link.deliver(upTo: .max) == [3])
        #expect(link.statistics.lost == 2)
    }
}
