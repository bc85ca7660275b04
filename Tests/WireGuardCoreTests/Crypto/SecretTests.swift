// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import WireGuardCore

@Suite("Secrets")
struct SecretTests {
    // MARK: - Printing

    private struct Peer {
        let name = "alpha"
        let privateKey: PrivateKey
        let presharedKey: PresharedKey?
        let all: [PrivateKey]
        let byName: [String: PresharedKey]
        let chainingKey: Bytes32
        let cookie: Mac16
        let hash: Blake2s
        let secret: Secret
        let ciphers: [any TransportSealing]
    }

    @Test("Printing a secret, or a value that contains one, shows no part of it")
    func printing() throws {
        let bytes = CryptoTest.Generator(seed: 99).firstBytes(32)
        let words = CryptoTest.bytes32(bytes)
        let privateKey = try #require(PrivateKey(bytes: bytes))
        let presharedKey = try #require(PresharedKey(bytes: bytes))
        let peer = unsafe Peer(
            privateKey: privateKey, presharedKey: presharedKey, all: [privateKey], byName: ["beta": presharedKey],
            chainingKey: words, cookie: Mac16(w0: words.w0, w1: words.w1),
            hash: bytes.withUnsafeBytes { unsafe Blake2s(digestByteCount: 32, key: $0) }, secret: privateKey.secret,
            ciphers: BackEnd.allCases.map { $0.cipher(key: words) })

        var texts = [
            "\(privateKey)", "\(presharedKey)", "\(peer)", "\([privateKey])", privateKey.description,
            presharedKey.description, String(describing: privateKey), String(describing: presharedKey),
            String(reflecting: privateKey), String(reflecting: presharedKey), String(reflecting: peer),
            String(describing: Optional(privateKey)), words.description, "\(peer.cookie)", "\(peer.hash)",
            "\(privateKey.secret)", String(reflecting: privateKey.secret), String(reflecting: words),
        ]
        for value: Any in [peer, privateKey, presharedKey, words, peer.cookie, peer.hash, peer.secret, peer.ciphers] {
            var dumped = ""
            dump(value, to: &dumped)
            texts.append(dumped)
            texts += leaves(of: value)
        }
        #expect(texts.contains { $0.contains("alpha") })

        var forbidden = [privateKey.exportedBase64, privateKey.exportedHex]
        for word in [words.w0, words.w1, words.w2, words.w3] {
            forbidden += [String(word), String(Int64(bitPattern: word)), String(word, radix: 16)]
            forbidden += [String(UInt32(truncatingIfNeeded: word)), String(word >> 32)]
        }
        forbidden.append(bytes.prefix(3).map { String($0) }.joined(separator: ", "))
        for text in texts {
            for secret in forbidden { #expect(!text.lowercased().contains(secret.lowercased())) }
        }
        #expect("\(privateKey)" == "(private key)")
        #expect("\(presharedKey)" == "(preshared key)")
    }

    @Test("Mirrors of secrets have no children")
    func mirrors() throws {
        let privateKey = try #require(PrivateKey(bytes: CryptoTest.counting(32)))
        let presharedKey = try #require(PresharedKey(bytes: CryptoTest.counting(32)))
        let words = CryptoTest.bytes32(CryptoTest.counting(32))
        let values: [Any] =
            [privateKey, presharedKey, privateKey.secret, words, Mac16(w0: 1, w1: 2), Blake2s()]
            + BackEnd.allCases.map { $0.cipher(key: words) }
        for value in values { #expect(Mirror(reflecting: value).children.isEmpty, "\(type(of: value))") }
    }

    /// The leaves that a debugger would show.
    private func leaves(of value: Any) -> [String] {
        let children = Mirror(reflecting: value).children
        return children.isEmpty ? ["\(value)", String(reflecting: value)] : children.flatMap { leaves(of: $0.value) }
    }

    // MARK: - Comparing

    @Test("Equality sees every bit of keys, words and buffers")
    func comparing() throws {
        let bytes = CryptoTest.counting(32)
        func equal(_ a: [UInt8], _ b: [UInt8]) -> Bool {
            unsafe a.withUnsafeBytes { a in unsafe b.withUnsafeBytes { b in unsafe constantTimeEqual(a, b) } }
        }
        let same = CryptoTest.counting(32)
        #expect(equal(bytes, same))
        #expect(PrivateKey(bytes: bytes) == PrivateKey(bytes: same))
        #expect(PresharedKey(bytes: bytes) == PresharedKey(bytes: same))
        #expect(PublicKey(bytes: bytes) == PublicKey(bytes: same))
        #expect(CryptoTest.bytes32(bytes) == CryptoTest.bytes32(same))
        for bit in 0..<256 {
            var other = bytes
            other[bit / 8] ^= 1 << (bit % 8)
            #expect(!equal(bytes, other))
            #expect(PrivateKey(bytes: bytes) != PrivateKey(bytes: other))
            #expect(PresharedKey(bytes: bytes) != PresharedKey(bytes: other))
            #expect(PublicKey(bytes: bytes) != PublicKey(bytes: other))
            #expect(CryptoTest.bytes32(bytes) != CryptoTest.bytes32(other))
        }
        for bit in 0..<64 {
            #expect(Mac16(w0: 0, w1: 0) != Mac16(w0: 1 << bit, w1: 0))
            #expect(Mac16(w0: 0, w1: 0) != Mac16(w0: 0, w1: 1 << bit))
        }
        #expect(Mac16(w0: 3, w1: 4) == Mac16(w0: 3, w1: 4))
        #expect(equal([], []))
        #expect(!equal([], [0]))
        #expect(!equal(bytes, Array(bytes.dropLast())))
    }

    @Test("Only all zeros are zero")
    func zero() {
        let zeros = [UInt8](repeating: 0, count: 32)
        #expect(PrivateKey(bytes: zeros)?.isZero == true)
        #expect(PresharedKey(bytes: zeros)?.isZero == true)
        #expect(PublicKey(bytes: zeros)?.isZero == true)
        #expect(Bytes32.zero.isZero)
        #expect(Mac16.zero.isZero)
        for bit in 0..<256 {
            var bytes = zeros
            bytes[bit / 8] = 1 << (bit % 8)
            #expect(PrivateKey(bytes: bytes)?.isZero == false)
            #expect(PresharedKey(bytes: bytes)?.isZero == false)
            #expect(PublicKey(bytes: bytes)?.isZero == false)
            #expect(!CryptoTest.bytes32(bytes).isZero)
        }
        #expect(!Mac16(w0: 1 << 63, w1: 0).isZero)
        #expect(!Mac16(w0: 0, w1: 1).isZero)
    }

    // MARK: - Making

    @Test("New private keys are clamped as RFC 7748 section 5 says; both kinds take all their bytes from the generator")
    func generating() {
        for seed: UInt64 in 0..<20 {
            var expected = CryptoTest.Generator(seed: seed).firstBytes(32)
            var generator = CryptoTest.Generator(seed: seed)
            #expect(PresharedKey(using: &generator) == PresharedKey(bytes: expected))
            generator = CryptoTest.Generator(seed: seed)
            expected[0] &= 248
            expected[31] = expected[31] & 127 | 64
            #expect(PrivateKey(using: &generator) == PrivateKey(bytes: expected))
        }
    }

    @Test("Words load from and store to memory in byte order")
    func memoryOrder() {
        let bytes = CryptoTest.counting(49)
        unsafe bytes.withUnsafeBytes { raw in
            guard let start = raw.baseAddress else { return }
            let long = unsafe Bytes32(loadingFrom: start + 1)
            let short = unsafe Mac16(loadingFrom: start + 33)
            #expect(long.w0 == 0x0807_0605_0403_0201)
            #expect(CryptoTest.bytes(long) == Array(bytes[1..<33]))
            #expect(CryptoTest.bytes(short) == Array(bytes[33..<49]))
            var out = [UInt8](repeating: 0, count: 49)
            unsafe out.withUnsafeMutableBytes { out in
                guard let start = out.baseAddress else { return }
                unsafe long.store(to: start + 1)
                unsafe short.store(to: start + 33)
            }
            #expect(out == bytes)
        }
        let key = PublicKey(CryptoTest.bytes32(Array(bytes.prefix(32))))
        #expect(key.bytes == Array(bytes.prefix(32)))
        #expect(CryptoTest.bytes(Bytes32(key)) == key.bytes)
    }

    // MARK: - Wiping

    @Test("Wiping sets every byte of a buffer, of 32 bytes and of 16 bytes to zero")
    func wiping() {
        for count in [0, 1, 7, 32, 100] {
            var bytes = [UInt8](repeating: 0xa5, count: count + 2)
            unsafe bytes.withUnsafeMutableBytes { raw in
                unsafe wipe(UnsafeMutableRawBufferPointer(rebasing: raw[1..<1 + count]))
            }
            #expect(bytes == [0xa5] + [UInt8](repeating: 0, count: count) + [0xa5])
        }
        var long = CryptoTest.bytes32(CryptoTest.counting(32))
        long.wipe()
        #expect(CryptoTest.bytes(long) == [UInt8](repeating: 0, count: 32))
        var short = Mac16(w0: 1, w1: 2)
        short.wipe()
        #expect(CryptoTest.bytes(short) == [UInt8](repeating: 0, count: 16))
    }
}
