// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import TunnelIO

/// One lookup of a name's addresses (RFC 1035), as a packet through the tunnel, because a process's own sockets may bypass
/// it.
struct DNSQuestion: Sendable {
    let source: IPAddress
    let server: IPAddress
    let port: UInt16
    private let message: DNSMessage

    /// The query ID that an answer must repeat.
    var identifier: UInt16 { message.identifier }

    /// Makes a question from `source` to `server`; `nil` if their families differ or `name` is not a host name.
    init?(
        name: String, wantsIPv6: Bool, from source: IPAddress, to server: IPAddress,
        using random: inout some RandomNumberGenerator
    ) {
        guard source.isIPv6 == server.isIPv6,
            let message = DNSMessage(name: name, wantsIPv6: wantsIPv6, using: &random)
        else { return nil }
        (self.message, self.source, self.server) = (message, source, server)
        port = UInt16.random(in: 49_152 ... .max, using: &random)
    }

    /// The IP packet of the query.
    var packet: [UInt8] {
        PacketBuilder.udp(
            from: source, port: port, to: server, port: DNSMessage.port, payload: message.query)
    }

    /// Returns the addresses in `packet` if it answers this question, or `nil` if it is another packet.
    func answer(in packet: [UInt8]) -> [IPAddress]? {
        guard let datagram = UDPDatagramView(packet), datagram.packet.source == server,
            datagram.packet.destination == source, datagram.sourcePort == DNSMessage.port,
            datagram.destinationPort == port, let answer = message.answer(in: Array(packet[datagram.payload]))
        else { return nil }
        guard case .addresses(let addresses) = answer else { return [] }
        return addresses
    }
}
