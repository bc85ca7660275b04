// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Reads JSON (RFC 8259) strictly: names that occur twice, deep nesting and fractions are refused. What two readers
/// understand differently is not signed and not believed.
package struct JSONReader {
    private let bytes: ArraySlice<UInt8>
    private var position: Int

    /// The deepest nesting.
    static let maximumDepth = 16
    /// The longest text, in bytes.
    package static let maximumSize = 1 << 20

    /// Reads one value, which is the whole text.
    package static func read(_ bytes: [UInt8]) throws(PolicyError) -> PolicyValue {
        guard bytes.count <= maximumSize else { throw error("the text has more than 1 MiB", at: nil) }
        guard !bytes.isEmpty else { throw error("there is no text: JSON was expected", at: nil) }
        var reader = JSONReader(bytes: bytes[...], position: 0)
        let value = try reader.value(depth: 0)
        reader.skipSpace()
        guard reader.peek == nil else { throw error("something follows the end", at: reader.position) }
        return value
    }

    private static func error(_ reason: String, at position: Int?) -> PolicyError {
        PolicyError([PolicyProblem("", position.map { "not JSON: \(reason), at byte \($0)" } ?? reason)])
    }

    private func error(_ reason: String) -> PolicyError { Self.error(reason, at: position) }

    private var peek: UInt8? { position < bytes.endIndex ? bytes[position] : nil }

    private mutating func skipSpace() {
        while let byte = peek, byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09 { position += 1 }
    }

    private mutating func expect(_ character: Unicode.Scalar) throws(PolicyError) {
        guard peek == UInt8(ascii: character) else { throw error("\(character) was expected") }
        position += 1
    }

    private mutating func value(depth: Int) throws(PolicyError) -> PolicyValue {
        guard depth < Self.maximumDepth else { throw error("it is nested too deeply") }
        skipSpace()
        switch peek {
        case UInt8(ascii: "{"): return .object(try object(depth: depth))
        case UInt8(ascii: "["): return .array(try array(depth: depth))
        case UInt8(ascii: "\""): return .text(try text())
        case UInt8(ascii: "t"): return try literal("true", .boolean(true))
        case UInt8(ascii: "f"): return try literal("false", .boolean(false))
        case UInt8(ascii: "n"): return try literal("null", .null)
        case nil: throw error("it ends too early")
        default: return .integer(try integer())
        }
    }

    private mutating func literal(_ name: String, _ value: PolicyValue) throws(PolicyError) -> PolicyValue {
        guard bytes[position...].starts(with: name.utf8) else { throw error("a value was expected") }
        position += name.utf8.count
        return value
    }

    private mutating func integer() throws(PolicyError) -> Int64 {
        let start = position
        if peek == UInt8(ascii: "-") { position += 1 }
        let digits = position
        while let byte = peek, (0x30...0x39).contains(byte) { position += 1 }
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        guard position > digits else { throw error("a value was expected") }
        guard position - digits == 1 || bytes[digits] != UInt8(ascii: "0"), text != "-0" else {
            throw error("a number begins with 0")
        }
        if let byte = peek, [UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E")].contains(byte) {
            throw error("numbers are whole here")
        }
        guard let number = Int64(text) else { throw error("a number is too large") }
        return number
    }

    private mutating func array(depth: Int) throws(PolicyError) -> [PolicyValue] {
        try expect("[")
        var elements: [PolicyValue] = []
        skipSpace()
        if peek == UInt8(ascii: "]") {
            position += 1
            return elements
        }
        while true {
            elements.append(try value(depth: depth + 1))
            skipSpace()
            if peek == UInt8(ascii: "]") { break }
            try expect(",")
        }
        position += 1
        return elements
    }

    private mutating func object(depth: Int) throws(PolicyError) -> [String: PolicyValue] {
        try expect("{")
        var members: [String: PolicyValue] = [:]
        skipSpace()
        if peek == UInt8(ascii: "}") {
            position += 1
            return members
        }
        while true {
            skipSpace()
            let name = try text()
            guard members[name] == nil else { throw error("a name occurs twice") }
            skipSpace()
            try expect(":")
            members[name] = try value(depth: depth + 1)
            skipSpace()
            if peek == UInt8(ascii: "}") { break }
            try expect(",")
        }
        position += 1
        return members
    }

    private mutating func text() throws(PolicyError) -> String {
        try expect("\"")
        var content: [UInt8] = []
        while let byte = peek {
            position += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let text = String(validating: content, as: UTF8.self) else { throw error("text is not UTF-8") }
                return text
            case UInt8(ascii: "\\"): content += try escape()
            case ..<0x20: throw error("text holds a control character")
            default: content.append(byte)
            }
        }
        throw error("text has no end")
    }

    private mutating func escape() throws(PolicyError) -> [UInt8] {
        guard let byte = peek else { throw error("text has no end") }
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return [byte]
        case UInt8(ascii: "b"): return [0x08]
        case UInt8(ascii: "f"): return [0x0c]
        case UInt8(ascii: "n"): return [0x0a]
        case UInt8(ascii: "r"): return [0x0d]
        case UInt8(ascii: "t"): return [0x09]
        case UInt8(ascii: "u"):
            var units = [try unit()]
            if UTF16.isLeadSurrogate(units[0]) {
                try expect("\\")
                try expect("u")
                units.append(try unit())
            }
            guard let text = String(validating: units, as: UTF16.self) else { throw error("half of a character") }
            return Array(text.utf8)
        default: throw error("an escape is unknown")
        }
    }

    private mutating func unit() throws(PolicyError) -> UInt16 {
        let digits = bytes[position...].prefix(4)
        guard digits.count == 4, digits.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }),
            let unit = UInt16(String(decoding: digits, as: UTF8.self), radix: 16)
        else { throw error("an escape is cut") }
        position += 4
        return unit
    }
}
