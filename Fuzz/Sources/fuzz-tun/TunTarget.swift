// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import WireGuardCore

/// Packets from a TUN device through random allowed IPs: each is sent to the peer that a linear search finds, is sealed
/// without other changes, and opens at the far end to the same bytes.
///
/// The input: an MTU, a number of networks with their peers, then packets, raw or built from a few bytes.
func fuzzTun(_ bytes: [UInt8]) {
    var input = ByteReader(bytes)
    unsafe Network.shared.reset()
    let gateway = unsafe Network.shared.gateway
    let peers = unsafe Network.shared.peers

    let setting = input.byte()
    let mtu = setting & 0x80 == 0 ? 1420 : input.short()
    var table = ModelTable()
    for _ in 0..<(Int(setting & 0x0f)) {
        let place = input.byte()
        let network = makeNetwork(isV6: place & 0x80 != 0, &input)
        let peer = Int(place) % peers.count
        if place & 0x40 != 0 {
            gateway.engine.removeAllowedIP(network.prefix, from: peers[peer].publicKey)
            table.remove(network.prefix, from: peer)
        } else {
            gateway.engine.addAllowedIP(network.prefix, to: peers[peer].publicKey)
            table.set(network, to: peer)
        }
    }

    var packets: [[UInt8]] = []
    while !input.isAtEnd, packets.count < 64 { packets.append(makePacket(&input, table)) }
    let expected = packets.map { table.peer(of: $0) }
    check(gateway.seal(packets, mtu: mtu), of: packets, expected, gateway, peers, mtu)

    // The third peer's packets wait for the handshake that they caused, and then arrive in their order.
    let third = packets.indices.filter { expected[$0] == 2 && !packets[$0].isEmpty }.map { packets[$0] }
    guard !third.isEmpty else { return }
    var arrived = exchange(gateway, peers[2])[...]
    for packet in third {
        if let whole = whole(packet) {
            require(arrived.popFirst() == whole, "a packet that waited for a session was lost or changed")
        } else if let next = arrived.first, isCompletion(next, of: packet) {
            arrived.removeFirst()
        }
    }
    require(arrived.isEmpty, "more packets arrived than waited for a session")
}

/// A network of a few bytes.
private func makeNetwork(isV6: Bool, _ input: inout ByteReader) -> ModelTable.Network {
    let length = Int(input.byte())
    let first = input.word().byteSwapped
    guard isV6 else {
        return ModelTable.Network(
            prefix: TestPacket.prefix(IPAddress.v4(first), length % 33), bytes: bytes(of: UInt64(first), 4))
    }
    let high = UInt64(first) << 32
    let low = UInt64(input.short())
    return ModelTable.Network(
        prefix: TestPacket.prefix(IPAddress.v6(high, low), length % 129),
        bytes: bytes(of: high, 8) + bytes(of: low, 8))
}

/// The last `count` bytes of a number, first byte most significant.
private func bytes(of number: UInt64, _ count: Int) -> [UInt8] {
    (0..<count).reversed().map { UInt8(truncatingIfNeeded: number >> UInt64(8 * $0)) }
}

/// A raw packet, or one to an address in or near a network of the table.
private func makePacket(_ input: inout ByteReader, _ table: ModelTable) -> [UInt8] {
    let kind = input.byte()
    let count = input.short() % 2048
    guard kind & 1 == 1, !table.entries.isEmpty else { return input.take(count) }
    let entry = table.entries[Int(input.byte()) % table.entries.count]
    let flip = input.byte()
    if entry.network.bytes.count == 4 {
        var packet = TestPacket.v4(from: 0x0a00_0001, to: 0, count: count, fill: flip)
        packet.replaceSubrange(16..<20, with: entry.network.bytes)
        packet[16 + Int(kind >> 1) % 4] ^= flip
        return packet
    }
    var packet = TestPacket.v6(from: (1, 2), to: (0, 0), count: count, fill: flip)
    packet.replaceSubrange(24..<40, with: entry.network.bytes)
    packet[24 + Int(kind >> 1) % 16] ^= flip
    return packet
}

/// The part of a packet that the receiver delivers, by the length in its header.
private func whole(_ packet: [UInt8]) -> [UInt8]? {
    guard packet.count >= 20 else { return nil }
    switch packet[0] >> 4 {
    case 4:
        let total = Int(packet[2]) << 8 | Int(packet[3])
        let header = Int(packet[0] & 15) * 4
        guard header >= 20, total >= header, total <= packet.count else { return nil }
        return Array(packet.prefix(total))
    case 6:
        guard packet.count >= 40 else { return nil }
        let total = 40 + (Int(packet[4]) << 8 | Int(packet[5]))
        return total <= packet.count ? Array(packet.prefix(total)) : nil
    default: return nil
    }
}

/// Whether `one` is a packet whose header gave a length beyond its bytes, with zeros of the padding for the rest.
private func isCompletion(_ one: [UInt8], of packet: [UInt8]) -> Bool {
    one.count > packet.count && one.count < packet.count + 16 && one.starts(with: packet)
        && one[packet.count...].allSatisfy { $0 == 0 }
}

/// Checks the datagrams of peers with a session.
private func check(
    _ datagrams: [OutgoingDatagram], of packets: [[UInt8]], _ expected: [Int?], _ gateway: Host, _ peers: [Host],
    _ mtu: Int
) {
    let sent = packets.indices.filter { !packets[$0].isEmpty && expected[$0] != nil && expected[$0] != 2 }
    require(datagrams.count == sent.count, "\(datagrams.count) datagrams for \(sent.count) packets")
    for (datagram, index) in zip(datagrams, sent) {
        guard let number = expected[index] else { continue }
        let packet = packets[index]
        require(datagram.endpoint == peers[number].endpoint, "packet \(index) went to another peer")
        let padded = datagram.bytes.count - 32
        require(padded == paddedLength(packet.count, mtu), "\(packet.count) bytes padded to \(padded), MTU \(mtu)")
        let opened = peers[number].receive([(datagram.bytes, gateway.endpoint)])
        if let whole = whole(packet) {
            require(opened == [whole], "packet \(index) did not arrive as it was")
        } else {
            require(opened.allSatisfy { isCompletion($0, of: packet) }, "packet \(index) arrived changed")
        }
    }
}

/// Padding to 16 bytes, of the last MTU's worth of bytes alone, and never beyond the MTU.
private func paddedLength(_ count: Int, _ mtu: Int) -> Int {
    func rounded(_ count: Int) -> Int { (count + 15) / 16 * 16 }
    guard mtu > 0 else { return rounded(count) }
    let last = count > mtu ? count % mtu : count
    return count - last + min(rounded(last), mtu)
}

/// Lets both sides talk until they have nothing to say; gives the packets that the peer delivered.
func exchange(_ gateway: Host, _ peer: Host) -> [[UInt8]] {
    var packets: [[UInt8]] = []
    for _ in 0..<64 {
        let out = gateway.drain()
        let back = peer.drain()
        if out.isEmpty, back.isEmpty { break }
        packets += peer.receive(out.map { ($0.bytes, gateway.endpoint) })
        _ = gateway.receive(back.map { ($0.bytes, peer.endpoint) })
    }
    return packets
}
