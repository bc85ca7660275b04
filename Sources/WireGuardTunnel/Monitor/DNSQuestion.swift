// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import TunnelIO

/// One lookup of a name's addresses (RFC 1035), as a packet through the tunnel: a process's own sockets may go around it.
struct DNSQuestion: Sendable {
    let source: IPAddress
    let server: IPAddress
    let port: UInt16
    private let message: DNSMessage

    /// What tells the answer from others.
    var identifier: UInt16 { message.identifier }

    /// A question of `source` to `server`, both of one family; nil where they are not, or `name` is no host name.
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

    /// The packet that asks.
    var packet: [UInt8] {
        PacketBuilder.udp(
            from: source, port: port, to: server, port: DNSMessage.port, payload: message.query)
    }

    /// The addresses in `packet` when it is the answer to this question; nil when it is something else.
    func answer(in packet: [UInt8]) -> [IPAddress]? {
        let start: Int
        switch packet.first.map({ $0 >> 4 }) {
        case 4:
            guard packet.count >= 28, packet[9] == PacketBuilder.IPProtocol.udp,
                IPAddress(bytes: packet[12..<16]) == server, IPAddress(bytes: packet[16..<20]) == source
            else { return nil }
            start = Int(packet[0] & 0x0f) * 4
        case 6:
            guard packet.count >= 48, packet[6] == PacketBuilder.IPProtocol.udp,
                IPAddress(bytes: packet[8..<24]) == server, IPAddress(bytes: packet[24..<40]) == source
            else { return nil }
            start = 40
        default: return nil
        }
        guard packet.count > start + 8, Self.word(packet, start) == DNSMessage.port,
            Self.word(packet, start + 2) == port, let answer = message.answer(in: Array(packet[(start + 8)...]))
        else { return nil }
        guard case .addresses(let addresses) = answer else { return [] }
        return addresses
    }

    /// Two bytes that are there.
    private static func word(_ bytes: [UInt8], _ offset: Int) -> UInt16 {
        UInt16(bytes[offset]) << 8 | UInt16(bytes[offset + 1])
    }
}
