// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension JSON {
    /// Reads a text of JSON in UTF-8 (RFC 8259), which is one value.
    ///
    /// The reader is strict, because two readers that understand a text differently must not both accept it. It refuses an object with
    /// two members of one name, nesting deeper than `depth`, and a byte order mark.
    /// - Parameters:
    ///   - depth: The greatest number of arrays and objects around a value.
    ///   - isWhole: Whether numbers with a fraction or an exponent, and integers that exceed 64 bits, are refused.
    /// - Throws: ``JSONError`` for the first error in the text.
    package static func read(
        _ bytes: [UInt8], depth: Int = 64, isWhole: Bool = false
    ) throws(JSONError) -> JSON {
        var reader = JSONReader(bytes: bytes, depth: depth, isWhole: isWhole)
        return try reader.document()
    }
}

/// An error in a text that is read as JSON.
package struct JSONError: Error, Hashable, Sendable {
    /// The error, without its position.
    package let problem: String
    /// The offset at which reading ended, in bytes.
    package let position: Int
    /// The name that an object has twice, or `nil` for other errors. It is external text.
    package let repeatedName: String?
    /// The path of that member, such as `a.b[2].c`, or `nil` for other errors. It is external text.
    package private(set) var repeatedPath: String?

    init(_ problem: String, at position: Int, repeatedName: String? = nil) {
        self.problem = problem
        self.position = position
        self.repeatedName = repeatedName
        repeatedPath = repeatedName
    }

    /// The error, with the path of its member from the object or the array around it.
    func inside(_ outer: String) -> JSONError {
        var error = self
        error.repeatedPath = repeatedPath.map { $0.hasPrefix("[") ? outer + $0 : "\(outer).\($0)" }
        return error
    }
}

private struct JSONReader {
    /// The most bytes of a member's name, as it is written in the text.
    static var longestName: Int { 1_024 }

    let bytes: [UInt8]
    let depth: Int
    let isWhole: Bool
    var position = 0

    init(bytes: [UInt8], depth: Int, isWhole: Bool) {
        self.bytes = bytes
        self.depth = depth
        self.isWhole = isWhole
    }

    mutating func document() throws(JSONError) -> JSON {
        // RFC 8259 section 8.1 permits a reader to ignore it, but signed documents must have only one form.
        guard !bytes.starts(with: [0xef, 0xbb, 0xbf]) else {
            throw error("a byte order mark was found (save the text as UTF-8 without it)")
        }
        let value = try value(depth: 0)
        skipSpace()
        guard peek == nil else { throw error("there is text after the end of the value") }
        return value
    }

    private func error(_ problem: String) -> JSONError { JSONError(problem, at: position) }

    private var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func skipSpace() {
        while let byte = peek, byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09 { position += 1 }
    }

    /// Skips a byte if it is the next one.
    private mutating func skip(_ character: Unicode.Scalar) -> Bool {
        guard peek == UInt8(ascii: character) else { return false }
        position += 1
        return true
    }

    private mutating func expect(_ character: Unicode.Scalar) throws(JSONError) {
        guard skip(character) else { throw error("\(character) was expected") }
    }

    private mutating func value(depth: Int) throws(JSONError) -> JSON {
        skipSpace()
        switch peek {
        case UInt8(ascii: "{"), UInt8(ascii: "["):
            guard depth < self.depth else { throw error("the nesting is too deep") }
            return peek == UInt8(ascii: "{") ? try object(depth: depth) : try array(depth: depth)
        case UInt8(ascii: "\""): return .string(try text())
        case UInt8(ascii: "t"): return try literal("true", .bool(true))
        case UInt8(ascii: "f"): return try literal("false", .bool(false))
        case UInt8(ascii: "n"): return try literal("null", .null)
        case nil: throw error("the text ends too early")
        default: return try number()
        }
    }

    private mutating func literal(_ name: String, _ value: JSON) throws(JSONError) -> JSON {
        guard bytes[position...].starts(with: name.utf8) else { throw error("a value was expected") }
        position += name.utf8.count
        return value
    }

    // MARK: - Numbers

