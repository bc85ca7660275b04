// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import WireGuardCore

@Suite("BLAKE2s")
struct Blake2sTests {
    @Test("BLAKE2s-256 of abc is what RFC 7693 appendix B says")
    func appendixB() {
        let expected = "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982"
        #expect(CryptoTest.hex(digest(of: Array("abc".utf8))) == expected)
    }

    @Test("The self-test of RFC 7693 appendix E passes: 24 unkeyed and 24 keyed hashes, hashed together")
    func appendixE() {
        func sequence(_ count: Int) -> [UInt8] {
            var a = 0xdead_4bad &* UInt32(count)
            var b: UInt32 = 1
            return (0..<count).map { _ in
                let next = a &+ b
                a = b
                b = next
                return UInt8(next >> 24)
            }
        }
        var all: [UInt8] = []
        for digestByteCount in [16, 20, 28, 32] {
            for inputByteCount in [0, 3, 64, 65, 255, 1024] {
                let input = sequence(inputByteCount)
                all += digest(of: input, byteCount: digestByteCount)
                all += digest(of: input, byteCount: digestByteCount, key: sequence(digestByteCount))
            }
        }
        let expected = "6a411f08ce25adcdfb02aba641451cec53c598b24f4fc787fbdc88797f4c1dfe"
        #expect(CryptoTest.hex(digest(of: all)) == expected)
    }

    // Digests of 0, 1, 2 … (modulo 256), under the key 0, 1, 2 … when it has any bytes. Computed with Python 3's hashlib.
    private static let table: [(inputByteCount: Int, keyByteCount: Int, digest: String)] = [
        (0, 0, "69217a3079908094e11121d042354a7c1f55b6482ca1a51e1b250dfd1ed0eef9"),
        (1, 0, "e34d74dbaf4ff4c6abd871cc220451d2ea2648846c7757fbaac82fe51ad64bea"),
        (63, 0, "e57cb79487dd57902432b250733813bd96a84efce59f650fac26e6696aefafc3"),
        (64, 0, "56f34e8b96557e90c1f24b52d0c89d51086acf1b00f634cf1dde9233b8eaaa3e"),
        (65, 0, "1b53ee94aaf34e4b159d48de352c7f0661d0a40edff95a0b1639b4090e974472"),
        (127, 0, "f18417b39d617ab1c18fdf91ebd0fc6d5516bb34cf39364037bce81fa04cecb1"),
        (128, 0, "1fa877de67259d19863a2a34bcc6962a2b25fcbf5cbecd7ede8f1fa36688a796"),
        (129, 0, "5bd169e67c82c2c2e98ef7008bdf261f2ddf30b1c00f9e7f275bb3e8a28dc9a2"),
        (255, 0, "f03f5789d3336b80d002d59fdf918bdb775b00956ed5528e86aa994acb38fe2d"),
        (256, 0, "5fdeb59f681d975f52c8e69c5502e02a12a3afcc5836ba58f42784c439228781"),
        (1000, 0, "b5f9d7799111edafc9326fbf667be98140b5e20ce5e151793c59125bf654ac18"),
        (0, 32, "48a8997da407876b3d79c0d92325ad3b89cbb754d86ab71aee047ad345fd2c49"),
        (1, 32, "40d15fee7c328830166ac3f918650f807e7e01e177258cdc0a39b11f598066f1"),
        (63, 32, "c65382513f07460da39833cb666c5ed82e61b9e998f4b0c4287cee56c3cc9bcd"),
        (64, 32, "8975b0577fd35566d750b362b0897a26c399136df07bababbde6203ff2954ed4"),
        (65, 32, "21fe0ceb0052be7fb0f004187cacd7de67fa6eb0938d927677f2398c132317a8"),
        (128, 32, "0c311f38c35a4fb90d651c289d486856cd1413df9b0677f53ece2cd9e477c60a"),
        (255, 32, "3fb735061abc519dfe979e54c1ee5bfad0a9d858b3315bad34bde999efd724dd"),
        (116, 32, "072e94ffbfc684bd8ab2a1b9dade2fd5"),
        (0, 16, "af4e5d3bb230e9ff9096ca6f7c501f76"),
        (132, 16, "b03d1196bdcfaad40f911db86b79ac7e"),
        (64, 1, "efc5e532e4815e7bcc9fc9a685a7b5745cd2cfbc04d37c3442363eb2ca42d0c0"),
        (40, 31, "e05fcb1770057d3b3c876f937efff0bc66aba8a448663c323d4d68582c3604"),
        (40, 0, "46"),
    ]

