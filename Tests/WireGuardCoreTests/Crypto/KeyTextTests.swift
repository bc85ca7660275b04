// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import WireGuardCore

@Suite("Keys as text")
struct KeyTextTests {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    /// Base64 as RFC 4648 section 4 describes it, by looking digits up.
    private func slowBase64(_ bytes: [UInt8]) -> String {
        let bits: [UInt8] = bits(of: bytes, each: 8) + [0, 0]
        let digits = numbers(in: bits, each: 6).map { Self.alphabet[Int($0)] }
        return String(decoding: digits, as: UTF8.self) + "="
    }

    /// The low `count` bits of each value, highest first.
    private func bits(of values: [UInt8], each count: Int) -> [UInt8] {
        var bits: [UInt8] = []
        for value in values {
            for shift in (0..<count).reversed() { bits.append(value >> UInt8(shift) & 1) }
        }
        return bits
    }

    private func numbers(in bits: [UInt8], each count: Int) -> [UInt8] {
        stride(from: 0, to: bits.count, by: count).map { start in
            var number: UInt8 = 0
            for bit in bits[start..<start + count] { number = number << 1 | bit }
            return number
        }
    }

    private func slowKey(base64 text: [UInt8]) -> [UInt8]? {
        guard text.count == 44, text.last == UInt8(ascii: "=") else { return nil }
        let digits = text.dropLast().compactMap { Self.alphabet.firstIndex(of: $0) }
        guard digits.count == 43 else { return nil }
        let bits = bits(of: digits.map { UInt8($0) }, each: 6)
        return bits.suffix(2) == [0, 0] ? numbers(in: bits.dropLast(2), each: 8) : nil
    }

    private func slowKey(hex text: [UInt8]) -> [UInt8]? {
        let digits = text.compactMap { (character: UInt8) -> UInt8? in
            (0..<16).first { (value: UInt8) -> Bool in
                let digit = String(value, radix: 16)
                return Array(digit.utf8) == [character] || Array(digit.uppercased().utf8) == [character]
            }
        }
        guard text.count == 64, digits.count == 64 else { return nil }
        return (0..<32).map { (index: Int) -> UInt8 in digits[2 * index] << 4 | digits[2 * index + 1] }
    }

    @Test("RFC 7748's key of section 6.1 is the same in both notations")
    func knownKey() throws {
        let key = try #require(PublicKey(hex: "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"))
        // Computed with Python's base64 module.
        #expect(key.base64 == "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=")
        #expect(key.description == key.base64)
        #expect(PublicKey(base64: "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=") == key)
    }

    @Test("Random keys of all three kinds survive both notations")
    func roundTrip() {
        var generator = CryptoTest.Generator(seed: 4648)
        for _ in 0..<200 {
            let bytes = generator.bytes(32)
            let base64 = slowBase64(bytes)
            let hex = CryptoTest.hex(bytes)
            let publicKey = PublicKey(bytes: bytes)
            #expect(publicKey?.base64 == base64)
            #expect(publicKey?.hex == hex)
            #expect(publicKey?.bytes == bytes)
            #expect(PublicKey(base64: base64) == publicKey)
            #expect(PublicKey(hex: hex) == publicKey)
            #expect(PublicKey(hex: hex.uppercased()) == publicKey)
            let privateKey = PrivateKey(bytes: bytes)
            #expect(privateKey?.exportedBase64 == base64)
            #expect(privateKey?.exportedHex == hex)
            #expect(PrivateKey(base64: base64) == privateKey)
            #expect(PrivateKey(hex: hex) == privateKey)
            let presharedKey = PresharedKey(bytes: bytes)
            #expect(presharedKey?.exportedBase64 == base64)
            #expect(presharedKey?.exportedHex == hex)
            #expect(PresharedKey(base64: base64) == presharedKey)
            #expect(PresharedKey(hex: hex) == presharedKey)
        }
    }

