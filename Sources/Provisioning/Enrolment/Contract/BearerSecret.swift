// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel

/// A secret for the API: a prefix for its kind, followed by 32 random bytes as text. Its description does not contain
/// the text, which is wiped when its last owner releases it.
public struct BearerSecret: Sendable, Equatable {
    /// The purpose of a secret.
    public enum Kind: String, Sendable, CaseIterable {
        /// Makes one device.
        case invitation = "ci_"
        /// Permits operations of the API, within a scope.
        case token = "ct_"
        /// The credential of one device, which the device creates.
        case device = "cd_"
    }

    /// The kind.
    public let kind: Kind
    /// The text, including the prefix.
    public let bytes: SecretBytes

    /// The length of the text in bytes.
    public static let byteCount = 3 + 43

    /// Makes a new secret.
    public init(_ kind: Kind, using generator: inout some RandomNumberGenerator) {
        let random = (0..<32).map { _ in UInt8.random(in: 0...255, using: &generator) }
        self.kind = kind
        bytes = SecretBytes(Array(kind.rawValue.utf8) + Base64URL.encode(random))
    }

    /// Reads a secret from its text; `nil` for any other text.
    public init?(_ text: some StringProtocol) { self.init(utf8: Array(text.utf8)) }

    /// Reads a secret from its text; `nil` for any other text.
    public init?(utf8 text: [UInt8]) {
        guard text.count == Self.byteCount,
            let kind = Kind(rawValue: String(decoding: text[..<3], as: UTF8.self)),
            Base64URL.decode(text[3...])?.count == 32
        else { return nil }
        self.kind = kind
        bytes = SecretBytes(text)
    }

    /// The text, for a request's header or a file that only its owner may read. The memory of the text is not
    /// overwritten after use.
    public var exportedText: String { String(decoding: bytes.bytes, as: UTF8.self) }

    /// Whether both secrets are equal. The comparison time does not depend on where they differ.
    public static func == (one: BearerSecret, other: BearerSecret) -> Bool {
        one.bytes.withBytes { a in
            other.bytes.withBytes { b in
                guard a.count == b.count else { return false }
                var difference: UInt8 = 0
                for index in a.indices { difference |= a[index] ^ b[index] }
                return difference == 0
            }
        }
    }
}

extension BearerSecret: CustomStringConvertible, CustomReflectable {
    /// The prefix only.
    public var description: String { "(secret \(kind.rawValue)…)" }
    /// Shows nothing to `dump` and debuggers.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// base64url without padding (RFC 4648 section 5), in its canonical form.
enum Base64URL {
    private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    static func encode(_ bytes: some Sequence<UInt8>) -> [UInt8] {
        var text: [UInt8] = []
        var (word, bits) = (UInt32(0), 0)
        for byte in bytes {
            word = word << 8 | UInt32(byte)
            bits += 8
            while bits >= 6 {
                bits -= 6
                text.append(digits[Int(word >> UInt32(bits) & 63)])
            }
            word &= (1 << UInt32(bits)) - 1
        }
        if bits > 0 { text.append(digits[Int(word << UInt32(6 - bits) & 63)]) }
        return text
    }

    /// Returns `nil` for text that is not the canonical form of any bytes.
    static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        var (word, bits) = (UInt32(0), 0)
        for character in text {
            let value: UInt8
            switch character {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = character - UInt8(ascii: "A")
            case UInt8(ascii: "a")...UInt8(ascii: "z"): value = character - UInt8(ascii: "a") + 26
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = character - UInt8(ascii: "0") + 52
            case UInt8(ascii: "-"): value = 62
            case UInt8(ascii: "_"): value = 63
            default: return nil
            }
            word = word << 6 | UInt32(value)
            bits += 6
            if bits >= 8 {
                bits -= 8
                bytes.append(UInt8(word >> UInt32(bits)))
                word &= (1 << UInt32(bits)) - 1
            }
        }
        // The canonical form has fewer than 6 unused bits, and all of them are zero.
        return bits < 6 && word == 0 ? bytes : nil
    }
}
