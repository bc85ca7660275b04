// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import TunnelIO

@Suite("Joining packets")
struct CoalescingPlanTests {
    private let kinds = [(false, true), (true, true), (false, false), (true, false)]

    @Test("Many flows in one batch are joined separately")
    func manyFlows() throws {
        var packets: [[UInt8]] = []
        var flows: [FlowBuilder] = []
        for (isIPv6, isTCP) in kinds {
            for port in 0..<4 { flows.append(FlowBuilder(isIPv6: isIPv6, isTCP: isTCP, sourcePort: UInt16(port))) }
        }
        for round in 0..<5 {
            for index in flows.indices { packets.append(flows[index].packet(pattern(100, seed: round))) }
        }
        let written = try coalesced(packets)
        #expect(written.map(\.indices) == (0..<16).map { flow in (0..<5).map { flow + 16 * $0 } })
    }

    @Test("Packets of a disabled offload are not joined")
    func switchedOff() throws {
        for (isIPv6, isTCP) in kinds {
            var flow = FlowBuilder(isIPv6: isIPv6, isTCP: isTCP)
            let packets = (0..<3).map { _ in flow.packet([1, 2]) }
            #expect(try coalesced(packets, joinsTCP: !isTCP, joinsUDP: isTCP).count == 3)
            #expect(try coalesced(packets, joinsTCP: isTCP, joinsUDP: !isTCP).count == 1)
        }
    }

