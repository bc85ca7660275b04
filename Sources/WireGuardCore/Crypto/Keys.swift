// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A Curve25519 public key (RFC 7748): 32 bytes that identify a peer.
public struct PublicKey: Hashable, Sendable {
    /// The key as four little-endian words, first bytes first.
    package let words: (UInt64, UInt64, UInt64, UInt64)

    /// The number of bytes of a key.
    public static let byteCount = 32

    /// A key from exactly 32 bytes; `nil` for any other count.
    public init?(bytes: [UInt8]) {
        guard bytes.count == PublicKey.byteCount else { return nil }
        self.init(prefixOf: bytes[bytes.indices].span)
    }

    /// Creates a key from the first 32 bytes of `bytes`, which must have at least 32.
    package init(prefixOf bytes: Span<UInt8>) {
        func word(_ start: Int) -> UInt64 {
            var value: UInt64 = 0
            for index in 0..<8 { value |= UInt64(bytes[start + index]) << UInt64(8 * index) }
            return value
        }
        words = (word(0), word(8), word(16), word(24))
    }

    /// The 32 bytes of the key.
    public var bytes: [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(PublicKey.byteCount)
        for word in [words.0, words.1, words.2, words.3] {
            for index in 0..<8 { result.append(UInt8(truncatingIfNeeded: word >> UInt64(8 * index))) }
        }
        return result
    }

    /// Whether every byte is zero, which means "no key" in the UAPI.
    public var isZero: Bool { words.0 | words.1 | words.2 | words.3 == 0 }

    /// Whether both keys are the same 32 bytes.
    public static func == (a: PublicKey, b: PublicKey) -> Bool {
        (a.words.0 ^ b.words.0) | (a.words.1 ^ b.words.1) | (a.words.2 ^ b.words.2) | (a.words.3 ^ b.words.3) == 0
    }

    /// Feeds the key to a hasher.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
        hasher.combine(words.1)
        hasher.combine(words.2)
        hasher.combine(words.3)
    }
}

/// A Curve25519 private key (RFC 7748). It is wiped when its last owner releases it, and never printed. Its text is
/// ``exportedBase64``; that of the public key is ``PublicKey/base64``.
public struct PrivateKey: Equatable, Sendable {
    package let secret: Secret

    package init(secret: Secret) { self.secret = secret }

    /// Creates a key from exactly 32 bytes; `nil` for any other count. It is clamped (RFC 7748 section 5) when it is
    /// used.
    ///
    /// The caller still owns the array and should wipe it.
    public init?(bytes: [UInt8]) {
        guard let secret = Secret(copying: bytes) else { return nil }
        self.secret = secret
    }

    /// Creates a random key from `generator`, clamped as RFC 7748 section 5 specifies.
    public init(using generator: inout some RandomNumberGenerator) {
        secret = Secret(using: &generator, clamped: true)
    }

    /// Whether every byte is zero, which means "no key" in the UAPI.
    public var isZero: Bool { secret.isZero }

    /// The key clamped as RFC 7748 section 5 specifies. Both keys have the same effect.
    package var clamped: PrivateKey {
        let isClamped = unsafe secret.withBytes { unsafe $0[0] & 7 == 0 && $0[31] & 192 == 64 }
        guard !isClamped else { return self }
        return PrivateKey(
            secret: unsafe Secret { copy in
                unsafe secret.withBytes { unsafe copy.copyMemory(from: $0) }
                unsafe Secret.clamp(copy)
            })
    }

    /// Whether both are the same key, in constant time.
    public static func == (a: PrivateKey, b: PrivateKey) -> Bool { a.secret.isEqual(to: b.secret) }
}

/// A 32-byte secret that two peers share (WireGuard paper, section 5.2). It is wiped when its last owner releases it.
public struct PresharedKey: Equatable, Sendable {
    package let secret: Secret

    package init(secret: Secret) { self.secret = secret }

    /// A key from exactly 32 bytes; `nil` for any other count.
    public init?(bytes: [UInt8]) {
        guard let secret = Secret(copying: bytes) else { return nil }
        self.secret = secret
    }

    /// A new key from `generator`.
    public init(using generator: inout some RandomNumberGenerator) {
        secret = Secret(using: &generator, clamped: false)
    }

    /// Whether every byte is zero, which the protocol treats as having no pre-shared key.
    public var isZero: Bool { secret.isZero }

    /// Whether both are the same key, in constant time.
    public static func == (a: PresharedKey, b: PresharedKey) -> Bool { a.secret.isEqual(to: b.secret) }
}

// MARK: - Keys as they are stored

extension PrivateKey {
    /// Reads a key from a secret store: 32 raw bytes, or their base64 with white space around it.
    package init?(stored bytes: [UInt8]) {
        guard var key = KeyText.stored(bytes) else { return nil }
        defer { unsafe key.withUnsafeMutableBytes { unsafe wipe($0) } }
        self.init(bytes: key)
    }
}

extension PresharedKey {
    /// Reads a key from a secret store: 32 raw bytes, or their base64 with white space around it.
    package init?(stored bytes: [UInt8]) {
        guard var key = KeyText.stored(bytes) else { return nil }
        defer { unsafe key.withUnsafeMutableBytes { unsafe wipe($0) } }
        self.init(bytes: key)
    }
}

extension Secret {
    package convenience init?(copying bytes: [UInt8]) {
        guard bytes.count == Secret.byteCount else { return nil }
        unsafe self.init { unsafe $0.copyBytes(from: bytes) }
    }

    convenience init(using generator: inout some RandomNumberGenerator, clamped: Bool) {
        unsafe self.init { raw in
            for offset in stride(from: 0, to: Secret.byteCount, by: 8) {
                let word: UInt64 = generator.next()
                unsafe raw.storeBytes(of: word.littleEndian, toByteOffset: offset, as: UInt64.self)
            }
            if clamped { unsafe Secret.clamp(raw) }
        }
    }

    /// Clamps 32 bytes to a scalar (RFC 7748 section 5).
    fileprivate static func clamp(_ bytes: UnsafeMutableRawBufferPointer) {
        unsafe bytes[0] &= 248
        unsafe bytes[31] = (bytes[31] & 127) | 64
    }
}

// MARK: - Descriptions without secrets

extension PublicKey: CustomStringConvertible {
    /// The key in base64, as `wg` shows it.
    public var description: String { base64 }
}

extension PrivateKey: CustomStringConvertible, CustomReflectable {
    /// A placeholder; the key itself never prints.
    public var description: String { "(private key)" }
    /// Hides the key from `dump` and debuggers.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension PresharedKey: CustomStringConvertible, CustomReflectable {
    /// A placeholder; the key itself never prints.
    public var description: String { "(preshared key)" }
    /// Hides the key from `dump` and debuggers.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
