// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Crypto
import Foundation

/// A second, linear implementation of Noise_NKpsk2_25519_ChaChaPoly_BLAKE2s and the protocol around it, from the Noise
/// specification (revision 34), RFC 7693 and RFC 2104, without any of the package's code. X25519 and ChaCha20-Poly1305
/// are swift-crypto's public ones.
enum Reference {
    typealias Bytes = [UInt8]

    // MARK: - RFC 7693

    static func blake2s(_ message: Bytes, key: Bytes = [], byteCount: Int = 32) -> Bytes {
        let iv: [UInt32] = [
            0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
        ]
        let sigma: [[Int]] = [
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
            [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
            [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
            [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
            [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
            [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
            [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
            [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
            [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
            [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
        ]
        var blocks = key.isEmpty ? message : key + Bytes(repeating: 0, count: 64 - key.count) + message
        let length = blocks.count
        if blocks.isEmpty { blocks = Bytes(repeating: 0, count: 64) }
        blocks += Bytes(repeating: 0, count: (64 - blocks.count % 64) % 64)
        var h = iv
        h[0] ^= 0x0101_0000 ^ UInt32(key.count) << 8 ^ UInt32(byteCount)
        for start in stride(from: 0, to: blocks.count, by: 64) {
            let isLast = start + 64 == blocks.count
            let m = (0..<16).map { word in
                (0..<4).reduce(UInt32(0)) { $0 | UInt32(blocks[start + word * 4 + $1]) << UInt32(8 * $1) }
            }
            var v = h + iv
            v[12] ^= UInt32(isLast ? length : start + 64)
            if isLast { v[14] = ~v[14] }
            func rotate(_ x: UInt32, _ n: UInt32) -> UInt32 { x >> n | x << (32 - n) }
            func mix(_ a: Int, _ b: Int, _ c: Int, _ d: Int, _ x: UInt32, _ y: UInt32) {
                v[a] = v[a] &+ v[b] &+ x
                v[d] = rotate(v[d] ^ v[a], 16)
                v[c] = v[c] &+ v[d]
                v[b] = rotate(v[b] ^ v[c], 12)
                v[a] = v[a] &+ v[b] &+ y
                v[d] = rotate(v[d] ^ v[a], 8)
                v[c] = v[c] &+ v[d]
                v[b] = rotate(v[b] ^ v[c], 7)
            }
            for s in sigma {
                mix(0, 4, 8, 12, m[s[0]], m[s[1]])
                mix(1, 5, 9, 13, m[s[2]], m[s[3]])
                mix(2, 6, 10, 14, m[s[4]], m[s[5]])
                mix(3, 7, 11, 15, m[s[6]], m[s[7]])
                mix(0, 5, 10, 15, m[s[8]], m[s[9]])
                mix(1, 6, 11, 12, m[s[10]], m[s[11]])
                mix(2, 7, 8, 13, m[s[12]], m[s[13]])
                mix(3, 4, 9, 14, m[s[14]], m[s[15]])
            }
            for index in 0..<8 { h[index] ^= v[index] ^ v[index + 8] }
        }
        return Bytes(
            h.flatMap { word in (0..<4).map { UInt8(truncatingIfNeeded: word >> UInt32(8 * $0)) } }
                .prefix(byteCount))
    }

    // MARK: - Noise, sections 4.3 and 5

    static func hmac(_ key: Bytes, _ data: Bytes) -> Bytes {
        let key = key + Bytes(repeating: 0, count: 64 - key.count)
        return blake2s(key.map { $0 ^ 0x5c } + blake2s(key.map { $0 ^ 0x36 } + data))
    }

    static func hkdf(_ chainingKey: Bytes, _ input: Bytes, _ count: Int) -> [Bytes] {
        let key = hmac(chainingKey, input)
        var outputs: [Bytes] = []
        for index in 1...count { outputs.append(hmac(key, (outputs.last ?? []) + [UInt8(index)])) }
        return outputs
    }

    static func littleEndian(_ value: UInt32) -> Bytes { (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) } }
    static func littleEndian(_ value: UInt64) -> Bytes { (0..<8).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) } }

    static func encrypt(_ key: Bytes, _ counter: UInt64, _ ad: Bytes, _ plaintext: Bytes) throws -> Bytes {
        let nonce = try ChaChaPoly.Nonce(data: Bytes(repeating: 0, count: 4) + littleEndian(counter))
        let box = try ChaChaPoly.seal(plaintext, using: SymmetricKey(data: key), nonce: nonce, authenticating: ad)
        return Bytes(box.ciphertext + box.tag)
    }

    static func publicKey(_ secret: Bytes) throws -> Bytes {
        Bytes(try Curve25519.KeyAgreement.PrivateKey(rawRepresentation: secret).publicKey.rawRepresentation)
    }

    static func dh(_ secret: Bytes, _ publicKey: Bytes) throws -> Bytes {
        let secret = try Curve25519.KeyAgreement.PrivateKey(rawRepresentation: secret)
        let shared = try secret.sharedSecretFromKeyAgreement(with: .init(rawRepresentation: publicKey))
        return unsafe shared.withUnsafeBytes { unsafe Bytes($0) }
    }

    struct Handshake {
        var first: Bytes
        var second: Bytes
        var toServer: Bytes
        var toClient: Bytes
        var chain: Bytes
    }

    /// Returns both messages and the keys, from both sides' secrets.
    static func handshake(
        prologue: Bytes, serverStatic s: Bytes, clientEphemeral e: Bytes, serverEphemeral f: Bytes, presharedKey: Bytes,
        firstPayload: Bytes, secondPayload: Bytes
    ) throws -> Handshake {
        // Initialize: the name has more than 32 bytes; prologue; `<- s`.
        var h = blake2s(Bytes("Noise_NKpsk2_25519_ChaChaPoly_BLAKE2s".utf8))
        var ck = h
        h = blake2s(h + prologue)
        h = blake2s(h + (try publicKey(s)))
        // `-> e, es`. With a pre-shared key in the pattern, e is mixed into the key too (section 9.2).
        let clientPublic = try publicKey(e)
        h = blake2s(h + clientPublic)
        ck = hkdf(ck, clientPublic, 2)[0]
        var outputs = hkdf(ck, try dh(e, publicKey(s)), 2)
        ck = outputs[0]
        let firstSealed = try encrypt(outputs[1], 0, h, firstPayload)
        h = blake2s(h + firstSealed)
        // `<- e, ee, psk`.
        let serverPublic = try publicKey(f)
        h = blake2s(h + serverPublic)
        ck = hkdf(ck, serverPublic, 2)[0]
        ck = hkdf(ck, try dh(f, clientPublic), 2)[0]
        outputs = hkdf(ck, presharedKey, 3)
        ck = outputs[0]
        h = blake2s(h + outputs[1])
        let secondSealed = try encrypt(outputs[2], 0, h, secondPayload)
        // Split, with a third output of the same derivation.
        outputs = hkdf(ck, [], 3)
        return Handshake(
            first: clientPublic + firstSealed, second: serverPublic + secondSealed, toServer: outputs[0],
            toClient: outputs[1], chain: outputs[2])
    }

    // MARK: - The protocol around Noise

    static func header(_ code: UInt8, _ index: UInt32) -> Bytes { [code, 1, 0, 0] + littleEndian(index) }

    static func sealed(_ code: UInt8, _ index: UInt32, _ counter: UInt64, key: Bytes, _ body: Bytes) throws -> Bytes {
        let header = header(code, index) + littleEndian(counter)
        return header + (try encrypt(key, counter, header, body))
    }
}