    @Test("Each byte value at each place is written as a slow reference writes it")
    func encoding() {
        for value in UInt8.min...UInt8.max {
            for place in 29..<32 {
                var bytes = CryptoTest.counting(32)
                bytes[place] = value
                #expect(KeyText.base64(bytes[bytes.indices].span) == slowBase64(bytes))
                #expect(KeyText.hex(bytes[bytes.indices].span) == CryptoTest.hex(bytes))
            }
        }
    }

    @Test("Each ASCII character at each place of base64 is read or refused as a slow reference does it")
    func base64Characters() {
        let valid = Array(slowBase64(CryptoTest.Generator(seed: 1).firstBytes(32)).utf8)
        var accepted = 0
        for place in 0..<44 {
            var wrong: [UInt8] = []
            for character in UInt8(0)...127 {
                var text = valid
                text[place] = character
                let key = KeyText.key(base64: Substring(decoding: text, as: UTF8.self))
                if key != slowKey(base64: text) { wrong.append(character) }
                if key != nil { accepted += 1 }
            }
            #expect(wrong == [], "place \(place)")
        }
        // 42 places take any of 64, the one before the padding 16 (its last two bits are zero), the padding 1.
        #expect(accepted == 42 * 64 + 16 + 1)
    }

    @Test("Each ASCII character at each place of hexadecimal is read or refused as a slow reference does it")
    func hexCharacters() {
        let valid = Array(CryptoTest.hex(CryptoTest.Generator(seed: 2).firstBytes(32)).utf8)
        var accepted = 0
        for place in 0..<64 {
            var wrong: [UInt8] = []
            for character in UInt8(0)...127 {
                var text = valid
                text[place] = character
                let key = KeyText.key(hex: Substring(decoding: text, as: UTF8.self))
                if key != slowKey(hex: text) { wrong.append(character) }
                if key != nil { accepted += 1 }
            }
            #expect(wrong == [], "place \(place)")
        }
        #expect(accepted == 64 * 22)
    }

    @Test("Bytes above ASCII are refused, in text of the right number of bytes")
    func beyondASCII() {
        let base64 = Array(slowBase64(CryptoTest.counting(32)).utf8)
        let hex = Array(CryptoTest.hex(CryptoTest.counting(32)).utf8)
        for value: UInt32 in 0x80...0x7ff {
            guard let scalar = Unicode.Scalar(value) else { continue }
            let pair = Array(String(Character(scalar)).utf8)
            for place in [0, 20, 41, 42] {
                var text = base64
                text.replaceSubrange(place..<place + 2, with: pair)
                #expect(KeyText.key(base64: Substring(decoding: text, as: UTF8.self)) == nil)
                text = hex
                text.replaceSubrange(place..<place + 2, with: pair)
                #expect(KeyText.key(hex: Substring(decoding: text, as: UTF8.self)) == nil)
            }
        }
    }

    @Test("Text of any other length is refused", arguments: 0...90)
    func lengths(count: Int) {
        let zeros = String(repeating: "A", count: max(0, count - 1)) + (count > 0 ? "=" : "")
        let digits = String(repeating: "a", count: count)
        #expect((PublicKey(base64: zeros) != nil) == (count == 44))
        #expect((PrivateKey(base64: zeros) != nil) == (count == 44))
        #expect((PublicKey(hex: digits) != nil) == (count == 64))
        #expect((PresharedKey(hex: digits) != nil) == (count == 64))
        #expect((PublicKey(bytes: Array(digits.utf8)) != nil) == (count == 32))
        #expect((PrivateKey(bytes: Array(digits.utf8)) != nil) == (count == 32))
        #expect((PresharedKey(bytes: Array(digits.utf8)) != nil) == (count == 32))
    }

    @Test(
        "Padding, white space, the URL alphabet and prefixes are refused",
        arguments: [
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB=", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAC=",
            " AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
            "-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            "AAAAAAAAAAAAAAAAAAAAA\u{0}AAAAAAAAAAAAAAAAAAAAA=",
        ])
    func notCanonical(text: String) {
        #expect(PublicKey(base64: text) == nil)
        #expect(PrivateKey(base64: text) == nil)
        #expect(PresharedKey(base64: text) == nil)
    }
}
