// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import WireGuardCore

@Suite("ChaCha20-Poly1305 and XChaCha20-Poly1305")
struct ChaChaPolyTests {
    @Test("The AEAD example of RFC 8439 section 2.8.2 holds both ways", arguments: BackEnd.allCases)
    func section282(backEnd: BackEnd) {
        let key = CryptoTest.bytes("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f")
        let nonce = CryptoTest.bytes("070000004041424344454647")
        let authenticated = CryptoTest.bytes("50515253c0c1c2c3c4c5c6c7")
        let expected = CryptoTest.bytes(
            """
            d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6
            3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36
            92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc
            3ff4def08e4b7a9de576d26586cec64b6116
            1ae10b594f09e26a7e902ecbd0600691
            """)
        let sealed = backEnd.seal(key: key, nonce: nonce, CryptoTest.sunscreen, authenticating: authenticated)
        #expect(sealed == expected)
        let opened = backEnd.open(key: key, nonce: nonce, expected, authenticating: authenticated)
        #expect(opened == CryptoTest.sunscreen)
    }

    // RFC 8439 appendix A.5. Its nonce is four zero bytes and a counter, as WireGuard's are.
    private static let a5Key = CryptoTest.bytes("1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0")
    private static let a5Authenticated = CryptoTest.bytes("f33388860000000000004e91")
    private static let a5Sealed = CryptoTest.bytes(
        """
        64a0861575861af460f062c79be643bd5e805cfd345cf389f108670ac76c8cb24c6cfc18755d43eea09ee94e382d26b0
        bdb7b73c321b0100d4f03b7f355894cf332f830e710b97ce98c8a84abd0b948114ad176e008d33bd60f982b1ff37c855
        9797a06ef4f0ef61c186324e2b3506383606907b6a7c02b0f9f6157b53c867e4b9166c767b804d46a59b5216cde7a4e9
        9040c5a40433225ee282a1b0a06c523eaf4534d7f83fa1155b0047718cbc546a0d072b04b3564eea1b422273f548271a
        0bb2316053fa76991955ebd63159434ecebb4e466dae5a1073a6727627097a1049e617d91d361094fa68f0ff77987130
        305beaba2eda04df997b714d6c6f2c29a6ad5cb4022b02709b
        eead9d67890cbb22392336fea1851f38
        """)
    private static let a5Text = Array(
        ("Internet-Drafts are draft documents valid for a maximum of six months and may be updated, replaced, or "
            + "obsoleted by other documents at any time. It is inappropriate to use Internet-Drafts as reference "
            + "material or to cite them other than as /\u{201c}work in progress./\u{201d}").utf8)

    @Test("The AEAD decryption of RFC 8439 appendix A.5 holds both ways", arguments: BackEnd.allCases)
    func appendixA5(backEnd: BackEnd) {
        let nonce = CryptoTest.bytes("000000000102030405060708")
        let opened = backEnd.open(
            key: Self.a5Key, nonce: nonce, Self.a5Sealed, authenticating: Self.a5Authenticated)
        #expect(opened == Self.a5Text)
        let sealed = backEnd.seal(key: Self.a5Key, nonce: nonce, Self.a5Text, authenticating: Self.a5Authenticated)
        #expect(sealed == Self.a5Sealed)
    }

    @Test("The one-shots take the nonce of RFC 8439 appendix A.5 as a counter, in place too")
    func counterOneShots() {
        var buffer = Self.a5Sealed
        let key = CryptoTest.bytes32(Self.a5Key)
        let counter: UInt64 = 0x0807_0605_0403_0201
        unsafe Self.a5Authenticated.withUnsafeBytes { authenticated in
            let isAuthentic = unsafe buffer.withUnsafeMutableBytes { raw in
                guard let start = raw.baseAddress else { return false }
                return unsafe ChaChaPoly.open(
                    key: key, counter: counter, sealed: UnsafeRawBufferPointer(raw), authenticating: authenticated,
                    into: start)
            }
            #expect(isAuthentic)
            #expect(buffer.dropLast(16).elementsEqual(Self.a5Text))
            unsafe buffer.withUnsafeMutableBytes { raw in
                guard let start = raw.baseAddress else { return }
                unsafe ChaChaPoly.seal(
                    key: key, counter: counter,
                    plaintext: UnsafeRawBufferPointer(start: start, count: raw.count - 16),
                    authenticating: authenticated, into: start)
            }
            #expect(buffer == Self.a5Sealed)
        }
    }

