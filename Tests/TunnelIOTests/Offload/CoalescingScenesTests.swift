// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import TunnelIO

/// The scenes of wireguard-go's `Test_handleGRO`, a common reference for implementations, with the results here. There a
/// push flag ends a frame.
@Suite("Joining packets, scene by scene")
struct CoalescingScenesTests {
    struct Scene: CustomTestStringConvertible, Sendable {
        var testDescription: String
        var packets: [[UInt8]]
        var joinsUDP = true
        /// The packets of each frame, in the order of writing.
        var expected: [[Int]]
    }

    private static let scenes: [Scene] = {
        func flow(_ isIPv6: Bool, _ isTCP: Bool, _ port: UInt16 = 1) -> FlowBuilder {
            FlowBuilder(isIPv6: isIPv6, isTCP: isTCP, sourcePort: port)
        }
        func two(_ isIPv6: Bool = false, _ isTCP: Bool = true, _ change: (inout FlowBuilder) -> Void) -> [[UInt8]] {
            var flow = flow(isIPv6, isTCP)
            let first = flow.packet(pattern(100, seed: 1))
            change(&flow)
            return [first, flow.packet(pattern(100, seed: 2))]
        }
        /// Of each family a TCP and a UDP flow with two packets, and a TCP flow with another port with one.
        func manyFlows() -> [[UInt8]] {
            var packets: [[UInt8]] = []
            for isIPv6 in [false, true] {
                var (udp, tcp, other) = (flow(isIPv6, false), flow(isIPv6, true), flow(isIPv6, true, 2))
                packets += [udp.packet(pattern(100, seed: 1)), udp.packet(pattern(100, seed: 2))]
                packets += [tcp.packet(pattern(100, seed: 3)), tcp.packet(pattern(100, seed: 4))]
                packets += [other.packet(pattern(100, seed: 5))]
            }
            return packets
        }
        func pushes() -> [[UInt8]] {
            var packets: [[UInt8]] = []
            for isIPv6 in [false, true] {
                var flow = flow(isIPv6, true)
                packets += [0x10, 0x18, 0x10, 0x10].map { flow.packet(pattern(100, seed: 1), flags: $0) }
            }
            return packets
        }
        func wrongChecksums() -> [[UInt8]] {
            var packets: [[UInt8]] = []
            for (isIPv6, isTCP) in [(false, true), (true, true), (false, false), (true, false)] {
                var flow = flow(isIPv6, isTCP)
                packets += (0..<3).map { flow.packet(pattern(100, seed: $0)) }
                packets[packets.count - 3][60] ^= 1
            }
            return packets
        }
        func outOfOrder() -> [[UInt8]] {
            var packets: [[UInt8]] = []
            for isIPv6 in [false, true] {
                var flow = flow(isIPv6, true)
                let sent = (0..<3).map { flow.packet(pattern(100, seed: $0)) }
                packets += [sent[1], sent[0], sent[2]]
            }
            return packets
        }
        return [
            Scene(
                testDescription: "many protocols and flows", packets: manyFlows(),
                expected: [[0, 1], [2, 3], [4], [5, 6], [7, 8], [9]]),
            Scene(
                testDescription: "many protocols and flows, UDP switched off", packets: manyFlows(), joinsUDP: false,
                expected: [[0], [1], [2, 3], [4], [5], [6], [7, 8], [9]]),
            Scene(
                testDescription: "push in between", packets: pushes(), expected: [[0, 1, 2, 3], [4, 5, 6, 7]]),
            Scene(
                testDescription: "a wrong checksum in front", packets: wrongChecksums(),
                expected: [[0], [1, 2], [3], [4, 5], [6], [7, 8], [9], [10, 11]]),
            // The earlier packet is not moved to the front: packets are written in the order of their arrival.
            Scene(testDescription: "out of order", packets: outOfOrder(), expected: [[0], [1], [2], [3], [4], [5]]),
            Scene(testDescription: "TTL differs", packets: two { $0.hopLimit = 63 }, expected: [[0], [1]]),
            Scene(
                testDescription: "TTL differs, UDP", packets: two(false, false) { $0.hopLimit = 63 },
                expected: [[0], [1]]),
            Scene(testDescription: "ToS differs", packets: two { $0.service = 1 }, expected: [[0], [1]]),
            Scene(
                testDescription: "ToS differs, UDP", packets: two(false, false) { $0.service = 1 },
                expected: [[0], [1]]),
            Scene(
                testDescription: "more fragments on the second", packets: two { $0.fragment = 0x2000 },
                expected: [[0], [1]]),
            Scene(
                testDescription: "more fragments on the second, UDP",
                packets: two(false, false) { $0.fragment = 0x2000 }, expected: [[0], [1]]),
            Scene(testDescription: "don't fragment differs", packets: two { $0.fragment = 0 }, expected: [[0], [1]]),
            Scene(
                testDescription: "don't fragment differs, UDP", packets: two(false, false) { $0.fragment = 0 },
                expected: [[0], [1]]),
            Scene(testDescription: "hop limit differs", packets: two(true) { $0.hopLimit = 63 }, expected: [[0], [1]]),
            Scene(
                testDescription: "hop limit differs, UDP", packets: two(true, false) { $0.hopLimit = 63 },
                expected: [[0], [1]]),
            Scene(
                testDescription: "traffic class differs", packets: two(true) { $0.service = 0x0010_0000 },
                expected: [[0], [1]]),
            Scene(
                testDescription: "traffic class differs, UDP", packets: two(true, false) { $0.service = 0x0010_0000 },
                expected: [[0], [1]]),
            Scene(
                testDescription: "flow label differs", packets: two(true) { $0.service = 1 }, expected: [[0], [1]]),
            Scene(
                testDescription: "flow label differs, UDP", packets: two(true, false) { $0.service = 1 },
                expected: [[0], [1]]),
        ]
    }()

