// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The library's functions are written again here in the simplest way, on arrays, byte by byte.
enum SlowPacket {
    static func short(_ bytes: [UInt8], _ at: Int) -> Int { Int(bytes[at]) << 8 | Int(bytes[at + 1]) }

    static func word(_ bytes: [UInt8], _ at: Int) -> UInt32 {
        UInt32(short(bytes, at)) << 16 | UInt32(short(bytes, at + 2))
    }

    static func set(_ value: Int, _ bytes: inout [UInt8], _ at: Int) {
        bytes[at] = UInt8(value >> 8 & 255)
        bytes[at + 1] = UInt8(value & 255)
    }

    static func set(_ value: UInt32, _ bytes: inout [UInt8], _ at: Int) {
        set(Int(value >> 16), &bytes, at)
        set(Int(value & 0xffff), &bytes, at + 2)
    }

    /// The ones' complement sum, with the carry brought round at each step.
    static func sum(_ bytes: some Sequence<UInt8>) -> Int {
        var sum = 0
        var isHigh = true
        for byte in bytes {
            sum += isHigh ? Int(byte) << 8 : Int(byte)
            if sum > 0xffff { sum -= 0xffff }
            isHigh.toggle()
        }
        return sum
    }

    static func pseudoHeader(_ packet: [UInt8], number: UInt8, length: Int) -> [UInt8] {
        let addresses = packet[0] >> 4 == 6 ? packet[8..<40] : packet[12..<20]
        return Array(addresses) + [0, 0, UInt8(length >> 8 & 255), UInt8(length & 255), 0, number]
    }

    /// Whether IPv4 header and transport checksum are right.
    static func isRight(_ packet: [UInt8], transport: Int, number: UInt8) -> Bool {
        if packet[0] >> 4 == 4, sum(packet[..<(Int(packet[0] & 15) * 4)]) != 0xffff { return false }
        let pseudo = pseudoHeader(packet, number: number, length: packet.count - transport)
        return sum(pseudo + packet[transport...]) == 0xffff
    }

    /// Sets lengths and checksums to their correct values.
    static func complete(_ packet: inout [UInt8], transport: Int, number: UInt8) {
        let isIPv6 = packet[0] >> 4 == 6
        set(isIPv6 ? packet.count - 40 : packet.count, &packet, isIPv6 ? 4 : 2)
        if number == 17 { set(packet.count - transport, &packet, transport + 4) }
        let field = transport + (number == 6 ? 16 : 6)
        set(0, &packet, field)
        let pseudo = pseudoHeader(packet, number: number, length: packet.count - transport)
        let checksum = 0xffff - sum(pseudo + packet[transport...])
        set(checksum == 0 && number == 17 ? 0xffff : checksum, &packet, field)
        guard !isIPv6 else { return }
        set(0, &packet, 10)
        set(0xffff - sum(packet[..<(Int(packet[0] & 15) * 4)]), &packet, 10)
    }

    /// The packets that a superframe without options or extensions stands for.
    static func split(_ frame: [UInt8], transport: Int, number: UInt8, size: Int) -> [[UInt8]] {
        let headers = transport + (number == 6 ? Int(frame[transport + 12] >> 4) * 4 : 8)
        let payload = Array(frame[headers...])
        var packets: [[UInt8]] = []
        var start = 0
        repeat {
            let end = min(start + size, payload.count)
            var packet = Array(frame[..<headers]) + payload[start..<end]
            if frame[0] >> 4 == 4 { set((short(frame, 4) + packets.count) & 0xffff, &packet, 4) }
            if number == 6 {
                set(word(frame, transport + 4) &+ UInt32(start), &packet, transport + 4)
                // Finish and push are for the last one, the reduced window is for the first.
                if end < payload.count { packet[transport + 13] &= 0xf6 }
                if start > 0 { packet[transport + 13] &= 0x7f }
            }
            complete(&packet, transport: transport, number: number)
            packets.append(packet)
            start = end
        } while start < payload.count
        return packets
    }
}