    @Test("A push flag moves to the last packet of its frame and does not end it")
    func push() throws {
        var flow = FlowBuilder()
        // The fourth packet is shorter, which ends the frame.
        let packets = [0x10, 0x18, 0x10, 0x10].enumerated().map { index, flags in
            flow.packet(index < 3 ? [1, 2] : [1], flags: flags)
        }
        let more = (0..<2).map { _ in flow.packet([1, 2]) }
        let written = try coalesced(packets + more)
        #expect(written.map(\.indices) == [[0, 1, 2, 3], [4, 5]])
        #expect(written.map { $0.bytes[33] } == [0x18, 0x10])
        let restored = try #require(split(written[0].header, written[0].bytes))
        #expect(restored.map { $0[33] } == [0x10, 0x10, 0x10, 0x18])
        for packet in restored { #expect(isChecksumRight(packet, transport: 20, isTCP: true)) }
        #expect(restored == movingPush(packets))
    }

    @Test("Wrong checksums are neither joined nor mended, wherever they are", arguments: [0, 1, 2, 3])
    func checksum(wrong: Int) throws {
        for (isIPv6, isTCP) in kinds {
            var flow = FlowBuilder(isIPv6: isIPv6, isTCP: isTCP)
            var packets = (0..<4).map { flow.packet(pattern(50, seed: $0)) }
            packets[wrong][packets[wrong].count - 1] ^= 1
            let written = try coalesced(packets)
            #expect(written.contains { $0.indices == [wrong] && $0.bytes == packets[wrong] })
            for frame in written where frame.indices.count > 1 { #expect(!frame.indices.contains(wrong)) }
            #expect(written.flatMap(\.indices) == [0, 1, 2, 3])
        }
        var flow = FlowBuilder()
        var packets = (0..<4).map { flow.packet(pattern(50, seed: $0)) }
        packets[wrong][10] ^= 1
        #expect(try coalesced(packets).contains { $0.indices == [wrong] })
    }

    @Test("Out of order, doubled or with a gap, packets are not joined, and keep their order")
    func order() throws {
        var flow = FlowBuilder()
        let packets = (0..<4).map { flow.packet(pattern(50, seed: $0)) }
        #expect(
            try coalesced([packets[1], packets[0], packets[2], packets[3]]).map(\.indices) == [[0], [1], [2, 3]])
        #expect(try coalesced([packets[0], packets[0], packets[1]]).map(\.indices) == [[0], [1, 2]])
        #expect(try coalesced([packets[0], packets[2]]).map(\.indices) == [[0], [1]])
    }

    @Test("A shorter packet is the last of its frame; a longer one begins another frame")
    func sizes() throws {
        for (isIPv6, isTCP) in kinds {
            var flow = FlowBuilder(isIPv6: isIPv6, isTCP: isTCP)
            let packets = [50, 50, 20, 20, 50].map { flow.packet(pattern($0, seed: $0)) }
            #expect(try coalesced(packets).map(\.indices) == [[0, 1, 2], [3], [4]])
        }
    }

    @Test("Sequence numbers go around")
    func wrap() throws {
        var flow = FlowBuilder()
        flow.sequence = 0xffff_ffce
        flow.identifier = 0xffff
        flow.fragment = 0
        let packets = (0..<3).map { flow.packet(pattern(50, seed: $0)) }
        #expect(try coalesced(packets).map(\.indices) == [[0, 1, 2]])
    }

    @Test("Packets with different fields are not joined")
    func fields() throws {
        func check(_ isIPv6: Bool, _ isTCP: Bool = true, _ change: (inout FlowBuilder) -> Void) throws {
            var flow = FlowBuilder(isIPv6: isIPv6, isTCP: isTCP)
            let first = flow.packet([1, 2, 3])
            change(&flow)
            let second = flow.packet([4, 5, 6])
            #expect(try coalesced([first, second]).count == 2)
        }
        for isTCP in [false, true] {
            for isIPv6 in [false, true] {
                try check(isIPv6, isTCP) { $0.hopLimit = 63 }
                try check(isIPv6, isTCP) { $0.service = 4 }
                try check(isIPv6, isTCP) { $0.sourcePort = 4 }
            }
            try check(false, isTCP) { $0.fragment = 0 }
            try check(false, isTCP) { $0.fragment = 0x2000 }
            try check(false, isTCP) { $0.fragment = 0x4001 }
            // Traffic class.
            try check(true, isTCP) { $0.service = 0x0040_0000 }
        }
        for isIPv6 in [false, true] {
            try check(isIPv6) { $0.acknowledgement += 1 }
            try check(isIPv6) { $0.options[11] += 1 }
            try check(isIPv6) { $0.options = [] }
        }
    }

    @Test("Without the mark against fragments, numbers count on or packets stay apart")
    func identifiers() throws {
        var flow = FlowBuilder(isTCP: false)
        flow.fragment = 0
        let first = flow.packet([1])
        let second = flow.packet([2])
        flow.identifier += 1
        let third = flow.packet([3])
        #expect(try coalesced([first, second, third]).map(\.indices) == [[0, 1], [2]])
    }

    @Test(
        "Other flags, and no payload, are never joined nor overtaken",
        arguments: [0x00, 0x02, 0x11, 0x12, 0x14, 0x30, 0x50, 0x90, 0x10])
    func flags(flags: UInt8) throws {
        var flow = FlowBuilder()
        let packets = [
            flow.packet([1, 2]), flow.packet(flags == 0x10 ? [] : [3, 4], flags: flags), flow.packet([5, 6]),
            flow.packet([7, 8]),
        ]
        #expect(try coalesced(packets).map(\.indices) == [[0], [1], [2, 3]])
    }

    @Test("Packets with IPv4 options and UDP without a checksum are not joined")
    func leftAlone() throws {
        var flow = FlowBuilder(isTCP: false)
        var packets = (0..<2).map { _ in flow.packet([1, 2]) }
        for index in 0..<2 { packets[index].replaceSubrange(26..<28, with: [0, 0]) }
        #expect(try coalesced(packets).count == 2)
        packets = (0..<2).map { _ in flow.packet([1, 2]) }
        for index in 0..<2 {
            packets[index][0] = 0x46
            packets[index][3] += 4
            packets[index].insert(contentsOf: [1, 1, 1, 1], at: 20)
        }
        #expect(try coalesced(packets).count == 2)
    }

    @Test("No more than 64 packets are joined, and no more than 65,535 bytes")
    func limits() throws {
        for (isIPv6, isTCP) in kinds {
            var flow = FlowBuilder(isIPv6: isIPv6, isTCP: isTCP)
            let small = (0..<130).map { _ in flow.packet([1]) }
            #expect(try coalesced(small).map(\.indices.count) == [64, 64, 2])
            let large = (0..<50).map { _ in flow.packet(pattern(1400, seed: 1)) }
            #expect(try coalesced(large).map(\.indices.count) == [46, 4])
        }
    }

    @Test("Splitting joined packets restores all but the places of push flags", arguments: 0..<30)
    func differential(seed: UInt64) throws {
        var random = SplitMix(seed)
        var flows: [FlowBuilder] = []
        for index in 0..<6 {
            var flow = FlowBuilder(isIPv6: index % 2 == 0, isTCP: index % 3 != 0, sourcePort: UInt16(index))
            flow.sequence = UInt32.random(in: 0...UInt32.max, using: &random)
            flow.identifier = UInt16.random(in: 0...UInt16.max, using: &random)
            // So that their numbers count.
            flow.fragment = 0
            flows.append(flow)
        }
        var packets: [[UInt8]] = []
        for _ in 0..<200 {
            let index = Int.random(in: 0..<flows.count, using: &random)
            let length = [0, 1, 64, 64, 64, 64, 64, 64, 300].randomElement(using: &random) ?? 0
            let flags: UInt8 = [0x10, 0x10, 0x10, 0x10, 0x18, 0x11].randomElement(using: &random) ?? 0x10
            packets.append(flows[index].packet(pattern(length, seed: length), flags: flags))
            if Int.random(in: 0..<20, using: &random) == 0 {
                packets[packets.count - 1][Int.random(in: 0..<28, using: &random)] ^= 4
            }
        }
        let written = try coalesced(packets)
        var joined = 0
        for frame in written {
            guard frame.indices.count > 1 else {
                #expect(frame.bytes == packets[frame.indices[0]])
                continue
            }
            joined += frame.indices.count
            #expect(
                try #require(split(frame.header, frame.bytes)) == movingPush(frame.indices.map { packets[$0] }))
        }
        #expect(joined > 20)
        #expect(written.flatMap(\.indices).sorted() == Array(packets.indices))
    }

    @Test("No packet traps", arguments: 0..<10)
    func fuzz(seed: UInt64) throws {
        var random = SplitMix(seed)
        var packets: [[UInt8]] = []
        for _ in 0..<300 {
            var flow = FlowBuilder(isIPv6: .random(using: &random), isTCP: .random(using: &random))
            var packet = flow.packet(pattern(Int.random(in: 0...60, using: &random), seed: 1))
            for _ in 0..<Int.random(in: 0...4, using: &random) {
                packet[Int.random(in: 0..<28, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            packet.removeLast(Int.random(in: 0...packet.count, using: &random))
            packets.append(packet)
        }
        #expect(try coalesced(packets).flatMap(\.indices).sorted() == Array(packets.indices))
    }
}
