// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import TunnelIO

/// ICMP echo requests to one address (RFC 792, RFC 4443), and the detection of their replies.
struct EchoProbe: Sendable {
    let source: IPAddress
    let target: IPAddress
    let identifier: UInt16
    private let payload: [UInt8]
    private var next: UInt16 = 1
    /// The sequence numbers that may still be answered.
    private var outstanding: [UInt16] = []

    private static let mostOutstanding = 16

    /// Makes a probe, or `nil` if the families of the addresses differ.
    init?(from source: IPAddress, to target: IPAddress, using random: inout some RandomNumberGenerator) {
        guard source.isIPv6 == target.isIPv6 else { return nil }
        self.source = source
        self.target = target
        identifier = UInt16.random(in: 0 ... .max, using: &random)
        payload = (0..<16).map { _ in UInt8.random(in: 0 ... .max, using: &random) }
    }

    /// Returns the next request. Sequence numbers wrap after 65,535.
    mutating func request() -> [UInt8] {
        let sequence = next
        next &+= 1
        outstanding.append(sequence)
        if outstanding.count > Self.mostOutstanding { outstanding.removeFirst() }
        return PacketBuilder.icmpEcho(
            from: source, to: target, identifier: identifier, sequence: sequence,
            payload: payload)
    }

    /// The relation of a packet to this probe.
    enum Verdict: Hashable, Sendable {
        /// The packet does not belong to this probe.
        case other
        /// The packet has the probe's identifier, but is late, repeated or damaged: it proves nothing.
        case stale
        /// A valid reply to a request that was not answered before.
        case reply
    }

    /// Classifies an IP packet that was received through the tunnel.
    mutating func classify(_ packet: [UInt8]) -> Verdict {
        guard let message = EchoMessageView(packet), message.isReply, message.packet.source == target,
            message.packet.destination == source, message.identifier == identifier
        else { return .other }
        guard message.isIntact, packet[message.payload].elementsEqual(payload),
            let index = outstanding.firstIndex(of: message.sequence)
        else { return .stale }
        outstanding.remove(at: index)
        return .reply
    }
}
