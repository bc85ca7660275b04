// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import TunnelIO

@Suite("ICMPResponder")
struct ICMPResponderTests {
    private static let v4 = PacketBuilder.icmpEcho(
        from: .v4(10, 0, 0, 1), to: .v4(10, 0, 0, 2), identifier: 77, sequence: 5, payload: [1, 2, 3])
    private static let v6 = PacketBuilder.icmpEcho(
        from: .v6(0xfd00 << 48, 1), to: .v6(0xfd00 << 48, 2), identifier: 77, sequence: 5, payload: [1, 2, 3])

    @Test("An IPv4 request gets the reply with its identifier, sequence number and data")
    func replyV4() {
        #expect(
            reply(to: Self.v4)
                == PacketBuilder.icmpEcho(
                    from: .v4(10, 0, 0, 2), to: .v4(10, 0, 0, 1), identifier: 77, sequence: 5, payload: [1, 2, 3],
                    isReply: true))
    }

    @Test("An IPv6 request gets the reply with its identifier, sequence number and data")
    func replyV6() {
        #expect(
            reply(to: Self.v6)
                == PacketBuilder.icmpEcho(
                    from: .v6(0xfd00 << 48, 2), to: .v6(0xfd00 << 48, 1), identifier: 77, sequence: 5,
                    payload: [1, 2, 3], isReply: true))
    }

    @Test("A reply gets no reply")
    func noLoop() throws {
        for request in [Self.v4, Self.v6] {
            #expect(try reply(to: #require(reply(to: request))) == nil)
        }
    }

    @Test("Bytes behind the packet are not part of it")
    func trailing() {
        #expect(reply(to: Self.v4 + [0xaa, 0xbb]) == reply(to: Self.v4))
        #expect(reply(to: Self.v6 + [0xaa]) == reply(to: Self.v6))
    }

    @Test("A request that is cut short anywhere gets no reply")
    func truncated() {
        for request in [Self.v4, Self.v6] {
            for length in 0..<request.count { #expect(reply(to: Array(request[..<length])) == nil) }
        }
    }

    @Test("A request with any bit wrong that a checksum covers gets no reply")
    func corrupted() {
        for index in Self.v4.indices {
            for bit in 0..<8 {
                var packet = Self.v4
                packet[index] ^= 1 << bit
                #expect(reply(to: packet) == nil, "byte \(index), bit \(bit)")
            }
        }
        // IPv6 has no header checksum: traffic class, flow label and hop limit may be anything.
        for index in Self.v6.indices where index > 3 && index != 7 {
            for bit in 0..<8 {
                var packet = Self.v6
                packet[index] ^= 1 << bit
                #expect(reply(to: packet) == nil, "byte \(index), bit \(bit)")
            }
        }
    }

    @Test("A request with IPv4 options is answered without them")
    func options() {
        var packet = Self.v4
        packet[0] = 0x46
        packet[3] += 4
        packet.insert(contentsOf: [1, 1, 1, 0], at: 20)
        fixHeader(&packet)
        #expect(reply(to: packet) == reply(to: Self.v4))
    }

    @Test("Fragments get no reply", arguments: [UInt8(0x20), 0x01])
    func fragment(_ flags: UInt8) {
        var packet = Self.v4
        packet[6] = flags
        fixHeader(&packet)
        #expect(reply(to: packet) == nil)
    }

    @Test("Nothing is answered to or from groups and unspecified addresses")
    func groups() {
        let host = IPAddress.v4(10, 0, 0, 1)
        for other in [IPAddress.v4(224, 0, 0, 1), .v4(255, 255, 255, 255)] {
            #expect(reply(to: PacketBuilder.icmpEcho(from: host, to: other, identifier: 1, sequence: 1)) == nil)
            #expect(reply(to: PacketBuilder.icmpEcho(from: other, to: host, identifier: 1, sequence: 1)) == nil)
        }
        #expect(reply(to: PacketBuilder.icmpEcho(from: .v4(0), to: host, identifier: 1, sequence: 1)) == nil)
        let hostV6 = IPAddress.v6(0xfd00 << 48, 1)
        let group = IPAddress.v6(0xff02 << 48, 1)
        #expect(reply(to: PacketBuilder.icmpEcho(from: hostV6, to: group, identifier: 1, sequence: 1)) == nil)
        #expect(reply(to: PacketBuilder.icmpEcho(from: group, to: hostV6, identifier: 1, sequence: 1)) == nil)
        #expect(reply(to: PacketBuilder.icmpEcho(from: .v6(0, 0), to: hostV6, identifier: 1, sequence: 1)) == nil)
    }

    @Test("Random bytes never trap")
    func random() {
        var generator = SplitMix(9)
        for _ in 0..<5000 {
            var packet = (0..<Int.random(in: 0...80, using: &generator)).map { _ in
                UInt8.random(in: 0...255, using: &generator)
            }
            if !packet.isEmpty { packet[0] = Bool.random(using: &generator) ? 0x45 : 0x60 }
            #expect(reply(to: packet) == nil)
        }
    }

    private func reply(to packet: [UInt8]) -> [UInt8]? {
        ICMPResponder().reply(to: packet)
    }

    private func fixHeader(_ packet: inout [UInt8]) {
        packet[10] = 0
        packet[11] = 0
        let length = Int(packet[0] & 15) * 4
        let checksum = unsafe packet[..<length].withUnsafeBytes { unsafe InternetChecksum.of($0) }
        packet[10] = UInt8(checksum >> 8)
        packet[11] = UInt8(checksum & 0xff)
    }
}
