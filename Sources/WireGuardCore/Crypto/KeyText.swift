// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Encodes and decodes keys in base64 (wg-quick files, `wg`) and hexadecimal (UAPI). No table look-up or branch depends
/// on key bits.
enum KeyText {
    /// Returns 44 characters of standard base64, including padding (RFC 4648 section 4).
    static func base64(_ bytes: Span<UInt8>) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        var index = 0
        while index < bytes.count {
            let a = Int32(bytes[index])
            let b = index + 1 < bytes.count ? Int32(bytes[index + 1]) : 0
            let c = index + 2 < bytes.count ? Int32(bytes[index + 2]) : 0
            let left = bytes.count - index
            text.append(base64Character(a >> 2))
            text.append(base64Character((a & 3) << 4 | b >> 4))
            text.append(left > 1 ? base64Character((b & 15) << 2 | c >> 6) : UInt8(ascii: "="))
            text.append(left > 2 ? base64Character(c & 63) : UInt8(ascii: "="))
            index += 3
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Lowercase hexadecimal.
    static func hex(_ bytes: Span<UInt8>) -> String {
        var text: [UInt8] = []
        text.reserveCapacity(bytes.count * 2)
        for index in 0..<bytes.count {
            text.append(hexCharacter(Int32(bytes[index] >> 4)))
            text.append(hexCharacter(Int32(bytes[index] & 15)))
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Decodes a stored key: 32 raw bytes, or their base64 with white space around it. Returns `nil` for anything else.
    static func stored(_ bytes: [UInt8]) -> [UInt8]? {
        if bytes.count == Secret.byteCount { return bytes }
        let text = bytes.filter { $0 > 32 }
        guard text.count == 44 else { return nil }
        return key(base64: String(decoding: text, as: UTF8.self)[...])
    }

    /// Decodes 44 characters of canonical base64 to 32 bytes; `nil` for any other text.
    static func key(base64 text: Substring) -> [UInt8]? {
        var characters = Array(text.utf8)
        defer { wipeArray(&characters) }
        guard characters.count == 44, characters[43] == UInt8(ascii: "=") else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(33)
        var bad: Int32 = 0
        for group in stride(from: 0, to: 44, by: 4) {
            var word: Int32 = 0
            for offset in 0..<4 {
                let character = group + offset == 43 ? UInt8(ascii: "A") : characters[group + offset]
                let value = base64Value(Int32(character))
                bad |= value
                word = word << 6 | (value & 63)
            }
            bytes.append(UInt8(truncatingIfNeeded: word >> 16))
            bytes.append(UInt8(truncatingIfNeeded: word >> 8))
            bytes.append(UInt8(truncatingIfNeeded: word))
        }
        // The 33rd byte contains the remaining bits, which must be zero in canonical base64.
        let tail = Int32(bytes.removeLast())
        guard bad >= 0, tail == 0 else {
            wipeArray(&bytes)
            return nil
        }
        return bytes
    }

    /// Decodes 64 hexadecimal digits to 32 bytes; `nil` for any other text.
    static func key(hex text: Substring) -> [UInt8]? {
        var characters = Array(text.utf8)
        defer { wipeArray(&characters) }
        guard characters.count == 64 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(32)
        var bad: Int32 = 0
        for index in stride(from: 0, to: 64, by: 2) {
            let high = hexValue(Int32(characters[index]))
            let low = hexValue(Int32(characters[index + 1]))
            bad |= high | low
            bytes.append(UInt8(truncatingIfNeeded: (high & 15) << 4 | (low & 15)))
        }
        guard bad >= 0 else {
            wipeArray(&bytes)
            return nil
        }
        return bytes
    }

    /// Wipes text that may be a private key.
    fileprivate static func wipeArray(_ bytes: inout [UInt8]) {
        unsafe bytes.withUnsafeMutableBytes { unsafe wipe($0) }
    }

    // Each range test is a mask computed by subtraction: all ones inside the range, zero outside.

    private static func mask(_ value: Int32, _ low: Int32, _ high: Int32) -> Int32 {
        ((low &- 1 &- value) & (value &- high &- 1)) >> 31
    }

    private static func base64Character(_ value: Int32) -> UInt8 {
        var character = value &+ 65
        character &+= mask(value, 26, 51) & 6
        character &+= mask(value, 52, 61) & (48 &- 52 &- 65)
        character &+= mask(value, 62, 62) & (43 &- 62 &- 65)
        character &+= mask(value, 63, 63) & (47 &- 63 &- 65)
        return UInt8(truncatingIfNeeded: character)
    }

    private static func hexCharacter(_ value: Int32) -> UInt8 {
        UInt8(truncatingIfNeeded: value &+ 48 &+ (mask(value, 10, 15) & 39))
    }

    /// Returns the value of a character, 0 to 63, or a negative number.
    private static func base64Value(_ c: Int32) -> Int32 {
        var value: Int32 = -1
        value &+= mask(c, 65, 90) & (c &- 65 &+ 1)
        value &+= mask(c, 97, 122) & (c &- 97 &+ 27)
        value &+= mask(c, 48, 57) & (c &- 48 &+ 53)
        value &+= mask(c, 43, 43) & 63
        value &+= mask(c, 47, 47) & 64
        return value
    }

    /// Returns the value of a digit, 0 to 15, or a negative number.
    private static func hexValue(_ c: Int32) -> Int32 {
        var value: Int32 = -1
        value &+= mask(c, 48, 57) & (c &- 48 &+ 1)
        value &+= mask(c, 97, 102) & (c &- 97 &+ 11)
        value &+= mask(c, 65, 70) & (c &- 65 &+ 11)
        return value
    }
}

// MARK: - Public keys

extension PublicKey {
    /// A key from 44 characters of canonical base64; `nil` for anything else.
    public init?(base64 text: some StringProtocol) {
        guard let bytes = KeyText.key(base64: Substring(text)) else { return nil }
        self.init(bytes: bytes)
    }

    /// A key from 64 hexadecimal digits; `nil` for anything else.
    public init?(hex text: some StringProtocol) {
        guard let bytes = KeyText.key(hex: Substring(text)) else { return nil }
        self.init(bytes: bytes)
    }

    /// The key in 44 characters of base64.
    public var base64: String { KeyText.base64(bytes[bytes.indices].span) }

    /// The key in 64 lowercase hexadecimal digits.
    public var hex: String { KeyText.hex(bytes[bytes.indices].span) }
}

// MARK: - Secrets

extension Secret {
    /// Creates a secret from decoded bytes, and wipes them.
    fileprivate convenience init?(decoding bytes: [UInt8]?) {
        guard var bytes else { return nil }
        defer { KeyText.wipeArray(&bytes) }
        self.init(copying: bytes)
    }

    fileprivate var base64: String { withSpan { KeyText.base64($0) } }
    fileprivate var hex: String { withSpan { KeyText.hex($0) } }

    /// Calls `body` with the bytes as a span.
    package func withSpan<R>(_ body: (Span<UInt8>) -> R) -> R {
        unsafe withBytes { raw in
            body(unsafe Span(_unsafeElements: raw.assumingMemoryBound(to: UInt8.self)))
        }
    }
}

extension PrivateKey {
    /// A key from 44 characters of canonical base64; `nil` for anything else.
    public init?(base64 text: some StringProtocol) {
        guard let secret = Secret(decoding: KeyText.key(base64: Substring(text))) else { return nil }
        self.init(secret: secret)
    }

    /// A key from 64 hexadecimal digits; `nil` for anything else.
    public init?(hex text: some StringProtocol) {
        guard let secret = Secret(decoding: KeyText.key(hex: Substring(text))) else { return nil }
        self.init(secret: secret)
    }

    /// The private key in base64, for a file that only its owner may read.
    ///
    /// A holder of this text can impersonate this peer. It is an ordinary string that is not wiped: keep it out of
    /// logs, messages and backups. The text of the public key is `publicKey.base64`.
    public var exportedBase64: String { secret.base64 }

    /// The private key itself in hexadecimal, for the UAPI socket; as secret as ``exportedBase64``.
    public var exportedHex: String { secret.hex }
}

extension PresharedKey {
    /// A key from 44 characters of canonical base64; `nil` for anything else.
    public init?(base64 text: some StringProtocol) {
        guard let secret = Secret(decoding: KeyText.key(base64: Substring(text))) else { return nil }
        self.init(secret: secret)
    }

    /// A key from 64 hexadecimal digits; `nil` for anything else.
    public init?(hex text: some StringProtocol) {
        guard let secret = Secret(decoding: KeyText.key(hex: Substring(text))) else { return nil }
        self.init(secret: secret)
    }

    /// The key in base64, for a file that only its owner may read. The text is not wiped.
    public var exportedBase64: String { secret.base64 }

    /// The key in hexadecimal, for the UAPI socket. The text is not wiped.
    public var exportedHex: String { secret.hex }
}
