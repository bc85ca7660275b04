// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// Answers ICMP and ICMPv6 echo requests to any address (RFC 792, RFC 4443 section 4).
///
/// It ignores fragments, requests with wrong checksums, requests from an unspecified address, and requests from or to
/// the address of a group.
public struct ICMPResponder: Sendable {
    /// A responder.
    public init() {}

    /// The reply to `packet`; `nil` if it is not an echo request, or must not be answered.
    public func reply(to packet: UnsafeRawBufferPointer) -> [UInt8]? {
        guard let request = unsafe EchoMessageView(packet), !request.isReply, request.isIntact,
            !request.packet.source.isUnspecified, !Self.isGroup(request.packet.source),
            !Self.isGroup(request.packet.destination)
        else { return nil }
        return unsafe PacketBuilder.icmpEcho(
            from: request.packet.destination, to: request.packet.source, identifier: request.identifier,
            sequence: request.sequence, payload: Array(packet[request.payload]), isReply: true)
    }

    /// The reply to `packet`; `nil` if it is not an echo request, or must not be answered.
    public func reply(to packet: [UInt8]) -> [UInt8]? {
        unsafe packet.withUnsafeBytes { unsafe reply(to: $0) }
    }

    /// Whether the address belongs to several hosts: ff00::/8, or 224.0.0.0 and above, which includes the broadcast
    /// address.
    private static func isGroup(_ address: IPAddress) -> Bool {
        address.isIPv6 ? address.isMulticast : address.low >= 0xe000_0000
    }
}
