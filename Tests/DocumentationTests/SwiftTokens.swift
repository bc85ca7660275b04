// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A word or character of Swift source text.
enum SwiftToken: Equatable {
    case word(String)
    case symbol(String)
    /// A string literal, with its interpolations.
    case text

    /// Returns the tokens of a file, without comments and without the lines of conditional compilation.
    static func tokens(of text: String) -> [SwiftToken] {
        var reader = SwiftTokenReader(text)
        return reader.readAll()
    }
}

private struct SwiftTokenReader {
    private let bytes: [UInt8]
    private var position = 0

    private static let directives: Set = ["if", "elseif", "else", "endif", "error", "warning", "sourceLocation"]

    init(_ text: String) { bytes = Array(text.utf8) }

    mutating func readAll() -> [SwiftToken] {
        var tokens: [SwiftToken] = []
        while let byte = peek() {
            switch byte {
            case UInt8(ascii: " "), UInt8(ascii: "\n"), UInt8(ascii: "\t"), UInt8(ascii: "\r"): position += 1
            case UInt8(ascii: "/") where peek(1) == UInt8(ascii: "/"): skipLine()
            case UInt8(ascii: "/") where peek(1) == UInt8(ascii: "*"): skipComment()
            case UInt8(ascii: "\""):
                skipText(hashes: 0)
                tokens.append(.text)
            case UInt8(ascii: "#"):
                var hashes = 1
                while peek(hashes) == byte { hashes += 1 }
                if peek(hashes) == UInt8(ascii: "\"") {
                    position += hashes
                    skipText(hashes: hashes)
                    tokens.append(.text)
                } else {
                    position += hashes
                    if Self.directives.contains(word()) { skipLine() }
                }
            case UInt8(ascii: "`"): position += 1
            case UInt8(ascii: "-") where peek(1) == UInt8(ascii: ">"):
                position += 2
                tokens.append(.symbol("->"))
            case let byte where Self.isInWord(byte): tokens.append(.word(word()))
            default:
                tokens.append(.symbol(String(decoding: [byte], as: UTF8.self)))
                position += 1
            }
        }
        return tokens
    }

    private static func isInWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), 0x80...: true
        default: false
        }
    }

    private func peek(_ offset: Int = 0) -> UInt8? {
        position + offset < bytes.count ? bytes[position + offset] : nil
    }

    private mutating func word() -> String {
        let start = position
        while let byte = peek(), Self.isInWord(byte) { position += 1 }
        return String(decoding: bytes[start..<position], as: UTF8.self)
    }

    private mutating func skipLine() {
        while let byte = peek(), byte != UInt8(ascii: "\n") { position += 1 }
    }

    private mutating func skipComment() {
        var depth = 0
        repeat {
            if peek() == UInt8(ascii: "/"), peek(1) == UInt8(ascii: "*") {
                (depth, position) = (depth + 1, position + 2)
            } else if peek() == UInt8(ascii: "*"), peek(1) == UInt8(ascii: "/") {
                (depth, position) = (depth - 1, position + 2)
            } else {
                position += 1
            }
        } while depth > 0 && position < bytes.count
    }

    /// Skips a literal from its opening quotation marks, which this many `#` precede, to its end.
    private mutating func skipText(hashes: Int) {
        let quote = UInt8(ascii: "\"")
        let marks = peek(1) == quote && peek(2) == quote ? 3 : 1
        position += marks
        while let byte = peek() {
            if byte == quote, (0..<marks).allSatisfy({ peek($0) == quote }),
                (0..<hashes).allSatisfy({ peek(marks + $0) == UInt8(ascii: "#") })
            {
                position += marks + hashes
                return
            }
            position += 1
            guard byte == UInt8(ascii: "\\"), (0..<hashes).allSatisfy({ peek($0) == UInt8(ascii: "#") }) else {
                continue
            }
            position += hashes
            if peek() == UInt8(ascii: "(") { skipInterpolation() } else { position += 1 }
        }
    }

    private mutating func skipInterpolation() {
        var depth = 0
        while let byte = peek() {
            if byte == UInt8(ascii: "\"") {
                skipText(hashes: 0)
                continue
            }
            position += 1
            if byte == UInt8(ascii: "(") { depth += 1 }
            if byte == UInt8(ascii: ")") { depth -= 1 }
            if depth == 0 { return }
        }
    }
}
