// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import TunnelIO

@Suite("IPPacketView")
struct IPPacketViewTests {
    static let pairs: [(source: IPAddress, destination: IPAddress)] = [
        (.v4(10, 0, 0, 2), .v4(192, 0, 2, 1)), (.v6(0xfd00 << 48, 2), .v6(0x2001_0db8 << 32, 1)),
    ]

    /// A datagram and an echo request of each family.
    static var packets: [[UInt8]] {
        pairs.flatMap { source, destination in
            [
                PacketBuilder.udp(from: source, port: 53, to: destination, port: 7, payload: [1, 2, 3]),
                PacketBuilder.icmpEcho(
                    from: source, to: destination, identifier: 0x1234, sequence: 9, payload: [4, 5]),
            ]
        }
    }

    @Test("A datagram and an echo message give their fields, and bytes behind the packet are ignored", arguments: pairs)
    func fields(source: IPAddress, destination: IPAddress) throws {
        let header = source.isIPv6 ? 40 : 20
        let udp = PacketBuilder.udp(from: source, port: 53, to: destination, port: 7, payload: [1, 2, 3]) + [9, 9]
        let datagram = try #require(UDPDatagramView(udp))
        #expect(datagram.packet.source == source && datagram.packet.destination == destination)
        #expect(datagram.packet.payload == header..<(header + 11))
        #expect(datagram.sourcePort == 53 && datagram.destinationPort == 7)
        #expect(Array(udp[datagram.payload]) == [1, 2, 3])
        #expect(datagram.isIntact)
        #expect(EchoMessageView(udp) == nil)
        for isReply in [false, true] {
            let bytes =
                PacketBuilder.icmpEcho(
                    from: source, to: destination, identifier: 0x1234, sequence: 9, payload: [4, 5], isReply: isReply)
                + [9]
            let message = try #require(EchoMessageView(bytes))
            #expect(message.packet.source == source && message.packet.destination == destination)
            #expect(message.isReply == isReply && message.identifier == 0x1234 && message.sequence == 9)
            #expect(Array(bytes[message.payload]) == [4, 5])
            #expect(message.isIntact)
            #expect(UDPDatagramView(bytes) == nil)
        }
    }

    @Test("A packet that is cut at any length has no view")
    func cut() {
        for packet in Self.packets {
            for count in packet.indices {
                let bytes = Array(packet[..<count])
                #expect(!Self.isPacket(bytes) && UDPDatagramView(bytes) == nil && EchoMessageView(bytes) == nil)
            }
            #expect(Self.isPacket(packet))
        }
    }

    @Test("Every stated header, packet and datagram length gives a payload within the packet, or no view")
    func statedLengths() {
        for packet in Self.packets {
            let (isIPv6, count) = (packet[0] >> 4 == 6, packet.count)
            var headers = [packet]
            if !isIPv6 {
                headers = (0..<16).map { words in
                    var bytes = packet
                    bytes[0] = 0x40 | UInt8(words)
                    return bytes
                }
            }
            for header in headers {
                for stated in Array(0...(count + 4)) + [0x7fff, 0xffff] {
                    var bytes = header
                    let place = isIPv6 ? 4 : 2
                    bytes.replaceSubrange(place..<place + 2, with: [UInt8(stated >> 8), UInt8(stated & 0xff)])
                    Self.expectWithin(bytes)
                    let start = isIPv6 ? 40 : 20
                    bytes.replaceSubrange(start + 4..<start + 6, with: [UInt8(stated >> 8), UInt8(stated & 0xff)])
                    Self.expectWithin(bytes)
                }
            }
        }
    }

    @Test("Random bytes never trap, and every view is within them")
    func random() {
        var generator = SplitMix(11)
        for _ in 0..<5_000 {
            var bytes = (0..<Int.random(in: 0...80, using: &generator)).map { _ in
                UInt8.random(in: 0...255, using: &generator)
            }
            if bytes.count > 9 {
                bytes[0] = [0x45, 0x46, 0x4f, 0x60][Int.random(in: 0..<4, using: &generator)]
                bytes.replaceSubrange(2..<6, with: [0, UInt8(bytes.count), 0, UInt8(max(bytes.count - 40, 0))])
                bytes[Bool.random(using: &generator) ? 6 : 9] = [1, 17, 58][Int.random(in: 0..<3, using: &generator)]
            }
            Self.expectWithin(bytes)
        }
    }

    @Test("A fragment has a header and no datagram or message", arguments: [UInt8(0x20), 0x01])
    func fragments(_ flags: UInt8) throws {
        for packet in Self.packets where packet[0] == 0x45 {
            var bytes = packet
            bytes[6] = flags
            let isFragment = unsafe bytes.withUnsafeBytes { unsafe IPPacketView($0)?.isFragment }
            #expect(isFragment == true)
            #expect(UDPDatagramView(bytes) == nil && EchoMessageView(bytes) == nil)
        }
    }

    @Test("A datagram without a checksum is intact on IPv4 only, and a changed byte of its payload is noticed")
    func checksums() throws {
        for packet in Self.packets where UDPDatagramView(packet) != nil {
            let isIPv6 = packet[0] >> 4 == 6
            var (changed, without) = (packet, packet)
            changed[packet.count - 1] ^= 1
            #expect(try !#require(UDPDatagramView(changed)).isIntact)
            let field = isIPv6 ? 46 : 26
            without.replaceSubrange(field..<field + 2, with: [0, 0])
            #expect(try #require(UDPDatagramView(without)).isIntact == !isIPv6)
        }
    }

    private static func isPacket(_ bytes: [UInt8]) -> Bool {
        unsafe bytes.withUnsafeBytes { unsafe IPPacketView($0) != nil }
    }

    private static func expectWithin(_ bytes: [UInt8]) {
        let packet = unsafe bytes.withUnsafeBytes { unsafe IPPacketView($0)?.payload }
        for range in [packet, UDPDatagramView(bytes)?.payload, EchoMessageView(bytes)?.payload] {
            guard let range else { continue }
            #expect(range.lowerBound >= 20 && range.upperBound <= bytes.count)
        }
    }
}
