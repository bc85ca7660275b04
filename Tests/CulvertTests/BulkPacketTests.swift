// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing
import TunnelIO

@testable import DemoSupport

@Suite("Bulk packets")
struct BulkPacketTests {
    private let transfer = BulkTransfer(from: .v4(10, 77, 0, 2), to: .v4(10, 77, 0, 1), mtu: 1420)

    private var counters: BulkCounters { transfer.counters.withValue { $0 } }

    private func receive(_ bytes: [UInt8]) { unsafe bytes.withUnsafeBytes { unsafe transfer.receive($0) } }

    @Test("A packet is as long as the MTU and arrives as it was sent")
    func roundTrip() {
        let bytes = transfer.packet(123_456)
        #expect(bytes.count == 1420)
        #expect(Array(bytes[..<4]) == [0x45, 0, 0x05, 0x8c])
        #expect(bytes == transfer.packet(123_456 % 1024) && bytes != transfer.packet(123_457))
        receive(transfer.packet(0))
        #expect(counters.received == 1 && counters.damaged == 0 && counters.bytes == 1420)
    }

    @Test("Any one changed byte of headers or pattern is noticed")
    func damage() {
        let good = transfer.packet(5)
        for index in good.indices {
            var bad = good
            bad[index] ^= 1
            receive(bad)
            #expect(counters.damaged == UInt64(index + 1), "byte \(index)")
        }
        #expect(counters.next == 0)
    }

    @Test("A packet of another length is not one of these packets, and no two of them are alike")
    func strangers() {
        receive(Array(transfer.packet(1).dropLast()))
        receive(transfer.packet(1) + [0])
        #expect(counters.received == 0)
        #expect(Set(transfer.packets).count == transfer.packets.count)
    }

    @Test("The receiver counts late and damaged packets, and wakes the sender for each 16 and for the last")
    func receiver() {
        transfer.counters.withValue { $0.sent = 22 }
        for sequence in [0, 1, 4, 3] as [UInt64] { receive(transfer.packet(sequence)) }
        var bad = transfer.packet(5)
        bad[28] ^= 1
        receive(bad)
        #expect(counters.received == 5 && counters.next == 5 && counters.outOfOrder == 1 && counters.damaged == 1)
        var copy = counters
        let wakes = ((10...20) as ClosedRange<UInt64>).map { copy.count($0, isIntact: true) }
        #expect(wakes == Array(repeating: false, count: 10) + [true])
        #expect(copy.received == 16 && copy.next == 21 && copy.damaged == 1)
        let wakesForLast = copy.count(21, isIntact: true)
        #expect(wakesForLast && copy.next == copy.sent)
    }

    @Test("A packet's number continues the sequence of those that arrived, after each 1,024 packets too")
    func sequence() {
        var counters = BulkCounters(packetByteCount: 1420)
        (counters.next, counters.sent) = (3 * 1024 - 2, 3 * 1024 + 10)
        for number in [1022, 1023, 0, 5, 4] as [UInt64] { _ = counters.count(number, isIntact: true) }
        #expect(counters.next == 3 * 1024 + 6 && counters.outOfOrder == 1 && counters.missing == 3 * 1024 + 1)
    }

    @Test("A packet that was given up is no longer counted as in flight")
    func givenUp() {
        var counters = BulkCounters(packetByteCount: 1420)
        for count in [512, 128] as [UInt64] {
            counters.sent += count
            counters.next = counters.sent
        }
        _ = counters.count(0, isIntact: true)
        #expect(counters.next == 640 && counters.outOfOrder == 1)
    }
}
