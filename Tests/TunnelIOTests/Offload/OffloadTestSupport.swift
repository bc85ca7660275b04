// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing

@testable import TunnelIO

/// Flows of TCP and UDP packets, and what reading them again takes.
struct FlowBuilder {
    var isIPv6 = false
    var isTCP = true
    var sourcePort: UInt16 = 1000
    var sequence: UInt32 = 1
    var identifier: UInt16 = 7
    var acknowledgement: UInt32 = 99
    var hopLimit: UInt8 = 64
    /// IPv4: type of service. IPv6: traffic class and flow label.
    var service: UInt32 = 0
    var fragment: UInt16 = 0x4000
    var options: [UInt8] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]

    var transport: Int { isIPv6 ? 40 : 20 }

    /// The next packet of the flow.
    mutating func packet(_ payload: [UInt8], flags: UInt8 = 0x10) -> [UInt8] {
        defer {
            sequence &+= UInt32(payload.count)
            identifier &+= 1
        }
        let source: IPAddress = isIPv6 ? .v6(0xfd00 << 48, 1) : .v4(10, 0, 0, 1)
        let target: IPAddress = isIPv6 ? .v6(0xfd00 << 48, 2) : .v4(10, 0, 0, 2)
        let ports = big(sourcePort) + big(UInt16(53))
        var segment: [UInt8]
        if isTCP {
            segment = ports + big(sequence) + big(acknowledgement)
            segment += [UInt8(5 + options.count / 4) << 4, flags] + big(UInt16(500)) + [0, 0, 0, 0]
            segment += options + payload
        } else {
            segment = ports + big(UInt16(8 + payload.count)) + [0, 0] + payload
        }
        let number: UInt8 = isTCP ? 6 : 17
        var sum = PacketBuilder.pseudoHeader(from: source, to: target, number: number, length: segment.count)
        unsafe segment.withUnsafeBytes { unsafe sum.add($0) }
        let field = isTCP ? 16 : 6
        segment.replaceSubrange(field..<field + 2, with: big(sum.value == 0 ? 0xffff : sum.value))
        var packet = PacketBuilder.ipPacket(
            from: source, to: target, number: number, payload: segment, hopLimit: hopLimit)
        if isIPv6 {
            packet.replaceSubrange(0..<4, with: big(UInt32(0x6000_0000) | service))
        } else {
            packet[1] = UInt8(truncatingIfNeeded: service)
            packet.replaceSubrange(4..<8, with: big(identifier) + big(fragment))
            packet.replaceSubrange(10..<12, with: [0, 0])
            let header = unsafe packet[..<20].withUnsafeBytes { unsafe InternetChecksum.of($0) }
            packet.replaceSubrange(10..<12, with: big(header))
        }
        return packet
    }

    private func big(_ value: some FixedWidthInteger) -> [UInt8] {
        unsafe withUnsafeBytes(of: value.bigEndian) { unsafe Array($0) }
    }
}

