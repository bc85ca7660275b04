// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// Makes external text suitable for an error message: it removes keys and control characters, and shortens long text.
enum Redaction {
    static let placeholder = "(redacted)"
    /// The minimum length of a run of key characters that is replaced. A key has 43 or 44 characters in base64 and 64
    /// in hexadecimal; the margin covers keys that lost a part.
    static let shortestRun = 28
    private static let longestText = 120

    /// Returns the text of `bytes`, with a placeholder for everything that could be a key and for the values of secret
    /// keys.
    static func text(_ bytes: Span<UInt8>) -> String {
        // Check names too: a stray character can divide a key into two runs that are too short.
        if let equals = ASCII.firstIndex(of: UInt8(ascii: "="), in: bytes), equals + 1 < bytes.count,
            namesSecret(bytes.extracting(0..<equals))
        {
            return text(bytes.extracting(0..<equals)) + "=" + placeholder
        }
        var result: [UInt8] = []
        var index = 0
        while index < bytes.count {
            guard result.count < longestText else {
                result += Array("...".utf8)
                break
            }
            let start = index
            while index < bytes.count, isKeyCharacter(bytes[index]) { index += 1 }
            if index - start >= shortestRun {
                result += Array(placeholder.utf8)
            } else if index > start {
                for offset in start..<index { result.append(bytes[offset]) }
            } else {
                append(bytes[index], to: &result)
                index += 1
            }
        }
        // An invalid character can occur only where the text was cut, or if it has another encoding.
        return String(decoding: result, as: UTF8.self)
    }

    /// Whether the text contains `PrivateKey` or `PresharedKey`, in any case and with or without `_`.
    private static func namesSecret(_ bytes: Span<UInt8>) -> Bool {
        var letters: [UInt8] = []
        for index in 0..<bytes.count where ASCII.isLetter(bytes[index]) {
            letters.append(ASCII.lowercased(bytes[index]))
        }
        return ["privatekey", "presharedkey"].contains { name in
            let name = Array(name.utf8)
            guard letters.count >= name.count else { return false }
            return (0...(letters.count - name.count)).contains { letters[$0..<($0 + name.count)].elementsEqual(name) }
        }
    }

    /// Returns the bytes as hexadecimal escapes. Used for bytes that are not text.
    static func escapes(_ bytes: Span<UInt8>) -> String {
        var result: [UInt8] = []
        for index in 0..<min(bytes.count, 4) { appendEscape(bytes[index], to: &result) }
        return String(decoding: result, as: UTF8.self)
    }

    /// Whether a byte belongs to the standard or the URL alphabet of base64, which include the hexadecimal digits.
    private static func isKeyCharacter(_ byte: UInt8) -> Bool {
        ASCII.isAlphanumeric(byte) || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "/")
            || byte == UInt8(ascii: "=")
            || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }

    private static func append(_ byte: UInt8, to result: inout [UInt8]) {
        if byte < 32 || byte == 127 { appendEscape(byte, to: &result) } else { result.append(byte) }
    }

    private static func appendEscape(_ byte: UInt8, to result: inout [UInt8]) {
        result += Array("\\x".utf8)
        if byte < 16 { result.append(UInt8(ascii: "0")) }
        ASCII.appendHexadecimal(UInt64(byte), to: &result)
    }
}
