// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import Crypto

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// The SHA-256 of a pin: always 32 bytes.
public struct PinHash: Sendable, Hashable, CustomStringConvertible {
    private let words: (UInt64, UInt64, UInt64, UInt64)

    /// Reads a hash from 44 characters of padded base64 (RFC 4648 section 4), with or without the prefix `sha256/`, or
    /// from 64 hexadecimal digits, with or without colons between bytes.
    ///
    /// - Throws: ``PinError`` if the text is neither, if it does not decode to 32 bytes, or if no key can have the
    ///   hash: all bytes zero, or the hash of no bytes.
    public init(_ text: String) throws(PinError) {
        var digits = Substring(text)
        if digits.hasPrefix("sha256/") { digits = digits.dropFirst(7) }
        guard let bytes = Self.hexadecimal(digits) ?? Self.base64(digits) else {
            throw PinError(
                .malformedHash, "a SHA-256 hash must be 44 characters of base64 or 64 hexadecimal digits")
        }
        try self.init(bytes: bytes)
    }

    /// Creates a hash from its 32 bytes.
    ///
    /// - Throws: ``PinError`` like ``init(_:)``.
    public init(bytes: some Collection<UInt8>) throws(PinError) {
        guard bytes.count == 32 else {
            throw PinError(.malformedHash, "a SHA-256 hash must have 32 bytes, not \(bytes.count)")
        }
        self.init(unchecked: bytes)
        guard self != Self.zero, self != Self.ofNothing else {
            throw PinError(.placeholderHash, "this is a placeholder: no key or certificate has this hash")
        }
    }

    /// Hashes bytes.
    package init(sha256Of bytes: [UInt8]) { self.init(unchecked: SHA256.hash(data: bytes)) }

    private init(unchecked bytes: some Sequence<UInt8>) {
        var all: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        for byte in bytes {
            all.0 = all.0 << 8 | all.1 >> 56
            all.1 = all.1 << 8 | all.2 >> 56
            all.2 = all.2 << 8 | all.3 >> 56
            all.3 = all.3 << 8 | UInt64(byte)
        }
        words = all
    }

    private static let zero = PinHash(unchecked: [])
    private static let ofNothing = PinHash(sha256Of: [])

    /// The 32 bytes.
    public var bytes: [UInt8] {
        [words.0, words.1, words.2, words.3].flatMap { word in
            stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: word >> UInt64($0)) }
        }
    }

    /// The hash in padded base64, the usual form of pins.
    public var base64: String { Data(bytes).base64EncodedString() }

    /// `sha256/` and the hash in base64.
    public var description: String { "sha256/" + base64 }

    /// Compares all 32 bytes in constant time.
    public static func == (one: PinHash, other: PinHash) -> Bool {
        (one.words.0 ^ other.words.0) | (one.words.1 ^ other.words.1) | (one.words.2 ^ other.words.2)
            | (one.words.3 ^ other.words.3) == 0
    }

    /// Feeds the hash into a hasher.
    public func hash(into hasher: inout Hasher) { hasher.combine(words.0) }

    private static func hexadecimal(_ text: Substring) -> [UInt8]? {
        let digits = text.contains(":") ? text.split(separator: ":", omittingEmptySubsequences: false) : [text]
        guard digits.count == 1 || digits.count == 32 && digits.allSatisfy({ $0.utf8.count == 2 }) else { return nil }
        let nibbles = digits.joined().utf8.map { Character(Unicode.Scalar($0)).hexDigitValue }
        guard nibbles.count == 64 else { return nil }
        return stride(from: 0, to: 64, by: 2).reduce(into: [UInt8]?([])) { bytes, index in
            guard let high = nibbles[index], let low = nibbles[index + 1] else {
                bytes = nil
                return
            }
            bytes?.append(UInt8(high << 4 | low))
        }
    }

    private static func base64(_ text: Substring) -> [UInt8]? {
        guard text.utf8.count == 44, let data = Data(base64Encoded: String(text)), data.count == 32,
            // Unused bits must be zero, so that each hash has only one text form.
            data.base64EncodedString() == text
        else { return nil }
        return Array(data)
    }
}

/// The error of an invalid pin or key.
public struct PinError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kinds of reasons.
    public enum Code: Sendable, Hashable {
        /// The text or bytes are not a SHA-256.
        case malformedHash
        /// The hash is a placeholder from examples, and not the hash of any key.
        case placeholderHash
        /// PEM has an unknown label, or invalid base64.
        case malformedPEM
        /// A certificate, request or key is not valid DER.
        case malformedDER
        /// The public key of a private key cannot be computed.
        case unsupportedKey
        /// The kind and the scope of a pin contradict each other.
        case contradiction
    }

    /// The kind of reason.
    public let code: Code
    /// The readable reason.
    public let reason: String

    init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    /// The reason.
    public var description: String { reason }
}
