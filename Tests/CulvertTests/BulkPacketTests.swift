// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing
import TunnelIO

@testable import culvert

@Suite("Bulk packets")
struct BulkPacketTests {
    private let packet = BulkPacket(from: .v4(10, 77, 0, 2), to: .v4(10, 77, 0, 1), mtu: 1420)

    private func bytes(_ sequence: UInt64, kind: BulkPacket.Kind = .data) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: packet.byteCount)
        unsafe bytes.withUnsafeMutableBytes { unsafe packet.write(sequence, run: 7, kind: kind, to: $0) }
        return bytes
    }

    private func read(_ bytes: [UInt8]) -> BulkPacket.Reading? {
        unsafe bytes.withUnsafeBytes { unsafe packet.read($0) }
    }

    @Test("A packet is as long as the MTU and reads as it was written")
    func roundTrip() throws {
        let bytes = bytes(123_456)
        #expect(bytes.count == 1420)
        #expect(Array(bytes[..<4]) == [0x45, 0, 0x05, 0x8c])
        let reading = try #require(read(bytes))
        #expect(reading.sequence == 123_456 && reading.run == 7 && reading.kind == .data && reading.isIntact)
    }

    @Test("Any one changed byte of headers or pattern is noticed")
    func damage() throws {
        let good = bytes(5)
        // Sequence, run and kind stand at 28..<44 and say what the packet is.
        for index in good.indices where !(28..<44).contains(index) {
            var bad = good
            bad[index] ^= 1
            #expect(try #require(read(bad)).isIntact == false, "byte \(index)")
        }
        var other = good
        other[28] ^= 1
        #expect(try #require(read(other)).isIntact == false)
    }

    @Test("What has another length or kind is none of these packets")
    func strangers() {
        #expect(read(Array(bytes(1).dropLast())) == nil)
        var bytes = bytes(1)
        bytes[40] = 9
        #expect(read(bytes) == nil)
    }

    @Test("An acknowledgement reads as it was written")
    func acknowledgement() {
        let value = BulkAcknowledgement(run: 3, received: 1 << 40, next: (1 << 40) + 5)
        let copy = unsafe value.payload.withUnsafeBytes { unsafe BulkAcknowledgement(payload: $0) }
        #expect(copy == value)
        #expect(value.lost == 5)
        let short = unsafe value.payload.dropLast().withUnsafeBytes { unsafe BulkAcknowledgement(payload: $0) }
        #expect(short == nil)
    }

    @Test("The receiver counts what is lost, late and damaged, and a probe settles what came before it")
    func receiver() {
        var receiver = BulkReceiver()
        func take(_ sequence: UInt64, kind: BulkPacket.Kind = .data, intact: Bool = true) -> BulkAcknowledgement? {
            receiver.take(
                BulkPacket.Reading(sequence: sequence, run: 1, kind: kind, isIntact: intact), byteCount: 1420)
        }
        for sequence in [0, 1, 4, 3] as [UInt64] { #expect(take(sequence) == nil) }
        #expect(take(5, intact: false) == nil)
        #expect(receiver.received == 5 && receiver.next == 6 && receiver.outOfOrder == 1 && receiver.damaged == 1)
        #expect(take(10, kind: .probe) == BulkAcknowledgement(run: 1, received: 5, next: 10))
        #expect(receiver.received == 5 && receiver.bytes == 5 * 1420)
        for sequence in 10..<UInt64(41) { #expect(take(sequence) == nil) }
        #expect(take(41) == BulkAcknowledgement(run: 1, received: 37, next: 42))
        // Another run starts over.
        let next = BulkPacket.Reading(sequence: 0, run: 2, kind: .data, isIntact: true)
        #expect(receiver.take(next, byteCount: 100) == nil)
        #expect(receiver.received == 1 && receiver.bytes == 100 && receiver.damaged == 0)
    }
}