    @Test("Digests, keyed and not, agree with hashlib's", arguments: 0..<24)
    func table(row: Int) {
        let (inputByteCount, keyByteCount, expected) = Self.table[row]
        let key = CryptoTest.counting(keyByteCount)
        let result = digest(of: CryptoTest.counting(inputByteCount), byteCount: expected.utf8.count / 2, key: key)
        #expect(CryptoTest.hex(result) == expected)
    }

    @Test("A message has the same digest in any pieces", arguments: [false, true])
    func pieces(isKeyed: Bool) {
        var generator = CryptoTest.Generator(seed: 7693)
        let key = isKeyed ? generator.bytes(32) : []
        let message = generator.bytes(260)
        let whole = digest(of: message, key: key)
        for cut in 0...message.count {
            #expect(digest(of: [Array(message[..<cut]), Array(message[cut...])], key: key) == whole, "cut at \(cut)")
        }
        for size in [1, 3, 32, 63, 64, 65] {
            let pieces = stride(from: 0, to: message.count, by: size).map {
                Array(message[$0..<min($0 + size, message.count)])
            }
            #expect(digest(of: pieces, key: key) == whole, "pieces of \(size)")
        }
    }

    @Test("The one-shots agree with the streaming hash")
    func oneShots() {
        var generator = CryptoTest.Generator(seed: 32)
        let a = generator.bytes32()
        let b = generator.bytes32()
        let cookie = Mac16(w0: generator.next(), w1: generator.next())
        let data = generator.bytes(148)
        let aBytes = CryptoTest.bytes(a)
        unsafe data.withUnsafeBytes { raw in
            let alone = unsafe Blake2s.hash(raw)
            let joined = unsafe Blake2s.hash(a, raw)
            let mac1 = unsafe Blake2s.mac16(key: a, raw)
            let mac2 = unsafe Blake2s.mac16(key: cookie, raw)
            #expect(CryptoTest.bytes(alone) == digest(of: data))
            #expect(CryptoTest.bytes(joined) == digest(of: aBytes + data))
            #expect(CryptoTest.bytes(mac1) == digest(of: data, byteCount: 16, key: aBytes))
            #expect(CryptoTest.bytes(mac2) == digest(of: data, byteCount: 16, key: CryptoTest.bytes(cookie)))
        }
        #expect(CryptoTest.bytes(Blake2s.hash(a, b)) == digest(of: aBytes + CryptoTest.bytes(b)))
    }

    @Test("Wiping leaves neither key nor message behind")
    func wiping() {
        func holdsPattern(_ hash: Blake2s) -> Bool {
            unsafe withUnsafeBytes(of: hash) { unsafe CryptoTest.longestRun(of: 0xa5, in: Array($0)) >= 8 }
        }
        var hash = unsafe [UInt8](repeating: 0xa5, count: 32).withUnsafeBytes {
            unsafe Blake2s(digestByteCount: 32, key: $0)
        }
        #expect(holdsPattern(hash))
        hash.wipe()
        #expect(!holdsPattern(hash))
    }

    private func digest(of message: [UInt8], byteCount: Int = 32, key: [UInt8] = []) -> [UInt8] {
        digest(of: [message], byteCount: byteCount, key: key)
    }

    private func digest(of pieces: [[UInt8]], byteCount: Int = 32, key: [UInt8] = []) -> [UInt8] {
        var hash =
            key.isEmpty
            ? Blake2s(digestByteCount: byteCount)
            : unsafe key.withUnsafeBytes { unsafe Blake2s(digestByteCount: byteCount, key: $0) }
        for piece in pieces { unsafe piece.withUnsafeBytes { unsafe hash.update($0) } }
        var out = [UInt8](repeating: 0, count: byteCount)
        unsafe out.withUnsafeMutableBytes { unsafe hash.finalize(into: $0) }
        return out
    }
}