    @Test("A counter's nonce is four zero bytes, then the counter with its low byte first")
    func nonce() {
        #expect(
            CryptoTest.hex(ChaChaNonce(counter: 0x0102_0304_0506_0708).bytes) == "000000000807060504030201")
        #expect(CryptoTest.hex(ChaChaNonce(counter: .max).bytes) == "00000000ffffffffffffffff")
        #expect(ChaChaNonce(bytes: CryptoTest.counting(12)).bytes == CryptoTest.counting(12))
    }

    @Test("An empty message seals to a tag and opens again", arguments: BackEnd.allCases)
    func emptyMessage(backEnd: BackEnd) {
        let key = CryptoTest.counting(32)
        let hash = CryptoTest.counting(32)
        let sealed = backEnd.seal(key: key, nonce: [], [], authenticating: hash)
        // Computed with Python's cryptography package.
        #expect(CryptoTest.hex(sealed) == "e5ed4f5d739c4da0ea6bd23e5fa5ea64")
        #expect(backEnd.open(key: key, nonce: [], sealed, authenticating: hash) == [])
    }

    @Test("Any changed bit of message, tag, authenticated data, key or nonce is refused", arguments: BackEnd.allCases)
    func tampering(backEnd: BackEnd) {
        let message = CryptoTest.counting(19)
        let key = CryptoTest.counting(32)
        let nonce = CryptoTest.counting(12)
        let authenticated = CryptoTest.counting(32)
        let sealed = backEnd.seal(key: key, nonce: nonce, message, authenticating: authenticated)
        #expect(backEnd.open(key: key, nonce: nonce, sealed, authenticating: authenticated) == message)
        func flips(_ bytes: [UInt8]) -> [[UInt8]] {
            (0..<bytes.count * 8).map { bit in
                var flipped = bytes
                flipped[bit / 8] ^= 1 << (bit % 8)
                return flipped
            }
        }
        let accepted =
            flips(sealed).filter { backEnd.open(key: key, nonce: nonce, $0, authenticating: authenticated) != nil }
            + flips(authenticated).filter { backEnd.open(key: key, nonce: nonce, sealed, authenticating: $0) != nil }
            + flips(key).filter { backEnd.open(key: $0, nonce: nonce, sealed, authenticating: authenticated) != nil }
            + flips(nonce).filter { backEnd.open(key: key, nonce: $0, sealed, authenticating: authenticated) != nil }
        #expect(accepted.isEmpty)
        for count in 0..<sealed.count {
            let short = Array(sealed.prefix(count))
            #expect(backEnd.open(key: key, nonce: nonce, short, authenticating: authenticated) == nil, "\(count) bytes")
        }
    }

    @Test("The quarter round is that of RFC 8439 section 2.1.1")
    func quarterRound() {
        var words: (UInt32, UInt32, UInt32, UInt32) = (0x1111_1111, 0x0102_0304, 0x9b8d_6f43, 0x0123_4567)
        HChaCha20.quarterRound(&words.0, &words.1, &words.2, &words.3)
        #expect(words == (0xea2a_92f4, 0xcb1c_f8ce, 0x4581_472e, 0x5881_c4bb))
    }

    @Test("The HChaCha20 subkey is that of draft-irtf-cfrg-xchacha-03 section 2.2.1")
    func subkey() {
        let nonce = CryptoTest.bytes("000000090000004a0000000031415927")
        let subkey = unsafe nonce.withUnsafeBytes { raw in
            unsafe raw.baseAddress.map {
                unsafe HChaCha20.subkey(key: CryptoTest.bytes32(CryptoTest.counting(32)), nonce: $0)
            }
        }
        #expect(
            subkey.map(CryptoTest.hex) == "82413b4227b27bfed30e42508a877d73a0f9e4d58a74a853c12ec41326d3ecdc")
    }

    @Test("The AEAD of draft-irtf-cfrg-xchacha-03 appendix A.3.1, both ways; a changed byte is refused")
    func extendedNonce() {
        let key = CryptoTest.bytes32("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f")
        let nonce = CryptoTest.bytes("404142434445464748494a4b4c4d4e4f5051525354555657")
        let authenticated = CryptoTest.bytes("50515253c0c1c2c3c4c5c6c7")
        let expected = CryptoTest.bytes(
            """
            bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb
            731c7f1b0b4aa6440bf3a82f4eda7e39ae64c6708c54c216cb96b72e1213b452
            2f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff9
            21f9664c97637da9768812f615c68b13b52e
            c0875924c1c7987947deafd8780acf49
            """)
        var sealed = [UInt8](repeating: 0, count: expected.count)
        unsafe nonce.withUnsafeBytes { nonce in
            unsafe authenticated.withUnsafeBytes { authenticated in
                unsafe CryptoTest.sunscreen.withUnsafeBytes { plaintext in
                    unsafe sealed.withUnsafeMutableBytes { out in
                        guard let out = out.baseAddress else { return }
                        unsafe XChaChaPoly.seal(
                            key: key, nonce: nonce, plaintext: plaintext, authenticating: authenticated, into: out)
                    }
                }
            }
        }
        #expect(sealed == expected)

        func open(_ sealed: [UInt8], nonce: [UInt8]) -> [UInt8]? {
            var out = [UInt8](repeating: 0, count: sealed.count)
            let isAuthentic = unsafe out.withUnsafeMutableBytes { out in
                guard let out = out.baseAddress else { return false }
                return unsafe nonce.withUnsafeBytes { nonce in
                    unsafe authenticated.withUnsafeBytes { authenticated in
                        unsafe sealed.withUnsafeBytes { sealed in
                            unsafe XChaChaPoly.open(
                                key: key, nonce: nonce, sealed: sealed, authenticating: authenticated, into: out)
                        }
                    }
                }
            }
            return isAuthentic ? Array(out.dropLast(16)) : nil
        }
        #expect(open(expected, nonce: nonce) == CryptoTest.sunscreen)
        for index in nonce.indices {
            var other = nonce
            other[index] ^= 0x80
            #expect(open(expected, nonce: other) == nil)
        }
        for index in expected.indices {
            var other = expected
            other[index] ^= 1
            #expect(open(other, nonce: nonce) == nil)
        }
    }
}
