// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing
import TunnelIO

@testable import DemoSupport

@Suite("Bulk packets")
struct BulkPacketTests {
    private let packet = BulkPacket(from: .v4(10, 77, 0, 2), to: .v4(10, 77, 0, 1), mtu: 1420)

    private func bytes(_ sequence: UInt64) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: packet.byteCount)
        unsafe bytes.withUnsafeMutableBytes { unsafe packet.write(sequence, to: $0) }
        return bytes
    }

    private func read(_ bytes: [UInt8]) -> (sequence: UInt64, isIntact: Bool)? {
        unsafe bytes.withUnsafeBytes { unsafe packet.read($0) }
    }

    @Test("A packet is as long as the MTU and reads as it was written")
    func roundTrip() throws {
        let bytes = bytes(123_456)
        #expect(bytes.count == 1420)
        #expect(Array(bytes[..<4]) == [0x45, 0, 0x05, 0x8c])
        let reading = try #require(read(bytes))
        #expect(reading.sequence == 123_456 && reading.isIntact)
    }

    @Test("Any one changed byte of headers or pattern is noticed")
    func damage() throws {
        let good = bytes(5)
        for index in good.indices {
            var bad = good
            bad[index] ^= 1
            #expect(try #require(read(bad)).isIntact == false, "byte \(index)")
        }
    }

    @Test("A packet of another length is not one of these packets")
    func strangers() {
        #expect(read(Array(bytes(1).dropLast())) == nil)
        #expect(read(bytes(1) + [0]) == nil)
        #expect(bytes(1) != bytes(2))
    }

    @Test("The receiver counts late and damaged packets, and wakes the sender for each 16")
    func receiver() {
        var receiver = BulkTransfer(packet)
        func take(_ bytes: [UInt8]) -> Bool { unsafe bytes.withUnsafeBytes { unsafe receiver.count($0) } }
        for sequence in [0, 1, 4, 3] as [UInt64] { #expect(!take(bytes(sequence))) }
        var bad = bytes(5)
        bad[28] ^= 1
        #expect(!take(bad))
        #expect(receiver.received == 5 && receiver.next == 5 && receiver.outOfOrder == 1 && receiver.damaged == 1)
        for sequence in 10..<UInt64(20) { #expect(!take(bytes(sequence))) }
        #expect(take(bytes(20)))
        #expect(receiver.received == 16 && receiver.next == 21 && receiver.damaged == 1)
        #expect(!take(Array(bytes(21).dropLast())) && receiver.received == 16)
    }
}
