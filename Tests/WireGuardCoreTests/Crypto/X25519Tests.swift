// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import WireGuardCore

@Suite("X25519")
struct X25519Tests {
    @Test("The two vectors of RFC 7748 section 5.2 hold", arguments: BackEnd.allCases)
    func vectors(backEnd: BackEnd) {
        let first = backEnd.sharedSecret(
            secret: CryptoTest.bytes32("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"),
            publicKey: CryptoTest.bytes32("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"))
        #expect(
            first.map(CryptoTest.hex) == "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552")
        let second = backEnd.sharedSecret(
            secret: CryptoTest.bytes32("4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d"),
            publicKey: CryptoTest.bytes32("e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493"))
        #expect(
            second.map(CryptoTest.hex) == "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957")
    }

    @Test("The iterated vector of RFC 7748 section 5.2 holds after 1 and 1,000 steps", arguments: BackEnd.allCases)
    func iterated(backEnd: BackEnd) throws {
        var secret = Bytes32(w0: 9, w1: 0, w2: 0, w3: 0)
        var point = secret
        for step in 1...1000 {
            let next = try #require(backEnd.sharedSecret(secret: secret, publicKey: point))
            point = secret
            secret = next
            if step == 1 {
                #expect(
                    CryptoTest.hex(secret) == "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079")
            }
        }
        #expect(CryptoTest.hex(secret) == "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51")
    }

    @Test("The Diffie-Hellman exchange of RFC 7748 section 6.1 holds", arguments: BackEnd.allCases)
    func exchange(backEnd: BackEnd) {
        let alice = CryptoTest.bytes32("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
        let bob = CryptoTest.bytes32("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
        let alicePublic = backEnd.publicKey(for: alice)
        let bobPublic = backEnd.publicKey(for: bob)
        #expect(
            CryptoTest.hex(alicePublic) == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
        #expect(CryptoTest.hex(bobPublic) == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
        let shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
        #expect(backEnd.sharedSecret(secret: alice, publicKey: bobPublic).map(CryptoTest.hex) == shared)
        #expect(backEnd.sharedSecret(secret: bob, publicKey: alicePublic).map(CryptoTest.hex) == shared)
    }

    // Every encoding of a point of low order: 0, 1, the two of order eight, and p − 1, p and p + 1 for p = 2^255 − 19.
    // RFC 7748 section 5 ignores the top bit, so each counts again with that bit set.
    private static let lowOrderPoints = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ]

    @Test("A point of low order gives no shared secret", arguments: BackEnd.allCases, Self.lowOrderPoints)
    func lowOrder(backEnd: BackEnd, point: String) {
        var generator = CryptoTest.Generator(seed: 7748)
        var point = CryptoTest.bytes32(point)
        for _ in 0..<2 {
            for _ in 0..<4 {
                let secret = generator.bytes32()
                #expect(backEnd.sharedSecret(secret: secret, publicKey: point) == nil)
            }
            point.w3 |= 1 << 63
        }
    }

    @Test("The back ends agree on random keys, and both sides on the secret")
    func agreement() {
        var generator = CryptoTest.Generator(seed: 25519)
        for _ in 0..<50 {
            let a = generator.bytes32()
            let b = generator.bytes32()
            let aPublic = X25519.publicKey(for: a)
            let bPublic = X25519.publicKey(for: b)
            let shared = X25519.sharedSecret(secret: a, publicKey: bPublic)
            #expect(shared != nil)
            #expect(X25519.sharedSecret(secret: b, publicKey: aPublic) == shared)
            for backEnd in BackEnd.allCases {
                #expect(backEnd.publicKey(for: a) == aPublic)
                #expect(backEnd.sharedSecret(secret: a, publicKey: bPublic) == shared)
            }
        }
    }

    @Test("A private key's public key is the one of RFC 7748 section 6.1, clamped or not")
    func privateKey() throws {
        let text = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"
        let expected = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
        let key = try #require(PrivateKey(hex: text))
        #expect(key.publicKey.hex == expected)
        var clamped = CryptoTest.bytes(text)
        clamped[0] &= 248
        clamped[31] = clamped[31] & 127 | 64
        #expect(try #require(PrivateKey(bytes: clamped)).publicKey.hex == expected)
    }
}
