// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import WireGuardCore

@Suite("HMAC-BLAKE2s and the KDF")
struct KDFTests {
    // HMAC of 0, 1, 2 … under the key 0, 1, 2 … (modulo 256). Computed with Python 3's hmac and hashlib.blake2s.
    private static let macs: [(keyByteCount: Int, inputByteCount: Int, tag: String)] = [
        (0, 0, "eaf4bb25938f4d20e72656bbbc7a9bf63c0c18537333c35bdb67db1402661acd"),
        (16, 3, "e5c1e02d840718d0ec8719b375d86a3bc6af79a7e3f6c4e97a9648213e19d868"),
        (32, 0, "e2641d24dfa8dd89e8cb77f1cdc77d8c006e5bebdfc4d6a3a3a6f8d5b7586fb0"),
        (32, 33, "3d83dfea00d3d4b8c054cd14ae63867405c8e182c4034db1b2268d716c4642c3"),
        (63, 64, "8c8410ad3a4231a2266871d16724f397a05850e4d71f005e48433d739288d75d"),
        (64, 65, "febe61a9355f2ca810fad1e5f771c5b4ecddebeaba36177f2e180b716fae09be"),
        (65, 1, "d94ccba6e09a25c99c60a44937a41cbb1b3d84586dbf3aaa44bdcba46a267405"),
        (100, 200, "c4c95271905c6f69c1dd7c6fbc0cb3735457a660ccc2c4370f28825e7abef5af"),
    ]

    @Test("HMAC agrees with Python's for keys shorter and longer than a block", arguments: 0..<8)
    func macs(row: Int) {
        let (keyByteCount, inputByteCount, expected) = Self.macs[row]
        let tag = unsafe CryptoTest.counting(keyByteCount).withUnsafeBytes { key in
            unsafe CryptoTest.counting(inputByteCount).withUnsafeBytes { input in
                unsafe HMACBlake2s.authenticate(key: key, input)
            }
        }
        #expect(CryptoTest.hex(tag) == expected)
    }

    // The vectors of wireguard-go's device/kdf_test.go: key, input, three outputs. HMAC fills a short key up with
    // zeros, so the key's 32 bytes are its own and then zeros.
    private static let vectors: [(key: String, input: String, outputs: [String])] = [
        (
            "746573742d6b6579", "746573742d696e707574",
            [
                "6f0e5ad38daba1bea8a0d213688736f19763239305e0f58aba697f9ffc41c633",
                "df1194df20802a4fe594cde27e92991c8cae66c366e8106aaa937a55fa371e8a",
                "fac6e2745a325f5dc5d11a5b165aad08b0ada28e7b4e666b7c077934a4d76c24",
            ]
        ),
        (
            "776972656775617264", "776972656775617264",
            [
                "491d43bbfdaa8750aaf535e334ecbfe5129967cd64635101c566d4caefda96e8",
                "1e71a379baefd8a79aa4662212fcafe19a23e2b609a3db7d6bcba8f560e3d25f",
                "31e1ae48bddfbe5de38f295e5452b1909a1b4e38e183926af3780b0c1e1f0160",
            ]
        ),
        (
            "", "",
            [
                "8387b46bf43eccfcf349552a095d8315c4055beb90208fb1be23b894bc2ed5d0",
                "58a0e5f6faefccf4807bff1f05fa8a9217945762040bcec2f4b4a62bdfe0e86e",
                "0ce6ea98ec548f8e281e93e32db65621c45eb18dc6f0a7ad94178610a2f7338e",
            ]
        ),
    ]

    @Test("One, two and three outputs are the published ones", arguments: 0..<3)
    func vectors(row: Int) {
        let (key, input, expected) = Self.vectors[row]
        unsafe CryptoTest.bytes(input).withUnsafeBytes { input in
            let key = CryptoTest.bytes32(key)
            let one = unsafe KDF.derive1(key: key, input: input)
            let two = unsafe KDF.derive2(key: key, input: input)
            let three = unsafe KDF.derive3(key: key, input: input)
            #expect([one].map(CryptoTest.hex) == Array(expected.prefix(1)))
            #expect([two.0, two.1].map(CryptoTest.hex) == Array(expected.prefix(2)))
            #expect([three.0, three.1, three.2].map(CryptoTest.hex) == expected)
        }
    }

    @Test("A 32-byte input gives the same as its bytes do")
    func inputInRegisters() {
        var generator = CryptoTest.Generator(seed: 5869)
        let key = generator.bytes32()
        let input = generator.bytes32()
        unsafe input.withBytes { raw in
            let one = unsafe KDF.derive1(key: key, input: raw)
            let two = unsafe KDF.derive2(key: key, input: raw)
            let three = unsafe KDF.derive3(key: key, input: raw)
            #expect(KDF.derive1(key: key, input: input) == one)
            #expect(KDF.derive2(key: key, input: input) == two)
            #expect(KDF.derive3(key: key, input: input) == three)
        }
    }

    @Test("The protocol names hash to the initial chaining key and hash of the WireGuard paper, section 5.4.2")
    func initialConstants() {
        let construction = Array("Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s".utf8)
        let identifier = Array("WireGuard v1 zx2c4 Jason@zx2c4.com".utf8)
        let chainingKey = unsafe construction.withUnsafeBytes { unsafe Blake2s.hash($0) }
        let hash = unsafe identifier.withUnsafeBytes { unsafe Blake2s.hash(chainingKey, $0) }
        #expect(CryptoTest.hex(chainingKey) == "60e26daef327efc02ec335e2a025d2d016eb4206f87277f52d38d1988b78cd36")
        #expect(CryptoTest.hex(hash) == "2211b361081ac566691243db458ad5322d9c6c662293e8b70ee19c65ba079ef3")
    }
}
