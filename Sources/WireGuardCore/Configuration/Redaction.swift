// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// Makes text from outside fit to show in an error: no keys, no control characters, not long.
enum Redaction {
    static let placeholder = "(redacted)"
    /// Runs of key characters at least this long are replaced. A key in base64 has 43 or 44, in hexadecimal 64;
    /// the margin is for keys that lost a part.
    static let shortestRun = 28
    private static let longestText = 120

    /// The text of `bytes`, with a placeholder for everything that could be a key, and for declared secrets.
    static func text(_ bytes: Span<UInt8>) -> String {
        // A stray character in the middle makes two runs of a key that are too short to tell.
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
        // Only a text cut short, or one in another encoding, has a broken character here.
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

    /// The bytes as hexadecimal escapes, for bytes that are not text.
    static func escapes(_ bytes: Span<UInt8>) -> String {
        var result: [UInt8] = []
        for index in 0..<min(bytes.count, 4) { appendEscape(bytes[index], to: &result) }
        return String(decoding: result, as: UTF8.self)
    }

    /// Base64 in its standard and URL alphabets, and with them hexadecimal.
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