    private mutating func number() throws(JSONError) -> JSON {
        let start = position
        _ = skip("-")
        let first = position
        guard digits() > 0 else { throw error("a value was expected") }
        let isNegativeZero = first > start && bytes[first] == UInt8(ascii: "0") && position - first == 1
        guard position - first == 1 || bytes[first] != UInt8(ascii: "0"), !(isWhole && isNegativeZero) else {
            throw error("a number has a leading zero")
        }
        var isInteger = true
        var significant = Array(bytes[first..<position])
        var fraction = 0
        if skip(".") {
            isInteger = false
            fraction = digits()
            guard fraction > 0 else { throw error("a digit was expected") }
            significant += bytes[(position - fraction)..<position]
        }
        let afterDigits = position
        if skip("e") || skip("E") {
            isInteger = false
            _ = skip("+") || skip("-")
            guard digits() > 0 else { throw error("a digit was expected") }
        }
        let exponent = String(decoding: bytes[afterDigits..<position].dropFirst(), as: UTF8.self)
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        if isInteger, let value = Int64(text) { return .integer(value) }
        guard !isWhole else { throw error(isInteger ? "a number is too large" : "only integers are allowed") }
        guard let value = Double(text), value.isFinite else { throw error("a number is too large") }
        // 2.0 and 2e0 are the integer 2 (JSON Schema 2020-12, section 6.1.1 of the validation vocabulary).
        if !isInteger, value.magnitude <= 0x1p53,
            let whole = Self.whole(significant, exponent: exponent.isEmpty ? 0 : Int(exponent), fraction: fraction)
        {
            let value = first > start ? -whole : whole
            return .integer(value)
        }
        return .number(text)
    }

    /// Returns the magnitude of a number that is an integer. The digits decide, not the rounded `Double`: 1e-400 is not
    /// 0.
    /// - Parameters:
    ///   - digits: All digits before the exponent.
    ///   - exponent: `nil` if it exceeds 64 bits.
    ///   - fraction: The number of digits behind the point.
    /// - Returns: `nil` for a number with a fraction, and for one that exceeds 64 bits.
    private static func whole(_ digits: [UInt8], exponent: Int?, fraction: Int) -> Int64? {
        let zero = UInt8(ascii: "0")
        let leading = digits.drop { $0 == zero }
        guard let last = leading.lastIndex(where: { $0 != zero }) else { return 0 }
        guard let exponent else { return nil }
        let zeros = exponent.subtractingReportingOverflow(fraction - (digits.endIndex - 1 - last))
        guard !zeros.overflow, (0...18).contains(zeros.partialValue) else { return nil }
        let text = Array(leading[...last]) + Array(repeating: zero, count: zeros.partialValue)
        return Int64(String(decoding: text, as: UTF8.self))
    }

    /// Skips digits.
    /// - Returns: The number of digits.
    private mutating func digits() -> Int {
        let start = position
        while let byte = peek, (0x30...0x39).contains(byte) { position += 1 }
        return position - start
    }

    // MARK: - Arrays and objects

    private mutating func array(depth: Int) throws(JSONError) -> JSON {
        position += 1
        var elements: [JSON] = []
        skipSpace()
        if skip("]") { return .array([]) }
        while true {
            do throws(JSONError) { elements.append(try value(depth: depth + 1)) } catch {
                throw error.inside("[\(elements.count)]")
            }
            skipSpace()
            if skip("]") { return .array(elements) }
            try expect(",")
        }
    }

    private mutating func object(depth: Int) throws(JSONError) -> JSON {
        position += 1
        var members: [JSON.Member] = []
        var names: Set<String> = []
        skipSpace()
        if skip("}") { return .object([]) }
        while true {
            skipSpace()
            let start = position
            let name = try text()
            // Hashing a long name with many combining marks takes long.
            guard position - start <= Self.longestName else { throw error("a name is too long") }
            guard names.insert(name).inserted else {
                throw JSONError("a name occurs twice", at: position, repeatedName: name)
            }
            skipSpace()
            try expect(":")
            do throws(JSONError) {
                members.append(JSON.Member(name: name, value: try value(depth: depth + 1)))
            } catch {
                throw error.inside(name)
            }
            skipSpace()
            if skip("}") { return .object(members) }
            try expect(",")
        }
    }

    // MARK: - Texts

    private mutating func text() throws(JSONError) -> String {
        try expect("\"")
        var content: [UInt8] = []
        while let byte = peek {
            position += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let text = String(validating: content, as: UTF8.self) else { throw error("text is not UTF-8") }
                return text
            case UInt8(ascii: "\\"): content += try escape()
            case ..<0x20: throw error("a string contains a control character")
            default: content.append(byte)
            }
        }
        throw error("text has no end")
    }

    private mutating func escape() throws(JSONError) -> [UInt8] {
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
            guard let text = String(validating: units, as: UTF16.self) else {
                throw error("a surrogate escape has no second half")
            }
            return Array(text.utf8)
        default: throw error("an escape is unknown")
        }
    }

    private mutating func unit() throws(JSONError) -> UInt16 {
        let digits = bytes[position...].prefix(4)
        guard digits.count == 4, digits.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }),
            let unit = UInt16(String(decoding: digits, as: UTF8.self), radix: 16)
        else { throw error("an escape is incomplete") }
        position += 4
        return unit
    }
}
