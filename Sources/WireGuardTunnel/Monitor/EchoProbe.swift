// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import TunnelIO

/// ICMP echo requests to one address (RFC 792, RFC 4443), and which packets are replies to them.
struct EchoProbe: Sendable {
    let source: IPAddress
    let target: IPAddress
    let identifier: UInt16
    private let payload: [UInt8]
    private var next: UInt16 = 1
    /// The sequence numbers that may still be answered.
    private var outstanding: [UInt16] = []

    private static let mostOutstanding = 16

    /// Nil when the addresses are of different families.
    init?(from source: IPAddress, to target: IPAddress, using random: inout some RandomNumberGenerator) {
        guard source.isIPv6 == target.isIPv6 else { return nil }
        self.source = source
        self.target = target
        identifier = UInt16.random(in: 0 ... .max, using: &random)
        payload = (0..<16).map { _ in UInt8.random(in: 0 ... .max, using: &random) }
    }

    /// The next request. Sequence numbers begin anew after 65,535.
    mutating func request() -> [UInt8] {
        let sequence = next
        next &+= 1
        outstanding.append(sequence)
        if outstanding.count > Self.mostOutstanding { outstanding.removeFirst() }
        return PacketBuilder.icmpEcho(
            from: source, to: target, identifier: identifier, sequence: sequence,
            payload: payload)
    }

    /// What a packet is to this probe.
    enum Verdict: Hashable, Sendable {
        /// Somebody else's.
        case other
        /// Of our identifier, but late, repeated or damaged: it proves nothing.
        case stale
        /// A valid reply to a request that was not answered before.
        case reply
    }

    /// Judges an IP packet that came through the tunnel.
    mutating func judge(_ packet: [UInt8]) -> Verdict {
        guard let message = EchoMessage(packet), message.source == target, message.destination == source,
            message.identifier == identifier
        else { return .other }
        guard message.isIntact, message.payload.elementsEqual(payload),
            let index = outstanding.firstIndex(of: message.sequence)
        else { return .stale }
        outstanding.remove(at: index)
        return .reply
    }
}

/// An echo reply inside an IP packet without extension headers or fragments.
private struct EchoMessage {
    var source: IPAddress
    var destination: IPAddress
    var identifier: UInt16
    var sequence: UInt16
    var payload: ArraySlice<UInt8>
    /// Whether all checksums are right.
    var isIntact: Bool

    init?(_ packet: [UInt8]) {
        func word(_ offset: Int) -> UInt16 { UInt16(packet[offset]) << 8 | UInt16(packet[offset + 1]) }
        let start: Int
        let end: Int
        var checksum: InternetChecksum
        var headerIsIntact = true
        switch packet.first.map({ $0 >> 4 }) {
        case 4:
            guard packet.count >= 20, packet[9] == PacketBuilder.IPProtocol.icmp, word(6) & 0x3fff == 0,
                let from = IPAddress(bytes: packet[12..<16]), let to = IPAddress(bytes: packet[16..<20])
            else { return nil }
            start = Int(packet[0] & 0x0f) * 4
            end = Int(word(2))
            guard start >= 20, start + 8 <= end, end <= packet.count, packet[start] == 0, packet[start + 1] == 0
            else { return nil }
            headerIsIntact = unsafe packet.withUnsafeBytes { bytes in
                unsafe InternetChecksum.of(UnsafeRawBufferPointer(rebasing: bytes[0..<start])) == 0
            }
            (source, destination, checksum) = (from, to, InternetChecksum())
        case 6:
            guard packet.count >= 48, packet[6] == PacketBuilder.IPProtocol.icmpv6,
                let from = IPAddress(bytes: packet[8..<24]), let to = IPAddress(bytes: packet[24..<40])
            else { return nil }
            start = 40
            end = 40 + Int(word(4))
            guard start + 8 <= end, end <= packet.count, packet[start] == 129, packet[start + 1] == 0
            else { return nil }
            checksum = PacketBuilder.pseudoHeader(
                from: from, to: to, number: PacketBuilder.IPProtocol.icmpv6, length: end - start)
            (source, destination) = (from, to)
        default: return nil
        }
        unsafe packet.withUnsafeBytes { bytes in
            unsafe checksum.add(UnsafeRawBufferPointer(rebasing: bytes[start..<end]))
        }
        isIntact = headerIsIntact && checksum.value == 0
        identifier = word(start + 4)
        sequence = word(start + 6)
        payload = packet[(start + 8)..<end]
    }
}
