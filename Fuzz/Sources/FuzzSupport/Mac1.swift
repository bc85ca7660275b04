// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardCore

/// The mac1 of a handshake message, which every holder of the receiver's public key can compute (WireGuard paper, section
/// 5.4.4). With it, edited messages pass the first check.
///
/// This is a separate BLAKE2s (RFC 7693), so that it agrees with the library's only if both are correct.
enum Mac1 {
    /// Replaces the mac1 of a handshake message of 148 or 92 bytes to a peer with `key`, and clears its mac2.
    static func fix(_ message: inout [UInt8], to key: PublicKey) {
        guard message.count > 32 else { return }
        let end = message.count - 32
        let macKey = blake2s(key: [], digest: 32, Array("mac1----".utf8) + key.bytes)
        let mac = blake2s(key: macKey, digest: 16, Array(message[..<end]))
        for index in 0..<16 {
            message[end + index] = mac[index]
            message[end + 16 + index] = 0
        }
    }

    static let initial: [UInt32] = [
        0x6A09_E667, 0xBB67_AE85, 0x3C6E_F372, 0xA54F_F53A, 0x510E_527F, 0x9B05_688C, 0x1F83_D9AB, 0x5BE0_CD19,
    ]

    static let order: [[Int]] = [
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

    static func blake2s(key: [UInt8], digest: Int, _ message: [UInt8]) -> [UInt8] {
        var state = initial
        state[0] ^= 0x0101_0000 ^ UInt32(key.count) << 8 ^ UInt32(digest)
        var input = message
        if !key.isEmpty { input = key + [UInt8](repeating: 0, count: 64 - key.count) + message }
        let blocks = max(1, (input.count + 63) / 64)
        for block in 0..<blocks {
            let end = min((block + 1) * 64, input.count)
            var bytes = Array(input[(block * 64)..<end])
            bytes += [UInt8](repeating: 0, count: 64 - bytes.count)
            let words = (0..<16).map { index -> UInt32 in
                (0..<4).reduce(0) { $0 | UInt32(bytes[4 * index + $1]) << UInt32(8 * $1) }
            }
            compress(&state, words, byteCount: UInt32(end), isLast: block == blocks - 1)
        }
        return (0..<digest).map { UInt8(truncatingIfNeeded: state[$0 / 4] >> UInt32(8 * ($0 % 4))) }
    }

    private static func compress(_ state: inout [UInt32], _ words: [UInt32], byteCount: UInt32, isLast: Bool) {
        var v = state + initial
        v[12] ^= byteCount
        if isLast { v[14] = ~v[14] }
        func rotated(_ x: UInt32, _ n: UInt32) -> UInt32 { x >> n | x << (32 - n) }
        func mix(_ a: Int, _ b: Int, _ c: Int, _ d: Int, _ x: UInt32, _ y: UInt32) {
            v[a] = v[a] &+ v[b] &+ x
            v[d] = rotated(v[d] ^ v[a], 16)
            v[c] = v[c] &+ v[d]
            v[b] = rotated(v[b] ^ v[c], 12)
            v[a] = v[a] &+ v[b] &+ y
            v[d] = rotated(v[d] ^ v[a], 8)
            v[c] = v[c] &+ v[d]
            v[b] = rotated(v[b] ^ v[c], 7)
        }
        for row in order {
            for column in 0..<4 {
                mix(column, column + 4, column + 8, column + 12, words[row[2 * column]], words[row[2 * column + 1]])
            }
            for column in 0..<4 {
                mix(
                    column, (column + 1) % 4 + 4, (column + 2) % 4 + 8, (column + 3) % 4 + 12,
                    words[row[8 + 2 * column]], words[row[9 + 2 * column]])
            }
        }
        for index in 0..<8 { state[index] ^= v[index] ^ v[index + 8] }
    }
}
