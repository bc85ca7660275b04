// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

@testable import TunnelIO

/// Superframes: packets are joined as in a slow model, and splitting the result returns them; splits equal those of a slow
/// model, whatever the kernel's header says; false control messages and frames do no harm.
func fuzzOffload(_ bytes: [UInt8]) {
    var input = ByteReader(bytes)
    switch input.byte() % 5 {
    case 0: checkJoining(&input)
    case 1: checkCutting(&input)
    case 2: checkRawFrame(&input)
    case 3: checkFraming(&input)
    default: checkControlMessages(&input)
    }
}

private func bytes(_ memory: UnsafeRawBufferPointer) -> [UInt8] { unsafe Array(memory) }

/// The packets that a superframe stands for; `nil` if it is refused.
private func cut(_ header: VirtioHeader, _ frame: [UInt8], most: Int = .max) -> [[UInt8]]? {
    unsafe GuardedBytes.input.lend(frame) { memory -> [[UInt8]]? in
        guard var splitter = unsafe SegmentSplitter(header, UnsafeRawBufferPointer(memory)),
            let start = memory.baseAddress
        else { return nil }
        var packets: [[UInt8]] = []
        while !splitter.isFinished, packets.count < most {
            let length = splitter.nextLength
            require(length > 0 && length <= frame.count, "a packet of \(length) bytes from \(frame.count)")
            packets.append(
                unsafe GuardedBytes.output.lend(length + 8) { out in
                    guard let target = out.baseAddress else { return [] }
                    unsafe out.copyBytes(from: [UInt8](repeating: 0xa5, count: 8))
                    unsafe splitter.write(from: start, to: target + 8)
                    let written = unsafe bytes(UnsafeRawBufferPointer(out))
                    require(written[..<8].allSatisfy { $0 == 0xa5 }, "wrote in front of the packet")
                    return Array(written[8...])
                })
        }
        require(unsafe bytes(UnsafeRawBufferPointer(memory)) == frame, "cutting changed the superframe")
        return packets
    }
}

private func checkJoining(_ input: inout ByteReader) {
    let switches = input.byte()
    let (joinsTCP, joinsUDP) = (switches & 1 == 0, switches & 2 == 0)
    var maker = PacketMaker(&input)
    var packets: [[UInt8]] = []
    var total = 0
    while !input.isAtEnd, packets.count < 150, total < 400_000 {
        packets.append(maker.packet(&input))
        total += packets[packets.count - 1].count
    }
    guard let batch = try? PacketBatch(packetCapacity: max(packets.count, 1), byteCapacity: max(total, 1)) else {
        finding("no batch")
    }
    for packet in packets { batch.append(copying: packet) }
    var plan = CoalescingPlan()
    // An earlier use of a plan has no effect.
    plan.make(for: batch, joinsTCP: true, joinsUDP: true)
    plan.make(for: batch, joinsTCP: joinsTCP, joinsUDP: joinsUDP)
    let model = CoalescingModel(packets, joinsTCP: joinsTCP, joinsUDP: joinsUDP)
    var joined: [[Int]] = []
    var isSeen = [Bool](repeating: false, count: packets.count)
    for index in packets.indices where !plan.isJoined(index) {
        guard let frame = plan.frame(at: index) else {
            isSeen[index] = true
            continue
        }
        let members = checkFrame(frame, index, plan, packets)
        for member in members {
            require(!isSeen[member], "packet \(member) goes out twice")
            isSeen[member] = true
        }
        joined.append(members)
    }
    require(isSeen.allSatisfy { $0 }, "a packet is lost")
    let expected = model.frames.map(\.packets).filter { $0.count > 1 }
    if areFlowsApart(packets) {
        require(joined == expected, "joined \(joined), the model \(expected)")
        return
    }
    // Flows that look alike to the table may part early, but from its first packet on a frame is as the model would
    // have it.
    for members in joined {
        let rest = CoalescingModel(Array(packets[members[0]...]), joinsTCP: joinsTCP, joinsUDP: joinsUDP)
        let most = rest.frames.first?.packets.map { $0 + members[0] } ?? []
        require(most.starts(with: members), "joined \(members), the model \(most)")
    }
}

