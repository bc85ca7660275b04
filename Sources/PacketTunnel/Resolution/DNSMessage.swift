// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// A DNS question for the addresses of a name in one family, and its answer, in wire format (RFC 1035).
package struct DNSMessage: Hashable, Sendable {
    /// The answer of a server.
    package enum Answer: Hashable, Sendable {
        /// The addresses; empty if the name has no address of this family.
        case addresses([IPAddress])
        /// There is no such name.
        case noSuchName
        /// The server cannot answer, but another one may.
        case refused(code: UInt8)
    }

    /// The port of name servers.
    package static let port: UInt16 = 53

    let name: String
    let isIPv6: Bool
    package let identifier: UInt16

    /// Creates a question. Returns `nil` if `name` is not a host name.
    package init?(name: String, wantsIPv6: Bool, using random: inout some RandomNumberGenerator) {
        let labels = name.split(separator: ".", omittingEmptySubsequences: true)
        guard !labels.isEmpty, name.utf8.count <= 253, labels.allSatisfy({ (1...63).contains($0.utf8.count) }) else {
            return nil
        }
        (self.name, isIPv6) = (name, wantsIPv6)
        identifier = UInt16.random(in: 0 ... .max, using: &random)
    }

    private var type: UInt8 { isIPv6 ? 28 : 1 }

    private var question: [UInt8] {
        var bytes: [UInt8] = []
        for label in name.split(separator: ".") {
            bytes.append(UInt8(clamping: label.utf8.count))
            bytes += Array(label.utf8)
        }
        return bytes + [0, 0, type, 0, 1]
    }

    /// The query message, with recursion desired.
    package var query: [UInt8] {
        [UInt8(identifier >> 8), UInt8(identifier & 0xff), 1, 0, 0, 1, 0, 0, 0, 0, 0, 0] + question
    }

    /// Parses the answer in `message`. Returns `nil` if it does not answer this question.
    package func answer(in message: [UInt8]) -> Answer? {
        let reader = Reader(bytes: message)
        guard reader.word(0) == identifier, let flags = reader.word(2), flags & 0x8000 != 0, reader.word(4) == 1,
            let asked = reader.slice(12, question.count), Self.lowercased(asked) == Self.lowercased(question[...])
        else { return nil }
        switch flags & 0x000f {
        case 0: return .addresses(addresses(in: reader, from: 12 + question.count))
        case 3: return .noSuchName
        case let code: return .refused(code: UInt8(code))
        }
    }

    /// Converts letters to lower case, because names are compared without regard to case. The other bytes of a question
    /// are not affected.
    private static func lowercased(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        bytes.map { (0x41...0x5a).contains($0) ? $0 | 0x20 : $0 }
    }

    /// Returns the addresses of all records of the type, under any name, because an alias may lead to another name.
    private func addresses(in reader: Reader, from start: Int) -> [IPAddress] {
        guard let answers = reader.word(6) else { return [] }
        var found: [IPAddress] = []
        var offset = start
        for _ in 0..<answers {
            guard let end = reader.endOfName(offset), let kind = reader.word(end), let length = reader.word(end + 8),
                let data = reader.slice(end + 10, Int(length))
            else { break }
            if kind == UInt16(type), let address = IPAddress(bytes: data), address.isIPv6 == isIPv6,
                !found.contains(address)
            {
                found.append(address)
            }
            offset = end + 10 + Int(length)
        }
        return found
    }

    /// A reader of bytes that may end anywhere.
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

        /// Returns the offset after the name at `offset`: after its zero byte or its first pointer.
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
