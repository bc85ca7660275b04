// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import WireGuardCore

@Suite("The cipher of one direction of a session")
struct TransportCipherTests {
    // 0, 1, 2 … sealed under the key 0, 1, 2 … without authenticated data. Computed with Python's cryptography package.
    private static let vectors: [(counter: UInt64, byteCount: Int, sealed: String)] = [
        (0x0, 0, "10324f800a160bd9a1794255be7ec29d"),
        (0x1, 16, "9f56f15cb12fa91f21bfa4575e989788e73915bf40172754a9d4b59c77e3385b"),
        (
            0x0001_0000_0000, 33,
            """
            537103750dde416a8ed8aaccc9c8ed9c5694d7099e8ef950eb64457f11df4f5ce70c144b51e56cb5
            959465ba0faa3f2daf
            """
        ),
        (
            0x0102_0304_0506_0708, 64,
            """
            f048afe7af3cec1f6ca220c77f756fb7f017e0d79c5153894f2cbd46f51fb9c2795d229ef6172fde
            381d4cdbee4dce49cc8ec4bb1ba9ba2bbadeb792d548ebe1509e0f009b369da8c35e7d9441dcba75
            """
        ),
        (0xffff_ffff_ffff_dffe, 5, "7169561a784017be608aebd34d4e15a75e6911b9ae"),
        (0xffff_ffff_ffff_ffff, 1, "505ae190116d888ebe6aba041a2f4644f9"),
    ]

    @Test("Transport messages agree with another implementation's", arguments: BackEnd.allCases, 0..<6)
    func vectors(backEnd: BackEnd, row: Int) {
        let (counter, byteCount, sealed) = Self.vectors[row]
        let cipher = backEnd.cipher(key: CryptoTest.bytes32(CryptoTest.counting(32)))
        let plaintext = CryptoTest.counting(byteCount)
        for inPlace in [false, true] {
            #expect(cipher.seal(counter: counter, plaintext, inPlace: inPlace) == CryptoTest.bytes(sealed))
            #expect(cipher.open(counter: counter, CryptoTest.bytes(sealed), inPlace: inPlace) == plaintext)
        }
    }

    @Test("For each length from 0 to 2,048 the back ends agree, in place and apart, and each opens the other's")
    func everyLength() {
        var generator = CryptoTest.Generator(seed: 8439)
        let text = generator.bytes(2048)
        let key = generator.bytes32()
        let ciphers = BackEnd.allCases.map { $0.cipher(key: key) }
        for byteCount in 0...2048 {
            let counter = generator.next()
            let plaintext = Array(text.prefix(byteCount))
            let expected = ciphers[0].seal(counter: counter, plaintext, inPlace: false)
            for (index, cipher) in ciphers.enumerated() {
                for inPlace in [false, true] {
                    let isSame =
                        cipher.seal(counter: counter, plaintext, inPlace: inPlace) == expected
                        && cipher.open(counter: counter, expected, inPlace: inPlace) == plaintext
                    #expect(isSame, "\(byteCount) bytes, \(BackEnd.allCases[index]), in place: \(inPlace)")
                }
            }
        }
    }

    @Test("A changed byte, counter, key or length is refused, and no plaintext comes out", arguments: BackEnd.allCases)
    func tampering(backEnd: BackEnd) {
        var generator = CryptoTest.Generator(seed: 16)
        let key = generator.bytes32()
        let cipher = backEnd.cipher(key: key)
        let plaintext = generator.bytes(48)
        let sealed = cipher.seal(counter: 7, plaintext, inPlace: false)
        for inPlace in [false, true] {
            for index in sealed.indices {
                for bit in 0..<8 {
                    var tampered = sealed
                    tampered[index] ^= 1 << bit
                    let (isAuthentic, buffer) = cipher.tryOpening(counter: 7, tampered, inPlace: inPlace)
                    let isRefused = !isAuthentic && !buffer.starts(with: plaintext.prefix(8))
                    #expect(isRefused, "bit \(bit) of byte \(index)")
                }
            }
            for count in 0..<sealed.count {
                #expect(cipher.open(counter: 7, Array(sealed.prefix(count)), inPlace: inPlace) == nil)
            }
            for counter: UInt64 in [0, 6, 8, 7 << 32, 7 | 1 << 63] {
                #expect(cipher.open(counter: counter, sealed, inPlace: inPlace) == nil)
            }
            for bit in 0..<64 {
                var other = key
                other.w2 ^= 1 << bit
                #expect(backEnd.cipher(key: other).open(counter: 7, sealed, inPlace: inPlace) == nil)
            }
        }
        #expect(cipher.open(counter: 7, sealed, inPlace: true) == plaintext)
    }