/// Whether no two flows have the same hash.
private func areFlowsApart(_ packets: [[UInt8]]) -> Bool {
    var flows: [Int: Set<[UInt8]>] = [:]
    for packet in packets where packet.count >= 28 {
        unsafe packet.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress, let shape = unsafe PacketShape(base, packet.count) else { return }
            let addresses = shape.isIPv6 ? packet[8..<40] : packet[12..<20]
            let kind: UInt8 = (shape.isIPv6 ? 2 : 0) + (shape.isTCP ? 1 : 0)
            flows[shape.hash, default: []].insert([kind] + addresses + packet[shape.transport..<shape.transport + 4])
        }
    }
    return flows.values.allSatisfy { $0.count == 1 }
}

/// Checks that a frame is a superframe, and that cutting it gives its packets back.
/// - Returns: the packets.
private func checkFrame(
    _ frame: CoalescingPlan.Frame, _ index: Int, _ plan: CoalescingPlan, _ packets: [[UInt8]]
) -> [Int] {
    var members: [Int] = []
    var next: Int? = index
    while let member = next {
        require(members.last.map { $0 < member } ?? true, "the packets of a frame are out of order")
        members.append(member)
        next = plan.next(after: member)
    }
    require(members.count == frame.count && frame.count <= 64 && frame.total <= 65_535, "a frame's size is wrong")
    var superframe = [UInt8](repeating: 0xa5, count: SuperframeHeader.longest + 8)
    let header = unsafe superframe.withUnsafeMutableBytes { out -> VirtioHeader in
        unsafe packets[index].withUnsafeBytes { head in
            guard let head = head.baseAddress, let out = out.baseAddress else { return VirtioHeader() }
            return unsafe SuperframeHeader.write(frame, head: head, to: out)
        }
    }
    require(superframe[frame.headers...].allSatisfy { $0 == 0xa5 }, "wrote beyond the header")
    superframe.removeSubrange(frame.headers...)
    for member in members { superframe += packets[member][frame.headers...] }
    require(superframe.count == frame.total, "a frame's length is wrong")
    guard let back = cut(header, superframe) else { finding("a frame of ours is refused") }
    require(back.count == members.count, "\(members.count) packets came back as \(back.count)")
    let flags = frame.transport + 13
    let pushes = frame.isTCP && members.contains { packets[$0][flags] & 8 != 0 }
    for (packet, member) in zip(back, members) {
        var original = packets[member]
        // A push flag moves to the last packet.
        if pushes {
            original[flags] = original[flags] & ~8 | (member == members.last ? 8 : 0)
            SlowPacket.complete(&original, transport: frame.transport, number: 6)
        }
        // The number of a packet that must not be fragmented has no meaning; and a sum of zero has two forms.
        if !frame.isIPv6, original[6] & 0x40 != 0 {
            original.replaceSubrange(4..<6, with: packet[4..<6])
            original.replaceSubrange(10..<12, with: packet[10..<12])
        }
        if !frame.isIPv6, SlowPacket.short(original, 10) == 0xffff { SlowPacket.set(0, &original, 10) }
        let field = frame.transport + 16
        if frame.isTCP, SlowPacket.short(original, field) == 0xffff { SlowPacket.set(0, &original, field) }
        require(packet == original, "packet \(member) came back changed")
    }
    return members
}