/// The packets as they are written, in that order: joined ones with their header.
func coalesced(
    _ packets: [[UInt8]], joinsTCP: Bool = true, joinsUDP: Bool = true
) throws -> [(header: VirtioHeader, bytes: [UInt8], indices: [Int])] {
    let batch = try PacketBatch(
        packetCapacity: max(packets.count, 1), byteCapacity: packets.reduce(1) { $0 + $1.count })
    for packet in packets { batch.append(copying: packet) }
    var plan = CoalescingPlan()
    plan.make(for: batch, joinsTCP: joinsTCP, joinsUDP: joinsUDP)
    var written: [(header: VirtioHeader, bytes: [UInt8], indices: [Int])] = []
    for index in packets.indices where !plan.isJoined(index) {
        guard let frame = plan.frame(at: index) else {
            written.append((VirtioHeader(), packets[index], [index]))
            continue
        }
        var bytes = [UInt8](repeating: 0, count: SuperframeHeader.longest)
        let header = try unsafe bytes.withUnsafeMutableBytes { out in
            try unsafe packets[index].withUnsafeBytes { head in
                unsafe SuperframeHeader.write(
                    frame, head: try #require(head.baseAddress), to: try #require(out.baseAddress))
            }
        }
        bytes.removeSubrange(frame.headers...)
        var indices: [Int] = []
        var next: Int? = index
        while let packet = next {
            bytes += packets[packet][frame.headers...]
            indices.append(packet)
            next = plan.next(after: packet)
        }
        #expect(bytes.count == frame.total)
        #expect(indices.count == frame.count)
        written.append((header, bytes, indices))
    }
    return written
}

/// The packets that a superframe stands for; `nil` if it is refused.
func split(_ header: VirtioHeader, _ frame: [UInt8]) -> [[UInt8]]? {
    unsafe frame.withUnsafeBytes { bytes in
        guard var splitter = unsafe SegmentSplitter(header, bytes), let base = bytes.baseAddress else { return nil }
        var packets: [[UInt8]] = []
        while !splitter.isFinished {
            var packet = [UInt8](repeating: 0xee, count: splitter.nextLength)
            unsafe packet.withUnsafeMutableBytes { out in
                guard let out = out.baseAddress else { return }
                unsafe splitter.write(from: base, to: out)
            }
            packets.append(packet)
        }
        #expect(packets.count == splitter.count)
        return packets
    }
}

/// The packets that a superframe stands for; `nil` if it is refused.
func split(_ frame: (header: VirtioHeader, bytes: [UInt8])) -> [[UInt8]]? { split(frame.header, frame.bytes) }

/// The packets as splitting their superframe returns them: a push flag of any of them is the last one's.
func movingPush(_ packets: [[UInt8]]) -> [[UInt8]] {
    let push: UInt8 = 0x08
    guard let first = packets.first, first[first[0] >> 4 == 6 ? 6 : 9] == 6 else { return packets }
    let transport = first[0] >> 4 == 6 ? 40 : 20
    let pushes = packets.contains { $0[transport + 13] & push != 0 }
    return packets.indices.map { index in
        var packet = packets[index]
        let old = packet[transport + 13]
        let new = index == packets.count - 1 && pushes ? old | push : old & ~push
        guard new != old else { return packet }
        packet[transport + 13] = new
        // The checksum is the complement of the sum, so it changes by as much in the other direction (RFC 1624).
        var checksum = Int(packet[transport + 16]) << 8 + Int(packet[transport + 17]) + Int(old) - Int(new)
        if checksum < 0 { checksum += 0xffff }
        if checksum >= 0xffff { checksum -= 0xffff }
        packet[transport + 16] = UInt8(checksum >> 8)
        packet[transport + 17] = UInt8(checksum & 0xff)
        return packet
    }
}

/// A superframe as the kernel hands it over: lengths of the whole, and the pseudo-header's sum in the checksum field.
func superframe(
    _ flow: FlowBuilder, payload: [UInt8], size: UInt16, flags: UInt8 = 0x10
) -> (header: VirtioHeader, bytes: [UInt8]) {
    var flow = flow
    var packet = flow.packet(payload, flags: flags)
    var header = VirtioHeader()
    header.flags = VirtioHeader.needsChecksum
    header.segmentation =
        flow.isTCP
        ? (flow.isIPv6 ? VirtioHeader.Segmentation.tcp6 : VirtioHeader.Segmentation.tcp4)
        : VirtioHeader.Segmentation.udp
    header.segmentSize = size
    header.headerLength = 3  // A lie, to be ignored.
    header.checksumStart = UInt16(flow.transport)
    header.checksumOffset = flow.isTCP ? 16 : 6
    let field = flow.transport + Int(header.checksumOffset)
    packet.replaceSubrange(
        field..<field + 2, with: pseudoHeaderSum(packet, transport: flow.transport, isTCP: flow.isTCP))
    return (header, packet)
}

/// The sum of the pseudo-header, not complemented, as bytes.
/// - Parameter target: the final destination, where it is not the one in the IP header.
func pseudoHeaderSum(_ packet: [UInt8], transport: Int, isTCP: Bool, target: [UInt8]? = nil) -> [UInt8] {
    let isIPv6 = packet[0] >> 4 == 6
    let source = isIPv6 ? packet[8..<24] : packet[12..<16]
    let length = UInt32(packet.count - transport)
    let parts =
        Array(source) + (target ?? Array(isIPv6 ? packet[24..<40] : packet[16..<20]))
        + [UInt8(length >> 24 & 255), UInt8(length >> 16 & 255), UInt8(length >> 8 & 255), UInt8(length & 255)]
        + [0, isTCP ? 6 : 17]
    let sum = unsafe parts.withUnsafeBytes { unsafe InternetChecksum.sum($0) }
    return [UInt8(sum >> 8), UInt8(sum & 255)]
}

/// Whether the transport checksum is right, by a pseudo-header with this final destination.
func isChecksumRight(_ packet: [UInt8], transport: Int, isTCP: Bool, target: [UInt8]? = nil) -> Bool {
    let bytes =
        pseudoHeaderSum(packet, transport: transport, isTCP: isTCP, target: target) + Array(packet[transport...])
    return unsafe bytes.withUnsafeBytes { unsafe InternetChecksum.of($0) } == 0
}
