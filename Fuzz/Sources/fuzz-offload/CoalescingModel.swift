// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The packets of a batch that belong together: the rules of joining, one after the other, without index or cache.
struct CoalescingModel {
    struct Frame {
        var packets: [Int]
        var flow: [UInt8]
        var isIPv6: Bool
        var isOpen: Bool
        var total: Int
    }

    private struct Parsed {
        var isIPv6: Bool
        var isTCP: Bool
        var transport: Int
        var headers: Int
        var isCandidate: Bool
        var flow: [UInt8]
        var number: UInt8 { isTCP ? 6 : 17 }
    }

    private(set) var frames: [Frame] = []
    private let packets: [[UInt8]]

    init(_ packets: [[UInt8]], joinsTCP: Bool, joinsUDP: Bool) {
        self.packets = packets
        for index in packets.indices { take(index, joinsTCP, joinsUDP) }
    }

    private mutating func take(_ index: Int, _ joinsTCP: Bool, _ joinsUDP: Bool) {
        let packet = packets[index]
        guard let parsed = Self.parse(packet) else {
            guard packet.count >= 28, let isIPv6 = Self.hidesPorts(packet) else { return }
            for frame in frames.indices where frames[frame].isIPv6 == isIPv6 { frames[frame].isOpen = false }
            return
        }
        guard parsed.isTCP ? joinsTCP : joinsUDP else { return }
        let last = frames.lastIndex { $0.flow == parsed.flow }
        guard parsed.isCandidate else {
            if let last { frames[last].isOpen = false }
            return
        }
        if let last, frames[last].isOpen, follows(packet, parsed, frames[last]) {
            let isRight = SlowPacket.isRight(packet, transport: parsed.transport, number: parsed.number)
            let head = packets[frames[last].packets[0]]
            if isRight, SlowPacket.isRight(head, transport: parsed.transport, number: parsed.number) {
                frames[last].packets.append(index)
                frames[last].total += packet.count - parsed.headers
                frames[last].isOpen = packet.count == head.count
                return
            }
            frames[last].isOpen = false
            if !isRight { return }
        }
        if let last { frames[last].isOpen = false }
        frames.append(
            Frame(
                packets: [index], flow: parsed.flow, isIPv6: parsed.isIPv6, isOpen: true, total: packet.count))
    }

    private func follows(_ packet: [UInt8], _ parsed: Parsed, _ frame: Frame) -> Bool {
        let head = packets[frame.packets[0]]
        guard frame.packets.count < 64, packet.count <= head.count,
            frame.total + packet.count - parsed.headers <= 65_535
        else { return false }
        // All of both headers is the same but for lengths, checksums, and what counts on.
        var excused: Set<Int> = parsed.isIPv6 ? [4, 5] : [2, 3, 10, 11]
        if !parsed.isIPv6 {
            excused.formUnion([4, 5])
            let expected = (SlowPacket.short(head, 4) + frame.packets.count) & 0xffff
            // The number has no meaning if the packet must not be fragmented.
            if head[6] & 0x40 == 0, SlowPacket.short(packet, 4) != expected { return false }
        }
        let at = parsed.transport
        if parsed.isTCP {
            excused.formUnion([at + 4, at + 5, at + 6, at + 7, at + 13, at + 16, at + 17])
            let sent = UInt32(frame.total - parsed.headers)
            if SlowPacket.word(packet, at + 4) != SlowPacket.word(head, at + 4) &+ sent { return false }
        } else {
            excused.formUnion([at + 4, at + 5, at + 6, at + 7])
        }
        guard Self.parse(head)?.headers == parsed.headers else { return false }
        return (0..<parsed.headers).allSatisfy { excused.contains($0) || packet[$0] == head[$0] }
    }

    /// Whether it may be TCP or UDP though its ports cannot be seen; `nil` for no, or whether it is IPv6.
    private static func hidesPorts(_ packet: [UInt8]) -> Bool? {
        if packet[0] >> 4 == 4 {
            return [6, 17].contains(packet[9]) && SlowPacket.short(packet, 6) & 0x1fff != 0 ? false : nil
        }
        return packet[0] >> 4 == 6 && [0, 43, 44, 51, 60, 135].contains(packet[6]) ? true : nil
    }

    private static func parse(_ packet: [UInt8]) -> Parsed? {
        guard packet.count >= 28 else { return nil }
        let transport: Int
        let number: UInt8
        var isCandidate = true
        let isIPv6 = packet[0] >> 4 == 6
        if isIPv6 {
            guard packet.count >= 48, SlowPacket.short(packet, 4) == packet.count - 40 else { return nil }
            transport = 40
            number = packet[6]
        } else {
            guard packet[0] >> 4 == 4 else { return nil }
            transport = Int(packet[0] & 15) * 4
            number = packet[9]
            guard transport >= 20, SlowPacket.short(packet, 2) == packet.count,
                SlowPacket.short(packet, 6) & 0x1fff == 0
            else { return nil }
            // No options, no more fragments, no reserved bit.
            isCandidate = transport == 20 && packet[6] & 0xa0 == 0
        }
        let addresses = isIPv6 ? packet[8..<40] : packet[12..<20]
        switch number {
        case 6:
            guard packet.count >= transport + 20 else { return nil }
            let length = Int(packet[transport + 12] >> 4) * 4
            isCandidate =
                isCandidate && length >= 20 && packet.count > transport + length && packet[transport + 12] & 15 == 0
                && [0x10, 0x18].contains(packet[transport + 13]) && SlowPacket.short(packet, transport + 18) == 0
            return Parsed(
                isIPv6: isIPv6, isTCP: true, transport: transport, headers: transport + length,
                isCandidate: isCandidate, flow: [number] + addresses + packet[transport..<transport + 4])
        case 17:
            guard packet.count >= transport + 8 else { return nil }
            isCandidate =
                isCandidate && packet.count > transport + 8
                && SlowPacket.short(packet, transport + 4) == packet.count - transport
                && SlowPacket.short(packet, transport + 6) != 0
            return Parsed(
                isIPv6: isIPv6, isTCP: false, transport: transport, headers: transport + 8,
                isCandidate: isCandidate, flow: [number] + addresses + packet[transport..<transport + 4])
        default: return nil
        }
    }
}
