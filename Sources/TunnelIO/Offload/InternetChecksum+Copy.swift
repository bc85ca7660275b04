// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension InternetChecksum {
    /// Copies `count` bytes and sums them on the way: one pass over memory instead of two.
    ///
    /// The regions do not overlap; neither needs any alignment.
    /// - Returns: the ones' complement sum as ``sum(_:)`` gives it.
    @unsafe
    @inline(__always)
    static func copy(from source: UnsafeRawPointer, to target: UnsafeMutableRawPointer, count: Int) -> UInt16 {
        let mask = SIMD4<UInt64>(repeating: 0xffff_ffff)
        let half = SIMD4<UInt64>(repeating: 32)
        // Both halves of each 64-bit word apart: no carry is lost before 2^31 rounds.
        var low = SIMD4<UInt64>(repeating: 0)
        var high = SIMD4<UInt64>(repeating: 0)
        var at = 0
        while at &+ 64 <= count {
            let a = unsafe source.loadUnaligned(fromByteOffset: at, as: SIMD4<UInt64>.self)
            let b = unsafe source.loadUnaligned(fromByteOffset: at &+ 32, as: SIMD4<UInt64>.self)
            unsafe target.storeBytes(of: a, toByteOffset: at, as: SIMD4<UInt64>.self)
            unsafe target.storeBytes(of: b, toByteOffset: at &+ 32, as: SIMD4<UInt64>.self)
            low = low &+ (a & mask) &+ (b & mask)
            high = high &+ (a &>> half) &+ (b &>> half)
            at &+= 64
        }
        let both = low &+ high
        var sum = both[0] &+ both[1] &+ both[2] &+ both[3]
        while at &+ 8 <= count {
            let word = unsafe source.loadUnaligned(fromByteOffset: at, as: UInt64.self)
            unsafe target.storeBytes(of: word, toByteOffset: at, as: UInt64.self)
            sum &+= (word & 0xffff_ffff) &+ (word >> 32)
            at &+= 8
        }
        while at &+ 2 <= count {
            let word = unsafe source.loadUnaligned(fromByteOffset: at, as: UInt16.self)
            unsafe target.storeBytes(of: word, toByteOffset: at, as: UInt16.self)
            sum &+= UInt64(word)
            at &+= 2
        }
        if at < count {
            let last = unsafe source.load(fromByteOffset: at, as: UInt8.self)
            unsafe target.storeBytes(of: last, toByteOffset: at, as: UInt8.self)
            sum &+= UInt64((UInt16(last) << 8).bigEndian)
        }
        sum = (sum & 0xffff_ffff) &+ (sum >> 32)
        sum = (sum & 0xffff_ffff) &+ (sum >> 32)
        sum = (sum & 0xffff) &+ (sum >> 16)
        sum = (sum & 0xffff) &+ (sum >> 16)
        return UInt16(bigEndian: UInt16(truncatingIfNeeded: (sum & 0xffff) &+ (sum >> 16)))
    }
}
