// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// An ID that a gateway has made: 16 random bytes. Its text is 26 characters of base32 (RFC 4648 section 6) in lower
/// case, without padding. It reveals neither the number of IDs nor their order.
public struct RandomID: Hashable, Sendable, Codable, CustomStringConvertible {
    private let high: UInt64
    private let low: UInt64

    private static let digits = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)

    /// Makes a new ID.
    public init(using generator: inout some RandomNumberGenerator) {
        high = generator.next()
        low = generator.next()
    }

    /// Reads an ID from its text; `nil` for any other text.
    public init?(_ text: some StringProtocol) {
        let characters = Array(text.utf8)
        guard characters.count == 26 else { return nil }
        var (high, low) = (UInt64(0), UInt64(0))
        for (index, character) in characters.enumerated() {
            let value: UInt64
            switch character {
            case UInt8(ascii: "a")...UInt8(ascii: "z"): value = UInt64(character - UInt8(ascii: "a"))
            case UInt8(ascii: "2")...UInt8(ascii: "7"): value = UInt64(character - UInt8(ascii: "2")) + 26
            default: return nil
            }
            // The last character has three bits of the ID, and two that are zero.
            let bits: UInt64 = index == 25 ? 3 : 5
            if index == 25, value & 3 != 0 { return nil }
            high = high << bits | low >> (64 - bits)
            low = low << bits | (index == 25 ? value >> 2 : value)
        }
        (self.high, self.low) = (high, low)
    }

    /// The 26 characters.
    public var description: String {
        var characters: [UInt8] = []
        for index in 0..<26 {
            // The number of bits below those of this character.
            let below = 123 - 5 * index
            let value: UInt64
            if below >= 64 {
                value = high >> UInt64(below - 64)
            } else if below >= 0 {
                value = low >> UInt64(below) | (below > 59 ? high << UInt64(64 - below) : 0)
            } else {
                value = low << 2
            }
            characters.append(Self.digits[Int(value & 31)])
        }
        return String(decoding: characters, as: UTF8.self)
    }

    /// Decodes the text.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let id = RandomID(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "this is not an ID of 26 characters")
        }
        self = id
    }

    /// Encodes the text.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
