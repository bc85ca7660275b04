// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The checksum of IPv4, ICMP, TCP and UDP headers (RFC 1071): the ones' complement of the ones' complement sum of all 16-bit
/// words in network order. A last odd byte is the high half of a word.
///
/// You can add any number of parts of any length; the result is the checksum of their concatenation.
package struct InternetChecksum: Sendable {
    /// The sum so far, of 16-bit words in host order, not yet folded. A carry of 2^16 counts as 1, so a multiple of
    /// 2^16 - 1 more or less makes no difference.
    private var total: UInt64 = 0
    /// Whether an odd number of bytes was added, so that the next one is a low half.
    private var isOdd = false

    /// Creates the checksum of no bytes.
    package init() {}

    /// Adds bytes.
    package mutating func add(_ bytes: UnsafeRawBufferPointer) {
        let sum = unsafe Self.sum(bytes)
        total &+= UInt64(isOdd ? sum.byteSwapped : sum)
        if bytes.count & 1 != 0 { isOdd.toggle() }
    }

    /// Adds one 16-bit word in host order, at any offset.
    package mutating func add(_ word: UInt16) {
        total &+= UInt64(isOdd ? word.byteSwapped : word)
    }

    /// Adds two 16-bit words in host order.
    package mutating func add(_ words: UInt32) {
        add(UInt16(truncatingIfNeeded: words >> 16))
        add(UInt16(truncatingIfNeeded: words))
    }

    /// Adds four 16-bit words in host order.
    package mutating func add(_ words: UInt64) {
        add(UInt32(truncatingIfNeeded: words >> 32))
        add(UInt32(truncatingIfNeeded: words))
    }

    /// The folded sum in host order, not complemented: the content of a checksum field that hardware completes.
    package var partial: UInt16 { Self.fold(total) }

    /// The checksum in host order. Over data that holds its own correct checksum it is zero.
    package var value: UInt16 { ~partial }

    /// The checksum of `bytes` in host order.
    package static func of(_ bytes: UnsafeRawBufferPointer) -> UInt16 {
        unsafe ~sum(bytes)
    }

    /// The ones' complement sum of `bytes`, folded to 16 bits, in host order.
    ///
    /// The sum does not depend on byte order except for one swap at the end (RFC 1071, section 2). So words are added in the
    /// machine's order, four at a time and both halves separately: no carry is lost before 2^32 additions.
    @inline(__always)
    package static func sum(_ bytes: UnsafeRawBufferPointer) -> UInt16 {
        guard let base = bytes.baseAddress else { return 0 }
        let count = bytes.count
        let mask: UInt64 = 0xffff_ffff
        var low: UInt64 = 0
        var high: UInt64 = 0
        var at = 0
        while at &+ 32 <= count {
            let a = unsafe base.loadUnaligned(fromByteOffset: at, as: UInt64.self)
            let b = unsafe base.loadUnaligned(fromByteOffset: at &+ 8, as: UInt64.self)
            let c = unsafe base.loadUnaligned(fromByteOffset: at &+ 16, as: UInt64.self)
            let d = unsafe base.loadUnaligned(fromByteOffset: at &+ 24, as: UInt64.self)
            low &+= (a & mask) &+ (b & mask) &+ (c & mask) &+ (d & mask)
            high &+= (a >> 32) &+ (b >> 32) &+ (c >> 32) &+ (d >> 32)
            at &+= 32
        }
        while at &+ 2 <= count {
            low &+= unsafe UInt64(base.loadUnaligned(fromByteOffset: at, as: UInt16.self))
            at &+= 2
        }
        if at < count {
            let last = unsafe base.load(fromByteOffset: at, as: UInt8.self)
            low &+= UInt64((UInt16(last) << 8).bigEndian)
        }
        return UInt16(bigEndian: fold(fold(low, high)))
    }

    @inline(__always)
    private static func fold(_ low: UInt64, _ high: UInt64) -> UInt64 {
        (low & 0xffff_ffff) &+ (low >> 32) &+ (high & 0xffff_ffff) &+ (high >> 32)
    }

    @inline(__always)
    private static func fold(_ sum: UInt64) -> UInt16 {
        var sum = (sum & 0xffff_ffff) &+ (sum >> 32)
        sum = (sum & 0xffff) &+ (sum >> 16)
        sum = (sum & 0xffff) &+ (sum >> 16)
        sum = (sum & 0xffff) &+ (sum >> 16)
        return UInt16(truncatingIfNeeded: sum)
    }
}
