// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Packets of a few flows, right at first and then changed as the input wants.
struct PacketMaker {
    private struct Flow {
        var isIPv6: Bool
        var isTCP: Bool
        var number: UInt8
        var sequence: UInt32
        var identifier: Int
        var size: Int
        var optionWords: Int
    }

    private var flows: [Flow] = []

    init(_ input: inout ByteReader) {
        for number in 0..<(1 + input.choice(of: 4)) {
            let kind = input.byte()
            flows.append(
                Flow(
                    isIPv6: kind & 1 != 0, isTCP: kind & 2 != 0, number: UInt8(number),
                    // Near where it goes around.
                    sequence: kind & 4 != 0 ? 0xffff_ff00 : 1000, identifier: kind & 8 != 0 ? 0xfffe : 7,
                    size: [0, 1, 2, 7, 40, 41, 1400, 30_000][Int(kind >> 4) & 7], optionWords: kind & 128 != 0 ? 3 : 0))
        }
    }

    /// The next packet of some flow.
    mutating func packet(_ input: inout ByteReader) -> [UInt8] {
        let choice = input.byte()
        let index = Int(choice) % flows.count
        let change = choice >> 2 & 15
        var flow = flows[index]
        if change == 1 { flow.size = max(flow.size - 1, 0) }
        if change == 2 { flow.size += 1 }
        var packet = Self.make(flow, flags: change == 3 ? 0x18 : 0x10, fill: choice)
        let transport = flow.isIPv6 ? 40 : 20
        flows[index].identifier = (flow.identifier + 1) & 0xffff
        flows[index].sequence &+= UInt32(flow.size)
        let number: UInt8 = flow.isTCP ? 6 : 17
        switch change {
        case 4:  // A wrong byte somewhere.
            packet[input.short() % packet.count] ^= 1 << (input.byte() & 7)
        case 5:  // Another byte in the headers, with checksums that are right all the same.
            packet[input.choice(of: min(packet.count, transport + 20))] = input.byte()
            let version = packet[0] >> 4
            if version == (flow.isIPv6 ? 6 : 4), packet[0] & 15 == (flow.isIPv6 ? packet[0] & 15 : 5) {
                SlowPacket.complete(&packet, transport: transport, number: number)
            }
        case 6:  // Lost on the way.
            return self.packet(&input)
        case 7:  // Not followed by itself.
            flows[index].sequence = flow.sequence
            flows[index].identifier = flow.identifier
        case 8 where flow.isTCP:
            packet[transport + 13] = input.byte()
            SlowPacket.complete(&packet, transport: transport, number: number)
        case 9:
            packet.removeLast(input.choice(of: packet.count))
        case 10 where flow.isIPv6:
            packet.insert(contentsOf: [packet[6], 0, 1, 4, 0, 0, 0, 0], at: 40)
            packet[6] = [0, 43, 44, 60][Int(input.byte() & 3)]
            SlowPacket.set(packet.count - 40, &packet, 4)
        case 10:
            packet[0] = 0x46
            packet.insert(contentsOf: [1, 1, 1, 1], at: 20)
            SlowPacket.complete(&packet, transport: 24, number: number)
        case 11:
            packet = input.take(input.choice(of: 100))
        default: break
        }
        return packet
    }

    private static func make(_ flow: Flow, flags: UInt8, fill: UInt8) -> [UInt8] {
        var packet: [UInt8]
        let number: UInt8 = flow.isTCP ? 6 : 17
        if flow.isIPv6 {
            packet = [0x60, 0, 0, 0, 0, 0, number, 64] + [UInt8](repeating: 1, count: 32)
            packet[39] = flow.number
        } else {
            packet = [0x45, 0, 0, 0, 0, 0, flow.identifier & 1 == 0 ? 0x40 : 0, 0, 64, number, 0, 0]
            // Of one flow all have the mark, or none has.
            packet[6] = flow.number & 1 == 0 ? 0x40 : 0
            packet += [10, 0, 0, 1, 10, 0, 0, flow.number]
            SlowPacket.set(flow.identifier, &packet, 4)
        }
        let transport = packet.count
        packet += [0, flow.number, 0, 53]
        if flow.isTCP {
            packet += [0, 0, 0, 0, 0, 0, 0, 9, UInt8(5 + flow.optionWords) << 4, flags, 1, 0, 0, 0, 0, 0]
            packet += [UInt8](repeating: 1, count: 4 * flow.optionWords)
            SlowPacket.set(flow.sequence, &packet, transport + 4)
        } else {
            packet += [0, 0, 0, 0]
        }
        packet += (0..<flow.size).map { UInt8(truncatingIfNeeded: $0) ^ fill }
        SlowPacket.complete(&packet, transport: transport, number: number)
        return packet
    }
}
