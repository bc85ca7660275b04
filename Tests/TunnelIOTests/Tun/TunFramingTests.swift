// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import TunnelIO

@Suite("Linux TUN framing")
struct TunFramingTests {
    private let packet = PacketBuilder.udp(
        from: .v4(10, 0, 0, 1), port: 1, to: .v4(10, 0, 0, 2), port: 2, payload: [1, 2, 3])

    @Test("Without a virtio header the frame is the packet")
    func plain() {
        var frame = packet
        #expect(finish(TunFraming(), &frame) == packet.count)
        #expect(frame == packet)
        var empty: [UInt8] = []
        #expect(finish(TunFraming(), &empty) == nil)
    }

    @Test("A complete packet after a virtio header is unchanged")
    func complete() {
        var frame = virtioHeader() + packet
        #expect(finish(TunFraming(hasVirtioHeader: true), &frame) == packet.count)
        #expect(frame == virtioHeader() + packet)
    }

    @Test("A checksum that was left out is completed")
    func needsChecksum() {
        var partial = packet
        let pseudo = PacketBuilder.pseudoHeader(
            from: .v4(10, 0, 0, 1), to: .v4(10, 0, 0, 2), number: 17, length: packet.count - 20
        ).partial
        partial[26] = UInt8(pseudo >> 8)
        partial[27] = UInt8(pseudo & 0xff)
        var frame = virtioHeader(flags: 1, start: 20, offset: 6) + partial
        #expect(finish(TunFraming(hasVirtioHeader: true), &frame) == packet.count)
        #expect(Array(frame[10...]) == packet)
    }

    @Test("A checksum of zero is stored as all ones")
    func zeroChecksum() {
        // The field is the only word that is summed, and holds all ones: the checksum is zero.
        var frame = virtioHeader(flags: 1, start: 20, offset: 0) + packet[..<20] + [0xff, 0xff]
        #expect(finish(TunFraming(hasVirtioHeader: true), &frame) == 22)
        #expect(frame.suffix(2) == [0xff, 0xff])
    }

    @Test(
        "Frames that do not hold together are refused",
        arguments: [
            [], [UInt8](repeating: 0, count: 10), [UInt8](repeating: 0, count: 5),
            virtioHeader(flags: 1, start: 20, offset: 6) + [UInt8](repeating: 0x45, count: 27),
            virtioHeader(flags: 1, start: 0xffff, offset: 0xffff) + [UInt8](repeating: 0x45, count: 60),
            virtioHeader(segmentation: 1) + [UInt8](repeating: 0x45, count: 60),
            virtioHeader(segmentation: 5) + [UInt8](repeating: 0x45, count: 60),
        ])
    func malformed(_ bytes: [UInt8]) {
        var frame = bytes
        #expect(finish(TunFraming(hasVirtioHeader: true), &frame) == nil)
        #expect(frame == bytes)
    }

    @Test(
        "A frame that is truncated anywhere neither traps nor returns more bytes than it has",
        arguments: [false, true], [false, true])
    func truncated(_ hasVirtioHeader: Bool, _ hasInformation: Bool) {
        let framing = TunFraming(hasVirtioHeader: hasVirtioHeader, hasPacketInformation: hasInformation)
        let whole =
            [UInt8](repeating: 0, count: hasInformation ? 4 : 0)
            + (hasVirtioHeader ? virtioHeader(flags: 1, start: 20, offset: 6) : []) + packet
        #expect(framing.length == whole.count - packet.count)
        for length in 0...whole.count {
            var frame = Array(whole[..<length])
            let result = finish(framing, &frame)
            let rest = length - framing.length
            // A checksum beyond the end is refused.
            #expect(result == (rest > 0 && (!hasVirtioHeader || rest >= 28) ? rest : nil))
        }
    }

    @Test("Packet information is the protocol in network order; an invalid IP packet has none")
    func information() {
        func bytes(_ packet: [UInt8]) -> [UInt8]? {
            unsafe packet.withUnsafeBytes { unsafe TunFraming.packetInformation(of: $0) }.map { information in
                unsafe withUnsafeBytes(of: information) { unsafe Array($0) }
            }
        }
        #expect(bytes([0x45]) == [0, 0, 8, 0])
        #expect(bytes([0x60]) == [0, 0, 0x86, 0xdd])
        #expect(bytes([0x50]) == nil)
        #expect(bytes([]) == nil)
    }

    private func finish(_ framing: TunFraming, _ frame: inout [UInt8]) -> Int? {
        unsafe frame.withUnsafeMutableBytes { unsafe framing.finish($0) }
    }
}

/// `struct virtio_net_hdr`, in the machine's byte order.
private func virtioHeader(
    flags: UInt8 = 0, segmentation: UInt8 = 0, start: UInt16 = 0, offset: UInt16 = 0
) -> [UInt8] {
    var bytes: [UInt8] = [flags, segmentation, 0, 0, 0, 0]
    for number in [start, offset] { unsafe withUnsafeBytes(of: number) { unsafe bytes.append(contentsOf: $0) } }
    return bytes
}
