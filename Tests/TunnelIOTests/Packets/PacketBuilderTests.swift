// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import TunnelIO

@Suite("PacketBuilder")
struct PacketBuilderTests {
    private let v4 = (IPAddress.v4(10, 0, 0, 1), IPAddress.v4(10, 0, 0, 2))
    private let v6 = (IPAddress.v6(0xfd00 << 48, 1), IPAddress.v6(0xfd00 << 48, 2))

    @Test("An ICMP echo request is what ping sends")
    func echo() {
        let packet = PacketBuilder.icmpEcho(
            from: v4.0, to: v4.1, identifier: 0x1234, sequence: 1, payload: [0x61, 0x62, 0x63])
        // Header checksum and ICMP checksum worked out by hand.
        #expect(
            packet == [
                0x45, 0, 0, 31, 0, 0, 0x40, 0, 64, 1, 0x26, 0xdc, 10, 0, 0, 1, 10, 0, 0, 2,
                8, 0, 0x21, 0x68, 0x12, 0x34, 0, 1, 0x61, 0x62, 0x63,
            ])
    }

    @Test("IPv6 packets have length, next header and hop limit in place")
    func echoV6() {
        let packet = PacketBuilder.icmpEcho(
            from: v6.0, to: v6.1, identifier: 1, sequence: 2, payload: [9], hopLimit: 3)
        #expect(packet.count == 49)
        #expect(packet[..<8] == [0x60, 0, 0, 0, 0, 9, 58, 3])
        #expect(packet[8..<24] == [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
        #expect(packet[24..<40] == [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2])
        #expect(packet[40] == 128)
        #expect(transportSum(packet) == 0)
    }

    @Test("UDP checksums hold for payloads of any length", arguments: [0, 1, 2, 7, 100, 1371, 1372])
    func udp(_ length: Int) {
        let payload = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        for (source, destination) in [v4, v6] {
            let packet = PacketBuilder.udp(from: source, port: 1000, to: destination, port: 53, payload: payload)
            let start = packet[0] >> 4 == 4 ? 20 : 40
            #expect(packet.count == start + 8 + length)
            #expect(packet[start..<start + 4] == [0x03, 0xe8, 0, 53])
            #expect(packet[(start + 8)...] == payload[...])
            #expect(transportSum(packet) == 0)
        }
    }

    @Test("A UDP checksum of zero is sent as all ones")
    func zeroChecksum() throws {
        // One free word of payload, chosen so that everything sums to all ones.
        let open = PacketBuilder.udp(from: v4.0, port: 1, to: v4.1, port: 2, payload: [0, 0])
        let packet = PacketBuilder.udp(from: v4.0, port: 1, to: v4.1, port: 2, payload: Array(open[26..<28]))
        #expect(packet[26..<28] == [0xff, 0xff])
    }

    @Test("Addresses and endpoints may be text, which gives the same packets")
    func text() throws {
        #expect(
            try PacketBuilder.icmpEcho(from: "10.0.0.2", to: "192.0.2.1", identifier: 7, sequence: 9, payload: [1])
                == PacketBuilder.icmpEcho(
                    from: .v4(10, 0, 0, 2), to: .v4(192, 0, 2, 1), identifier: 7, sequence: 9, payload: [1]))
        #expect(
            try PacketBuilder.udp(from: "[fd00::2]:4000", to: "[2001:db8::1]:7", payload: [1, 2])
                == PacketBuilder.udp(
                    from: .v6(0xfd00 << 48, 2), port: 4000, to: .v6(0x2001_0db8 << 32, 1), port: 7, payload: [1, 2]))
        #expect(throws: AddressTextError.self) {
            try PacketBuilder.icmpEcho(from: "10.0.0", to: "192.0.2.1", identifier: 7, sequence: 9)
        }
        #expect(throws: AddressTextError.self) {
            try PacketBuilder.udp(from: "10.0.0.2:4000", to: "[2001:db8::1]:7", payload: [])
        }
    }

    @Test("Arguments that cannot make a packet give an empty one: two families, or too many bytes")
    func impossible() {
        #expect(PacketBuilder.icmpEcho(from: v4.0, to: v6.1, identifier: 1, sequence: 1).isEmpty)
        let most = [UInt8](repeating: 0, count: 65_507)
        #expect(PacketBuilder.udp(from: v4.0, port: 1, to: v4.1, port: 2, payload: most).count == 65_535)
        #expect(PacketBuilder.udp(from: v4.0, port: 1, to: v4.1, port: 2, payload: most + [0]).isEmpty)
        #expect(PacketBuilder.ipPacket(from: v6.0, to: v6.1, number: 253, payload: most).isEmpty)
    }

    private func transportSum(_ packet: [UInt8]) -> UInt16 {
        let isV4 = packet[0] >> 4 == 4
        let start = isV4 ? 20 : 40
        let (source, destination) = isV4 ? v4 : v6
        var checksum = PacketBuilder.pseudoHeader(
            from: source, to: destination, number: packet[isV4 ? 9 : 6], length: packet.count - start)
        unsafe packet[start...].withUnsafeBytes { unsafe checksum.add($0) }
        return checksum.value
    }
}
