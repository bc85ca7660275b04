// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension Blake2s {
    /// The chained value and the number of bytes processed (RFC 7693 section 3.1).
    struct State {
        private var h0, h1, h2, h3, h4, h5, h6, h7: UInt32
        private var byteCount: UInt64 = 0

        init(digestByteCount: UInt32, keyByteCount: UInt32) {
            // Parameter block, first word: digest length, key length, fanout 1, depth 1 (RFC 7693 section 2.8).
            h0 = IV.word0 ^ 0x0101_0000 ^ keyByteCount << 8 ^ digestByteCount
            h1 = IV.word1
            h2 = IV.word2
            h3 = IV.word3
            h4 = IV.word4
            h5 = IV.word5
            h6 = IV.word6
            h7 = IV.word7
        }

        /// The chained value as bytes.
        var digest: Bytes32 {
            Bytes32(
                w0: UInt64(h0) | UInt64(h1) << 32, w1: UInt64(h2) | UInt64(h3) << 32,
                w2: UInt64(h4) | UInt64(h5) << 32, w3: UInt64(h6) | UInt64(h7) << 32)
        }

        /// The function F (RFC 7693 section 3.2) over the 64 bytes at `block`, with `count` message bytes.
        mutating func compress(_ block: UnsafeRawPointer, byteCount count: UInt64, isLast: Bool) {
            @inline(__always) func word(_ index: Int) -> UInt32 {
                unsafe UInt32(littleEndian: block.loadUnaligned(fromByteOffset: index &* 4, as: UInt32.self))
            }
            let m0 = word(0), m1 = word(1), m2 = word(2), m3 = word(3)
            let m4 = word(4), m5 = word(5), m6 = word(6), m7 = word(7)
            let m8 = word(8), m9 = word(9), m10 = word(10), m11 = word(11)
            let m12 = word(12), m13 = word(13), m14 = word(14), m15 = word(15)

            byteCount &+= count
            var v = WorkVector(
                v0: h0, v1: h1, v2: h2, v3: h3, v4: h4, v5: h5, v6: h6, v7: h7,
                v8: IV.word0, v9: IV.word1, v10: IV.word2, v11: IV.word3,
                v12: IV.word4 ^ UInt32(truncatingIfNeeded: byteCount),
                v13: IV.word5 ^ UInt32(truncatingIfNeeded: byteCount >> 32),
                v14: isLast ? ~IV.word6 : IV.word6, v15: IV.word7)
            // One line for each row of SIGMA (RFC 7693 section 2.7).
            v.round(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15)
            v.round(m14, m10, m4, m8, m9, m15, m13, m6, m1, m12, m0, m2, m11, m7, m5, m3)
            v.round(m11, m8, m12, m0, m5, m2, m15, m13, m10, m14, m3, m6, m7, m1, m9, m4)
            v.round(m7, m9, m3, m1, m13, m12, m11, m14, m2, m6, m5, m10, m4, m0, m15, m8)
            v.round(m9, m0, m5, m7, m2, m4, m10, m15, m14, m1, m11, m12, m6, m8, m3, m13)
            v.round(m2, m12, m6, m10, m0, m11, m8, m3, m4, m13, m7, m5, m15, m14, m1, m9)
            v.round(m12, m5, m1, m15, m14, m13, m4, m10, m0, m7, m6, m3, m9, m2, m8, m11)
            v.round(m13, m11, m7, m14, m12, m1, m3, m9, m5, m0, m15, m4, m8, m6, m2, m10)
            v.round(m6, m15, m14, m9, m11, m3, m0, m8, m12, m2, m13, m7, m1, m4, m10, m5)
            v.round(m10, m2, m8, m4, m7, m6, m1, m5, m15, m11, m9, m14, m3, m12, m13, m0)
            h0 ^= v.v0 ^ v.v8
            h1 ^= v.v1 ^ v.v9
            h2 ^= v.v2 ^ v.v10
            h3 ^= v.v3 ^ v.v11
            h4 ^= v.v4 ^ v.v12
            h5 ^= v.v5 ^ v.v13
            h6 ^= v.v6 ^ v.v14
            h7 ^= v.v7 ^ v.v15
        }
    }

    /// The first 32 bits of the fractional parts of the square roots of the first eight primes, as in SHA-256.
    private enum IV {
        static var word0: UInt32 { @inline(__always) get { 0x6a09_e667 } }
        static var word1: UInt32 { @inline(__always) get { 0xbb67_ae85 } }
        static var word2: UInt32 { @inline(__always) get { 0x3c6e_f372 } }
        static var word3: UInt32 { @inline(__always) get { 0xa54f_f53a } }
        static var word4: UInt32 { @inline(__always) get { 0x510e_527f } }
        static var word5: UInt32 { @inline(__always) get { 0x9b05_688c } }
        static var word6: UInt32 { @inline(__always) get { 0x1f83_d9ab } }
        static var word7: UInt32 { @inline(__always) get { 0x5be0_cd19 } }
    }

    /// The local state of one compression. The ten rounds are inlined, so all of it is in registers and on the stack.
    private struct WorkVector {
        var v0, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15: UInt32

        @inline(__always)
        mutating func round(
            _ x0: UInt32, _ x1: UInt32, _ x2: UInt32, _ x3: UInt32, _ x4: UInt32, _ x5: UInt32, _ x6: UInt32,
            _ x7: UInt32,
            _ x8: UInt32, _ x9: UInt32, _ x10: UInt32, _ x11: UInt32, _ x12: UInt32, _ x13: UInt32, _ x14: UInt32,
            _ x15: UInt32
        ) {
            WorkVector.mix(&v0, &v4, &v8, &v12, x0, x1)
            WorkVector.mix(&v1, &v5, &v9, &v13, x2, x3)
            WorkVector.mix(&v2, &v6, &v10, &v14, x4, x5)
            WorkVector.mix(&v3, &v7, &v11, &v15, x6, x7)
            WorkVector.mix(&v0, &v5, &v10, &v15, x8, x9)
            WorkVector.mix(&v1, &v6, &v11, &v12, x10, x11)
            WorkVector.mix(&v2, &v7, &v8, &v13, x12, x13)
            WorkVector.mix(&v3, &v4, &v9, &v14, x14, x15)
        }

        /// The function G (RFC 7693 section 3.1).
        @inline(__always)
        private static func mix(
            _ a: inout UInt32, _ b: inout UInt32, _ c: inout UInt32, _ d: inout UInt32, _ x: UInt32, _ y: UInt32
        ) {
            a = a &+ b &+ x
            d = rotatedRight(d ^ a, by: 16)
            c = c &+ d
            b = rotatedRight(b ^ c, by: 12)
            a = a &+ b &+ y
            d = rotatedRight(d ^ a, by: 8)
            c = c &+ d
            b = rotatedRight(b ^ c, by: 7)
        }

        @inline(__always)
        private static func rotatedRight(_ word: UInt32, by count: UInt32) -> UInt32 {
            word &>> count | word &<< (32 &- count)
        }
    }
}