    @Test("Frames are as they should be, and in order", arguments: scenes)
    func scene(_ scene: Scene) throws {
        let written = try coalesced(scene.packets, joinsUDP: scene.joinsUDP)
        #expect(written.map(\.indices) == scene.expected)
        for frame in written where frame.indices.count > 1 {
            #expect(split(frame.header, frame.bytes) == movingPush(frame.indices.map { scene.packets[$0] }))
        }
    }

    @Test("More than 64 and more than 128 UDP packets are that many superframes", arguments: [64, 65, 128, 129, 200])
    func manySegments(count: Int) throws {
        for isIPv6 in [false, true] {
            var flow = FlowBuilder(isIPv6: isIPv6, isTCP: false)
            let written = try coalesced((0..<count).map { flow.packet([UInt8($0)]) })
            #expect(written.allSatisfy { $0.indices.count <= 64 })
            #expect(written.flatMap(\.indices) == Array(0..<count))
            #expect(written.count == (count + 63) / 64)
        }
    }

    @Test("Exactly 65,535 bytes are joined, and one more are not")
    func longest() throws {
        for (isIPv6, isTCP) in [(false, true), (true, true), (false, false), (true, false)] {
            let builder = FlowBuilder(isIPv6: isIPv6, isTCP: isTCP)
            let room = 65_535 - builder.transport - (isTCP ? 32 : 8)
            for (last, frames) in [(room / 2, 1), (room - room / 2, room % 2 == 0 ? 1 : 2), (room / 2 + 2, 2)] {
                var flow = builder
                let packets = [flow.packet(pattern(room - room / 2, seed: 1)), flow.packet(pattern(last, seed: 2))]
                #expect(try coalesced(packets).count == frames, "\(room - room / 2) and \(last)")
            }
        }
    }

    @Test("Packets with an urgent pointer are not joined, with any flags")
    func urgentPointer() throws {
        var flow = FlowBuilder()
        var packets = (0..<3).map { flow.packet(pattern(40, seed: $0)) }
        packets[1][39] = 1
        let checksum = (Int(packets[1][36]) << 8 | Int(packets[1][37])) - 1
        packets[1].replaceSubrange(36..<38, with: [UInt8(checksum >> 8), UInt8(checksum & 255)])
        #expect(isChecksumRight(packets[1], transport: 20, isTCP: true))
        #expect(try coalesced(packets).map(\.indices) == [[0], [1], [2]])
    }

    @Test("Nothing overtakes a fragment or a packet behind extension headers, whose flow cannot be seen")
    func hiddenPorts() throws {
        func hidden(_ isIPv6: Bool) -> [UInt8] {
            var flow = FlowBuilder(isIPv6: isIPv6, isTCP: false)
            if isIPv6 {
                var packet = flow.packet(pattern(40, seed: 3))
                packet.insert(contentsOf: [17, 0, 0, 8, 0, 0, 0, 1], at: 40)
                packet[5] += 8
                packet[6] = 44
                return packet
            }
            flow.fragment = 0x2005
            return flow.packet(pattern(40, seed: 3))
        }
        for isIPv6 in [false, true] {
            for isTCP in [false, true] {
                var flow = FlowBuilder(isIPv6: isIPv6, isTCP: isTCP)
                let packets = (0..<4).map { flow.packet(pattern(50, seed: $0)) }
                let mixed = [packets[0], packets[1], hidden(isIPv6), packets[2], packets[3]]
                #expect(try coalesced(mixed).map(\.indices) == [[0, 1], [2], [3, 4]])
                // The other family's frame stays open.
                let other = [packets[0], hidden(!isIPv6), packets[1]]
                #expect(try coalesced(other).map(\.indices) == [[0, 2], [1]])
                // It also stays open after a ping, which belongs to no flow.
                let echo = PacketBuilder.icmpEcho(
                    from: isIPv6 ? .v6(1, 1) : .v4(1), to: isIPv6 ? .v6(1, 2) : .v4(2), identifier: 1, sequence: 1)
                #expect(try coalesced([packets[0], echo, packets[1]]).map(\.indices) == [[0, 2], [1]])
            }
        }
    }

    @Test("A frame is closed if more than eight other frames follow before its next packet")
    func collisions() throws {
        var packets: [[UInt8]] = []
        // Of the same hash: the ports differ in bits that it does not show.
        var flows: [FlowBuilder] = (0..<400).map { FlowBuilder(sourcePort: UInt16($0)) }
        for _ in 0..<3 { for index in flows.indices { packets.append(flows[index].packet([1, 2])) } }
        let written = try coalesced(packets)
        var last = [Int](repeating: -1, count: 400)
        for index in written.flatMap(\.indices) {
            #expect(last[index % 400] < index, "a packet was overtaken by one of its own flow")
            last[index % 400] = index
        }
        #expect(written.flatMap(\.indices).sorted() == Array(packets.indices))
    }
}