    @Test("Additional data is under a message's tag, as in single messages", arguments: BackEnd.allCases)
    func authenticatedData(backEnd: BackEnd) {
        var generator = CryptoTest.Generator(seed: 17)
        let key = generator.bytes32()
        let cipher = backEnd.cipher(key: key)
        for byteCount in [0, 1, 16, 100] {
            let header = generator.bytes(byteCount)
            let plaintext = generator.bytes(48)
            var expected = [UInt8](repeating: 0, count: 64)
            var sealed = plaintext + [UInt8](repeating: 0, count: 16)
            func open(_ sealed: [UInt8], _ header: [UInt8]) -> [UInt8]? {
                var buffer = sealed
                let isAuthentic = unsafe buffer.withUnsafeMutableBytes { raw in
                    let place = unsafe raw.baseAddress.unsafelyUnwrapped
                    return unsafe header.withUnsafeBytes { header in
                        unsafe cipher.open(
                            counter: 5, source: place, sealedByteCount: raw.count, authenticating: header,
                            destination: place)
                    }
                }
                return isAuthentic ? Array(buffer.dropLast(16)) : nil
            }
            unsafe header.withUnsafeBytes { header in
                unsafe sealed.withUnsafeMutableBytes { raw in
                    let place = unsafe raw.baseAddress.unsafelyUnwrapped
                    unsafe cipher.seal(
                        counter: 5, source: place, byteCount: 48, authenticating: header, destination: place)
                }
                unsafe expected.withUnsafeMutableBytes { out in
                    unsafe plaintext.withUnsafeBytes { plaintext in
                        unsafe ChaChaPoly.seal(
                            key: key, counter: 5, plaintext: plaintext, authenticating: header,
                            into: out.baseAddress.unsafelyUnwrapped)
                    }
                }
            }
            #expect(sealed == expected)
            #expect(open(sealed, header) == plaintext)
            #expect(open(sealed, header + [0]) == nil)
            #expect(open(Array(sealed.prefix(15)), header) == nil)
            for index in header.indices {
                var changed = header
                changed[index] ^= 1
                #expect(open(sealed, changed) == nil)
            }
        }
    }

    @Test("Sealing writes no byte beyond the tag and reads none beyond the text", arguments: BackEnd.allCases)
    func bounds(backEnd: BackEnd) {
        let cipher = backEnd.cipher(key: CryptoTest.bytes32(CryptoTest.counting(32)))
        for byteCount in [0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1420] {
            var buffer = [UInt8](repeating: 0xcc, count: 32 + byteCount + 16 + 32)
            unsafe buffer.withUnsafeMutableBytes { raw in
                guard let start = raw.baseAddress else { return }
                let place = unsafe start + 32
                unsafe cipher.seal(counter: 1, source: place, byteCount: byteCount, destination: place)
            }
            let plain = [UInt8](repeating: 0xcc, count: byteCount)
            let margin = [UInt8](repeating: 0xcc, count: 32)
            #expect(buffer == margin + cipher.seal(counter: 1, plain, inPlace: false) + margin)
            let isAuthentic = unsafe buffer.withUnsafeMutableBytes { raw in
                guard let start = raw.baseAddress else { return false }
                let place = unsafe start + 32
                return unsafe cipher.open(
                    counter: 1, source: place, sealedByteCount: byteCount + 16, destination: place)
            }
            #expect(isAuthentic)
            #expect(buffer.prefix(32 + byteCount) == (margin + plain)[...])
            #expect(buffer.suffix(32) == margin[...])
        }
    }

    @Test("Several tasks seal and open with one cipher at a time", arguments: BackEnd.allCases)
    func sharing(backEnd: BackEnd) async {
        let cipher = backEnd.cipher(key: CryptoTest.bytes32(CryptoTest.counting(32)))
        let plaintext = CryptoTest.counting(300)
        let good = await withTaskGroup(of: Int.self) { group in
            for task in 0..<4 {
                group.addTask { @concurrent in
                    (0..<100).count { index in
                        let counter = UInt64(task * 100 + index)
                        let sealed = cipher.seal(counter: counter, plaintext, inPlace: true)
                        return cipher.open(counter: counter, sealed, inPlace: true) == plaintext
                            && cipher.open(counter: counter + 1, sealed, inPlace: true) == nil
                    }
                }
            }
            return await group.reduce(0, +)
        }
        #expect(good == 400)
    }
}
