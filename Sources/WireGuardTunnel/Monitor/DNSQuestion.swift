// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import TunnelIO

/// One lookup of a name's addresses (RFC 1035), as a packet through the tunnel: a process's own sockets may go around it.
struct DNSQuestion: Sendable {
    let source: NetworkAddress
    let server: NetworkAddress
    let name: String
    let identifier: UInt16
    let port: UInt16
    let isIPv6: Bool

    private static let serverPort: UInt16 = 53

    /// A question of `source` to `server`, both of one family; nil where they are not, or `name` is no host name.
    init?(
        name: String, wantsIPv6: Bool, from source: NetworkAddress, to server: NetworkAddress,
        using random: inout some RandomNumberGenerator
    ) {
        let labels = name.split(separator: ".", omittingEmptySubsequences: true)
        guard source.isIPv6 == server.isIPv6, !labels.isEmpty, name.utf8.count <= 253,
            labels.allSatisfy({ (1...63).contains($0.utf8.count) })
        else { return nil }
        (self.name, self.source, self.server, isIPv6) = (name, source, server, wantsIPv6)
        identifier = UInt16.random(in: 0 ... .max, using: &random)
        port = UInt16.random(in: 49_152 ... .max, using: &random)
    }

    private var type: UInt8 { isIPv6 ? 28 : 1 }

    /// The packet that asks.
    var packet: [UInt8] {
        var message: [UInt8] = [UInt8(identifier >> 8), UInt8(identifier & 0xff), 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]
        for label in name.split(separator: ".") {
            message.append(UInt8(clamping: label.utf8.count))
            message += Array(label.utf8)
        }
        message += [0, 0, type, 0, 1]
        return PacketBuilder.udp(
            from: source.forPackets, port: port, to: server.forPackets, port: Self.serverPort, payload: message)
    }

    /// The addresses in `packet` when it is the answer to this question; nil when it is something else.
    func answer(in packet: [UInt8]) -> [NetworkAddress]? {
        let start: Int
        switch packet.first.map({ $0 >> 4 }) {
        case 4:
            guard packet.count >= 28, packet[9] == PacketBuilder.IPProtocol.udp,
                NetworkAddress(bytes: packet[12..<16]) == server, NetworkAddress(bytes: packet[16..<20]) == source
            else { return nil }
            start = Int(packet[0] & 0x0f) * 4
        case 6:
            guard packet.count >= 48, packet[6] == PacketBuilder.IPProtocol.udp,
                NetworkAddress(bytes: packet[8..<24]) == server, NetworkAddress(bytes: packet[24..<40]) == source
            else { return nil }
            start = 40
        default: return nil
        }
        let reader = Reader(bytes: packet)
        guard reader.word(start) == Self.serverPort, reader.word(start + 2) == port,
            reader.word(start + 8) == identifier, let flags = reader.word(start + 10), flags & 0x8000 != 0
        else { return nil }
        return addresses(in: reader, from: start + 8, code: flags & 0x000f)
    }

    private func addresses(in reader: Reader, from start: Int, code: UInt16) -> [NetworkAddress] {
        guard code == 0, let questions = reader.word(start + 4), let answers = reader.word(start + 6) else { return [] }
        var offset = start + 12
        for _ in 0..<questions {
            guard let end = reader.endOfName(offset) else { return [] }
            offset = end + 4
        }
        var found: [NetworkAddress] = []
        for _ in 0..<answers {
            guard let end = reader.endOfName(offset), let kind = reader.word(end), let length = reader.word(end + 8),
                let data = reader.slice(end + 10, Int(length))
            else { break }
            if kind == UInt16(type), let address = NetworkAddress(bytes: data), address.isIPv6 == isIPv6 {
                found.append(address)
            }
            offset = end + 10 + Int(length)
        }
        return found
    }

    /// Bytes that may end anywhere.
    private struct Reader {
        var bytes: [UInt8]

        func word(_ offset: Int) -> UInt16? {
            guard offset >= 0, offset + 2 <= bytes.count else { return nil }
            return UInt16(bytes[offset]) << 8 | UInt16(bytes[offset + 1])
        }

        func slice(_ offset: Int, _ count: Int) -> ArraySlice<UInt8>? {
            guard offset >= 0, offset + count <= bytes.count else { return nil }
            return bytes[offset..<(offset + count)]
        }

        /// Where a name ends that begins at `offset`: behind its zero byte, or behind its first pointer.
        func endOfName(_ offset: Int) -> Int? {
            var offset = offset
            while offset < bytes.count {
                let length = Int(bytes[offset])
                if length == 0 { return offset + 1 }
                if length & 0xc0 == 0xc0 { return offset + 2 }
                guard length < 64 else { return nil }
                offset += 1 + length
            }
            return nil
        }
    }
}
