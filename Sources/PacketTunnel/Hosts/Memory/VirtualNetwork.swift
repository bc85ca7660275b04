// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
import Synchronization
internal import TunnelIO

/// A small network in memory: every address in it answers ping (RFC 792, RFC 4443) and echoes UDP (RFC 862).
public final class VirtualNetwork: Sendable {
    /// What has happened in a network.
    public struct Statistics: Hashable, Sendable {
        /// Packets that came in.
        public var packetsReceived = 0
        /// Bytes that came in.
        public var bytesReceived = 0
        /// Echo requests that were answered.
        public var pingsAnswered = 0
        /// UDP datagrams that were echoed.
        public var datagramsEchoed = 0
        /// Packets that got no answer.
        public var unanswered = 0
    }

    private struct State {
        var isReachable = true
        var statistics = Statistics()
    }

    /// The networks whose addresses answer.
    public let prefixes: [IPPrefix]
    private let echoPort: UInt16?
    private let state = Mutex(State())

    /// A network.
    ///
    /// - Parameters:
    ///   - prefixes: the networks whose addresses answer; by default all.
    ///   - echoPort: the UDP port that echoes; nil is every port.
    public init(prefixes: [IPPrefix] = [.allIPv4, .allIPv6], echoPort: UInt16? = nil) {
        self.prefixes = prefixes
        self.echoPort = echoPort
    }

    /// What has happened so far.
    public var statistics: Statistics { state.withLock { $0.statistics } }

    /// Whether anything answers; switched off, the network is a hole.
    public var isReachable: Bool {
        get { state.withLock { $0.isReachable } }
        set { state.withLock { $0.isReachable = newValue } }
    }

    /// Takes an IP packet and returns the answer, if there is one.
    public func receive(_ packet: [UInt8]) -> [UInt8]? {
        let isReachable = state.withLock { state in
            state.statistics.packetsReceived += 1
            state.statistics.bytesReceived += packet.count
            return state.isReachable
        }
        guard isReachable, let destination = Self.destination(of: packet),
            prefixes.contains(where: { $0.contains(destination) })
        else { return count(\.unanswered, nil) }
        if let answer = unsafe packet.withUnsafeBytes({ unsafe ICMPResponder().reply(to: $0) }) {
            return count(\.pingsAnswered, answer)
        }
        if let answer = echo(packet) { return count(\.datagramsEchoed, answer) }
        return count(\.unanswered, nil)
    }

    private func count(_ counter: WritableKeyPath<Statistics, Int>, _ answer: [UInt8]?) -> [UInt8]? {
        state.withLock { $0.statistics[keyPath: counter] += 1 }
        return answer
    }

    private static func destination(of packet: [UInt8]) -> IPAddress? {
        switch packet.first.map({ $0 >> 4 }) {
        case 4: packet.count >= 20 ? IPAddress(bytes: packet[16..<20]) : nil
        case 6: packet.count >= 40 ? IPAddress(bytes: packet[24..<40]) : nil
        default: nil
        }
    }

    /// The datagram of `packet` sent back, when it is one that is whole and correct.
    private func echo(_ packet: [UInt8]) -> [UInt8]? {
        guard let header = UDPHeader(packet), echoPort == nil || header.destinationPort == echoPort else { return nil }
        return PacketBuilder.udp(
            from: header.destination, port: header.destinationPort, to: header.source,
            port: header.sourcePort, payload: Array(packet[header.payload]))
    }
}

/// The parts of a UDP datagram in an IP packet without extension headers, checksums verified.
private struct UDPHeader {
    var source: IPAddress
    var destination: IPAddress
    var sourcePort: UInt16
    var destinationPort: UInt16
    var payload: Range<Int>

    init?(_ packet: [UInt8]) {
        func word(_ offset: Int) -> Int { Int(packet[offset]) << 8 | Int(packet[offset + 1]) }
        let start: Int
        let end: Int
        if packet.first.map({ $0 >> 4 }) == 4 {
            guard packet.count >= 20 else { return nil }
            start = Int(packet[0] & 0x0f) * 4
            end = word(2)
            guard start >= 20, packet[9] == PacketBuilder.IPProtocol.udp, word(6) & 0x3fff == 0,
                let from = IPAddress(bytes: packet[12..<16]), let to = IPAddress(bytes: packet[16..<20])
            else { return nil }
            (source, destination) = (from, to)
        } else {
            guard packet.count >= 40, packet[6] == PacketBuilder.IPProtocol.udp,
                let from = IPAddress(bytes: packet[8..<24]), let to = IPAddress(bytes: packet[24..<40])
            else { return nil }
            start = 40
            end = 40 + word(4)
            (source, destination) = (from, to)
        }
        guard end <= packet.count, start + 8 <= end, word(start + 4) == end - start, !source.isMulticast,
            !destination.isMulticast
        else { return nil }
        // A checksum of zero is none, which IPv6 does not allow (RFC 8200 section 8.1).
        if word(start + 6) == 0 {
            if source.isIPv6 { return nil }
        } else {
            var checksum = PacketBuilder.pseudoHeader(
                from: source, to: destination, number: PacketBuilder.IPProtocol.udp,
                length: end - start)
            unsafe packet.withUnsafeBytes { bytes in
                unsafe checksum.add(UnsafeRawBufferPointer(rebasing: bytes[start..<end]))
            }
            guard checksum.value == 0 else { return nil }
        }
        sourcePort = UInt16(word(start))
        destinationPort = UInt16(word(start + 2))
        payload = (start + 8)..<end
    }
}
