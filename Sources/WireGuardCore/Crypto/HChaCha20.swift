// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The subkey function of XChaCha20 (draft-irtf-cfrg-xchacha-03, section 2.2).
enum HChaCha20 {
    /// Returns the subkey for a key and the 16 bytes at `nonce`.
    static func subkey(key: Bytes32, nonce: UnsafeRawPointer) -> Bytes32 {
        @inline(__always) func low(_ word: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: word) }
        @inline(__always) func high(_ word: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: word >> 32) }
        let input = unsafe Mac16(loadingFrom: nonce)

        // "expand 32-byte k", then the key, then the nonce (RFC 8439 section 2.3 with the nonce over the counter).
        var x0: UInt32 = 0x6170_7865
        var x1: UInt32 = 0x3320_646e
        var x2: UInt32 = 0x7962_2d32
        var x3: UInt32 = 0x6b20_6574
        var x4 = low(key.w0)
        var x5 = high(key.w0)
        var x6 = low(key.w1)
        var x7 = high(key.w1)
        var x8 = low(key.w2)
        var x9 = high(key.w2)
        var x10 = low(key.w3)
        var x11 = high(key.w3)
        var x12 = low(input.w0)
        var x13 = high(input.w0)
        var x14 = low(input.w1)
        var x15 = high(input.w1)
        for _ in 0..<10 {
            quarterRound(&x0, &x4, &x8, &x12)
            quarterRound(&x1, &x5, &x9, &x13)
            quarterRound(&x2, &x6, &x10, &x14)
            quarterRound(&x3, &x7, &x11, &x15)
            quarterRound(&x0, &x5, &x10, &x15)
            quarterRound(&x1, &x6, &x11, &x12)
            quarterRound(&x2, &x7, &x8, &x13)
            quarterRound(&x3, &x4, &x9, &x14)
        }
        // The result is the first and the last row, without the final addition of ChaCha20.
        return Bytes32(
            w0: UInt64(x0) | UInt64(x1) << 32, w1: UInt64(x2) | UInt64(x3) << 32,
            w2: UInt64(x12) | UInt64(x13) << 32, w3: UInt64(x14) | UInt64(x15) << 32)
    }

    /// The quarter round of RFC 8439 section 2.1.
    @inline(__always)
    static func quarterRound(_ a: inout UInt32, _ b: inout UInt32, _ c: inout UInt32, _ d: inout UInt32) {
        a = a &+ b
        d = rotatedLeft(d ^ a, by: 16)
        c = c &+ d
        b = rotatedLeft(b ^ c, by: 12)
        a = a &+ b
        d = rotatedLeft(d ^ a, by: 8)
        c = c &+ d
        b = rotatedLeft(b ^ c, by: 7)
    }

    @inline(__always)
    private static func rotatedLeft(_ word: UInt32, by count: UInt32) -> UInt32 {
        word &<< count | word &>> (32 &- count)
    }
}