private func checkCutting(_ input: inout ByteReader) {
    let kind = input.byte()
    let isIPv6 = kind & 1 != 0
    let number: UInt8 = kind & 2 != 0 ? 6 : 17
    let transport = isIPv6 ? 40 : 20
    let size = 1 + input.short() % 2000
    let length = input.short() % 20_000
    guard length / size < 700 else { return }
    var frame = isIPv6 ? [0x60] + input.take(39) : [0x45] + input.take(19)
    frame += [UInt8](repeating: 3, count: transport - frame.count)
    frame[isIPv6 ? 6 : 9] = number
    if !isIPv6 {
        frame[6] &= 0xc0
        frame[7] = 0
    }
    frame += input.take(number == 6 ? 20 : 8)
    frame += [UInt8](repeating: 0, count: transport + (number == 6 ? 20 : 8) - frame.count)
    if number == 6 {
        let words = 5 + Int(kind >> 2) % 11
        frame[transport + 12] = UInt8(words) << 4 | frame[transport + 12] & 15
        frame += [UInt8](repeating: kind, count: 4 * (words - 5))
    }
    let some = input.rest()
    for index in 0..<length { frame.append(some.isEmpty ? UInt8(truncatingIfNeeded: index) : some[index % some.count]) }
    SlowPacket.set(isIPv6 ? frame.count - 40 : frame.count, &frame, isIPv6 ? 4 : 2)
    var header = VirtioHeader()
    header.flags = 1
    header.segmentation = number == 17 ? 5 : (isIPv6 ? 4 : 1)
    header.headerLength = UInt16(kind)
    header.segmentSize = UInt16(size)
    header.checksumStart = UInt16(transport)
    header.checksumOffset = number == 6 ? 16 : 6
    guard let packets = cut(header, frame) else { finding("a good superframe is refused") }
    let expected = SlowPacket.split(frame, transport: transport, number: number, size: size)
    require(packets == expected, "cut into \(packets.count) packets other than the model's \(expected.count)")
}

/// A kernel header and an unrelated packet.
private func checkRawFrame(_ input: inout ByteReader) {
    let raw = input.take(VirtioHeader.length)
    guard let header = unsafe raw.withUnsafeBytes({ unsafe VirtioHeader($0) }) else { return }
    let frame = input.rest()
    guard let packets = cut(header, frame, most: 300) else { return }
    let transport = Int(header.checksumStart)
    let number: UInt8 = header.segmentation & 0x7f == 5 ? 17 : 6
    let headers = transport + (number == 6 ? Int(frame[transport + 12] >> 4) * 4 : 8)
    var payload: [UInt8] = []
    for packet in packets {
        let isIPv6 = packet[0] >> 4 == 6
        require(packet.count >= headers, "a packet without all headers")
        require(packet.count - headers <= Int(header.segmentSize), "a packet longer than a segment")
        require(
            SlowPacket.short(packet, isIPv6 ? 4 : 2) == packet.count - (isIPv6 ? 40 : 0), "a packet's length is wrong")
        if transport == (isIPv6 ? 40 : 20) {
            require(SlowPacket.isRight(packet, transport: transport, number: number), "a packet's checksum is wrong")
        }
        payload += packet[headers...]
    }
    let isWhole = packets.count < 300
    require(isWhole ? payload == Array(frame[headers...]) : frame[headers...].starts(with: payload), "payload changed")
}

private func checkFraming(_ input: inout ByteReader) {
    let framing = TunFraming(hasVirtioHeader: input.byte() & 1 == 0)
    let frame = input.rest()
    unsafe GuardedBytes.input.lend(frame) { memory in
        guard let count = unsafe framing.finish(memory) else {
            require(unsafe bytes(UnsafeRawBufferPointer(memory)) == frame, "a frame that is refused was changed")
            return
        }
        require(count > 0 && count == frame.count - framing.length, "a packet of \(count) bytes from \(frame.count)")
        let after = unsafe bytes(UnsafeRawBufferPointer(memory))
        guard framing.hasVirtioHeader, frame[0] & 1 != 0,
            let header = unsafe frame.withUnsafeBytes({ unsafe VirtioHeader($0) })
        else { return require(after == frame, "a complete packet was changed") }
        let start = 10 + Int(header.checksumStart)
        let field = start + Int(header.checksumOffset)
        require(field + 2 <= frame.count, "a checksum outside of the packet")
        let sum = 0xffff - SlowPacket.sum(frame[start...])
        var expected = frame
        SlowPacket.set(sum == 0 ? 0xffff : sum, &expected, field)
        require(after == expected, "a checksum was completed wrongly")
    }
}
