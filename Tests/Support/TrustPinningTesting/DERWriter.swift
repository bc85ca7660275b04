// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Writes DER. It shares no code with the reader it is used to test.
package enum DERWriter {
    package static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        [tag] + length(content.count) + content
    }

    package static func length(_ count: Int) -> [UInt8] {
        guard count > 127 else { return [UInt8(truncatingIfNeeded: count)] }
        var octets: [UInt8] = []
        var rest = count
        while rest > 0 {
            octets.insert(UInt8(truncatingIfNeeded: rest), at: 0)
            rest >>= 8
        }
        return [0x80 | UInt8(truncatingIfNeeded: octets.count)] + octets
    }

    package static func sequence(_ parts: [UInt8]...) -> [UInt8] { element(0x30, parts.flatMap(\.self)) }

    package static func set(_ parts: [UInt8]...) -> [UInt8] { element(0x31, parts.flatMap(\.self)) }

    /// A constructed element with a context-specific tag.
    package static func explicit(_ number: UInt8, _ content: [UInt8]) -> [UInt8] { element(0xa0 | number, content) }

    /// A primitive element with a context-specific tag.
    package static func implicit(_ number: UInt8, _ content: [UInt8]) -> [UInt8] { element(0x80 | number, content) }

    package static func integer(_ value: UInt64) -> [UInt8] {
        integer(magnitude: (0..<8).reversed().map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) })
    }

    /// A positive INTEGER of a big-endian magnitude.
    package static func integer(magnitude: [UInt8]) -> [UInt8] {
        var octets = Array(magnitude.drop { $0 == 0 })
        if octets.first.map({ $0 & 0x80 != 0 }) ?? true { octets.insert(0, at: 0) }
        return element(0x02, octets)
    }

    package static func boolean(_ value: Bool) -> [UInt8] { element(0x01, [value ? 0xff : 0]) }

    package static func octetString(_ content: [UInt8]) -> [UInt8] { element(0x04, content) }

    package static func bitString(_ content: [UInt8], unusedBits: UInt8 = 0) -> [UInt8] {
        element(0x03, [unusedBits] + content)
    }

    package static func utf8String(_ text: String) -> [UInt8] { element(0x0c, Array(text.utf8)) }

    package static let null: [UInt8] = [0x05, 0x00]

    package static func objectIdentifier(_ arcs: UInt64...) -> [UInt8] {
        var content = base128(arcs[0] * 40 + arcs[1])
        for arc in arcs.dropFirst(2) { content += base128(arc) }
        return element(0x06, content)
    }

    private static func base128(_ value: UInt64) -> [UInt8] {
        var octets = [UInt8(truncatingIfNeeded: value & 0x7f)]
        var rest = value >> 7
        while rest > 0 {
            octets.insert(0x80 | UInt8(truncatingIfNeeded: rest & 0x7f), at: 0)
            rest >>= 7
        }
        return octets
    }

    /// Encodes UTCTime before 2050 and GeneralizedTime from then on, as RFC 5280 section 4.1.2.5 requires.
    package static func time(_ date: TestDate) -> [UInt8] {
        let text = date.digits
        guard date.year >= 2050 else { return element(0x17, Array(text.dropFirst(2).utf8)) }
        return element(0x18, Array(text.utf8))
    }
}
