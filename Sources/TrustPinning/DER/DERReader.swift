// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// What is wrong with bytes that should be DER.
package struct DERError: Error, Hashable, CustomStringConvertible {
    package let reason: String

    package init(_ reason: String) { self.reason = reason }

    package var description: String { reason }
}

/// One element: its tag octet, its content, and all of its bytes.
package struct DERElement: Hashable {
    package let tag: UInt8
    package let content: ArraySlice<UInt8>
    package let bytes: ArraySlice<UInt8>

    package var reader: DERReader { DERReader(content) }
}

/// Walks through DER (X.690 section 10) one element at a time and takes nothing that is merely BER: no indefinite or
/// overlong lengths, no tag numbers above 30.
///
/// It never looks beyond the slice it was made with, and goes no deeper than its caller asks: it cannot recurse.
package struct DERReader {
    package private(set) var rest: ArraySlice<UInt8>

    package init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    package init(_ bytes: [UInt8]) { rest = bytes[...] }

    package var isAtEnd: Bool { rest.isEmpty }

    /// The tag of the next element, nil at the end.
    package var nextTag: UInt8? { rest.first }

    /// Reads the next element, whatever it is.
    package mutating func read() throws(DERError) -> DERElement {
        let start = rest.startIndex
        guard let tag = rest.first else { throw DERError("an element is missing") }
        guard tag & 0x1f != 0x1f else { throw DERError("tag numbers above 30 are not used in certificates") }
        let (length, header) = try Self.length(rest.dropFirst())
        guard rest.count - header >= length else {
            throw DERError("an element of \(length) bytes has only \(rest.count - header)")
        }
        let contentStart = start + header
        let end = contentStart + length
        let element = DERElement(tag: tag, content: rest[contentStart..<end], bytes: rest[start..<end])
        rest = rest[end...]
        return element
    }

    /// Reads the next element, which must have this tag.
    package mutating func read(_ tag: DERTag) throws(DERError) -> DERElement {
        guard let next = nextTag else { throw DERError("\(tag) is missing") }
        guard next == tag.rawValue else { throw DERError("\(tag) was expected, not tag \(next)") }
        return try read()
    }

    /// Reads the next element if it has this tag.
    package mutating func readOptional(_ tag: DERTag) throws(DERError) -> DERElement? {
        guard nextTag == tag.rawValue else { return nil }
        return try read()
    }

    /// Throws unless everything was read.
    package func end(of what: String) throws(DERError) {
        guard isAtEnd else { throw DERError("\(rest.count) bytes follow the end of \(what)") }
    }

    /// The one element that these bytes are.
    package static func only(_ tag: DERTag, _ bytes: ArraySlice<UInt8>) throws(DERError) -> DERElement {
        var reader = DERReader(bytes)
        let element = try reader.read(tag)
        try reader.end(of: "\(tag)")
        return element
    }

    /// The length that the octets after a tag state, and the size of tag and length together.
    private static func length(_ octets: ArraySlice<UInt8>) throws(DERError) -> (length: Int, header: Int) {
        guard let first = octets.first else { throw DERError("the length of an element is missing") }
        if first < 0x80 { return (Int(first), 2) }
        // Three octets state up to 16 MiB, which no certificate has, and fit an Int of 32 bits.
        let count = Int(first & 0x7f)
        guard count > 0 else { throw DERError("a length is indefinite") }
        guard count <= 3 else { throw DERError("a length has \(count) octets") }
        let digits = octets.dropFirst().prefix(count)
        guard digits.count == count else { throw DERError("the length of an element is cut") }
        var value = 0
        for digit in digits { value = value << 8 | Int(digit) }
        guard digits.first != 0, value > 127 else { throw DERError("a length is not in its shortest form") }
        return (value, 2 + count)
    }
}

/// The tags of certificates.
package struct DERTag: Hashable, CustomStringConvertible {
    package let rawValue: UInt8
    package let description: String

    private init(_ rawValue: UInt8, _ description: String) {
        self.rawValue = rawValue
        self.description = description
    }

    package static let boolean = DERTag(0x01, "BOOLEAN")
    package static let integer = DERTag(0x02, "INTEGER")
    package static let bitString = DERTag(0x03, "BIT STRING")
    package static let octetString = DERTag(0x04, "OCTET STRING")
    package static let null = DERTag(0x05, "NULL")
    package static let objectIdentifier = DERTag(0x06, "OBJECT IDENTIFIER")
    package static let utcTime = DERTag(0x17, "UTCTime")
    package static let generalizedTime = DERTag(0x18, "GeneralizedTime")
    package static let sequence = DERTag(0x30, "SEQUENCE")
    package static let set = DERTag(0x31, "SET")

    /// A constructed, context-specific tag.
    package static func constructed(_ number: UInt8) -> DERTag { DERTag(0xa0 | number & 0x1f, "[\(number)]") }

    /// A primitive, context-specific tag.
    package static func primitive(_ number: UInt8) -> DERTag { DERTag(0x80 | number & 0x1f, "[\(number)]") }
}
