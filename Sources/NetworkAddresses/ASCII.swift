// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Characters and numbers in configuration texts, with functions to parse and write them as bytes.
@usableFromInline
package enum ASCII {
    package static let newline = UInt8(ascii: "\n")
    package static let carriageReturn = UInt8(ascii: "\r")

    /// Whether C's `isspace` accepts the byte. `wg` and bash skip these bytes.
    @inlinable
    package static func isSpace(_ byte: UInt8) -> Bool { byte == 32 || (byte >= 9 && byte <= 13) }

    @inlinable
    package static func isLetter(_ byte: UInt8) -> Bool {
        (byte | 32) >= UInt8(ascii: "a") && (byte | 32) <= UInt8(ascii: "z")
    }

    @inlinable
    package static func isAlphanumeric(_ byte: UInt8) -> Bool { isLetter(byte) || decimal(byte) != nil }

    @inlinable
    package static func lowercased(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 32 : byte
    }

    @inlinable
    package static func decimal(_ byte: UInt8) -> UInt8? {
        let value = byte &- UInt8(ascii: "0")
        return value < 10 ? value : nil
    }

    @inlinable
    package static func hexadecimal(_ byte: UInt8) -> UInt8? {
        if let value = decimal(byte) { return value }
        let value = (byte | 32) &- UInt8(ascii: "a")
        return value < 6 ? value + 10 : nil
    }

    /// The result of reading a decimal or hexadecimal number.
    package enum Number: Equatable {
        case value(UInt64)
        case tooLarge
        /// The offset of the first character that is not a digit; 0 if the text is empty.
        case notANumber(Int)
    }

    /// Parses an unsigned number of at most `limit`, without sign, spaces or prefix.
    package static func unsigned(_ text: Span<UInt8>, radix: UInt64 = 10, limit: UInt64) -> Number {
        guard text.count > 0 else { return .notANumber(0) }
        var value: UInt64 = 0
        var tooLarge = false
        for index in 0..<text.count {
            guard let digit = hexadecimal(text[index]), UInt64(digit) < radix else { return .notANumber(index) }
            let (product, overflow) = value.multipliedReportingOverflow(by: radix)
            let (sum, carry) = product.addingReportingOverflow(UInt64(digit))
            tooLarge = tooLarge || overflow || carry || sum > limit
            value = sum
        }
        return tooLarge ? .tooLarge : .value(value)
    }

    package static func appendDecimal(_ value: UInt64, to text: inout [UInt8]) {
        if value >= 10 { appendDecimal(value / 10, to: &text) }
        text.append(UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: value % 10))
    }

    package static func appendHexadecimal(_ value: UInt64, to text: inout [UInt8]) {
        if value >= 16 { appendHexadecimal(value >> 4, to: &text) }
        let digit = UInt8(truncatingIfNeeded: value & 15)
        text.append(digit < 10 ? UInt8(ascii: "0") &+ digit : UInt8(ascii: "a") &+ digit &- 10)
    }

    /// Whether `text` is exactly `name`.
    package static func equal(_ text: Span<UInt8>, _ name: [UInt8]) -> Bool {
        guard text.count == name.count else { return false }
        for index in 0..<text.count where text[index] != name[index] { return false }
        return true
    }

    package static func equal(_ text: Span<UInt8>, _ name: StaticString) -> Bool {
        guard text.count == name.utf8CodeUnitCount else { return false }
        return name.withUTF8Buffer { characters in
            for index in 0..<text.count where unsafe text[index] != characters[index] { return false }
            return true
        }
    }

    package static func firstIndex(of byte: UInt8, in text: Span<UInt8>, from start: Int = 0) -> Int? {
        for index in start..<max(start, text.count) where text[index] == byte { return index }
        return nil
    }

    package static func lastIndex(of byte: UInt8, in text: Span<UInt8>) -> Int? {
        var index = text.count
        while index > 0 {
            index -= 1
            if text[index] == byte { return index }
        }
        return nil
    }

    package static func string(_ text: Span<UInt8>) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        for index in 0..<text.count { bytes.append(text[index]) }
        return String(decoding: bytes, as: UTF8.self)
    }
}
