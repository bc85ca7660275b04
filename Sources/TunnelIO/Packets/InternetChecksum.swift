// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The checksum of IPv4, ICMP, TCP and UDP headers (RFC 1071): the ones' complement of the ones' complement sum of all 16-bit
/// words in network order. A last odd byte is the high half of a word.
///
/// You can add any number of parts of any length; the result is the checksum of their concatenation.
package struct InternetChecksum: Sendable {
    /// The sum so far, of 16-bit words in the machine's byte order, not yet folded. A carry of 2^16 counts as 1, so a
    /// multiple of 2^16 - 1 more or less makes no difference. The order of the bytes makes no difference either, except
    /// for one swap at the end (RFC 1071, section 2).
    private var total: UInt64 = 0
    /// Whether an odd number of bytes was added, so that the next one is a low half.
    private var isOdd = false

    /// Creates the checksum of no bytes.
    package init() {}

    /// Adds bytes.
    @inline(__always)
    package mutating func add(_ bytes: UnsafeRawBufferPointer) {
        guard let base = bytes.baseAddress else { return }
        addSum(unsafe Self.sum(base, copyingTo: nil, count: bytes.count))
        if bytes.count & 1 != 0 { isOdd.toggle() }
    }

    /// Copies `count` bytes and adds them: one pass over memory instead of two.
    ///
    /// The regions do not overlap; neither needs any alignment.
    @unsafe
    @inline(__always)
    mutating func add(copying source: UnsafeRawPointer, to target: UnsafeMutableRawPointer, count: Int) {
        addSum(unsafe Self.sum(source, copyingTo: target, count: count))
        if count & 1 != 0 { isOdd.toggle() }
    }

    /// Adds one 16-bit word in host order, at any offset.
    @inline(__always)
    package mutating func add(_ word: UInt16) {
        addSum(UInt64(word.bigEndian))
    }

    /// Removes a 16-bit word, in host order, that was added: adds its complement.
    @inline(__always)
    mutating func subtract(_ word: UInt16) {
        add(~word)
    }

    /// Adds two 16-bit words in host order.
    @inline(__always)
    package mutating func add(_ words: UInt32) {
        addSum(UInt64(words.bigEndian))
    }

    /// Adds four 16-bit words in host order.
    package mutating func add(_ words: UInt64) {
        add(UInt32(truncatingIfNeeded: words >> 32))
        add(UInt32(truncatingIfNeeded: words))
    }

    /// The folded sum in host order, not complemented: the content of a checksum field that hardware completes.
    @inline(__always)
    package var partial: UInt16 { UInt16(bigEndian: Self.fold(total)) }

    /// The checksum in host order. Over data that holds its own correct checksum it is zero.
    @inline(__always)
    package var value: UInt16 { ~partial }

    /// The checksum of `bytes` in host order.
    @inline(__always)
    package static func of(_ bytes: UnsafeRawBufferPointer) -> UInt16 {
        unsafe ~sum(bytes)
    }

    /// The ones' complement sum of `bytes`, folded to 16 bits, in host order.
    @inline(__always)
    package static func sum(_ bytes: UnsafeRawBufferPointer) -> UInt16 {
        var checksum = InternetChecksum()
        unsafe checksum.add(bytes)
        return checksum.partial
    }

    /// Adds a sum in the machine's byte order.
    @inline(__always)
    private mutating func addSum(_ sum: UInt64) {
        // Folded once, so that no number of parts loses a carry.
        total &+= isOdd ? UInt64(Self.fold(sum).byteSwapped) : (sum & 0xffff_ffff) &+ (sum >> 32)
    }

    /// The sum of `count` bytes in the machine's byte order, not folded; below 2^62 for fewer than 2^32 bytes.
    ///
    /// The loop adds whole words, whose carries are lost, and their upper halves, whose carries are not. The sum of the
    /// lower halves is the difference. The compiler turns a loop this plain into vectors.
    /// - Parameter target: the address of the copy; `nil` to sum only.
    @unsafe
    @inline(__always)
    private static func sum(
        _ source: UnsafeRawPointer, copyingTo target: UnsafeMutableRawPointer?, count: Int
    ) -> UInt64 {
        var words: UInt64 = 0
        var upper: UInt64 = 0
        var at = 0
        while at &+ 8 <= count {
            let word = unsafe source.loadUnaligned(fromByteOffset: at, as: UInt64.self)
            if let target = unsafe target { unsafe target.storeBytes(of: word, toByteOffset: at, as: UInt64.self) }
            words &+= word
            upper &+= word >> 32
            at &+= 8
        }
        var sum = words &- (upper << 32) &+ upper
        if count & 4 != 0 {
            let word = unsafe source.loadUnaligned(fromByteOffset: at, as: UInt32.self)
            if let target = unsafe target { unsafe target.storeBytes(of: word, toByteOffset: at, as: UInt32.self) }
            sum &+= UInt64(word)
            at &+= 4
        }
        if count & 2 != 0 {
            let word = unsafe source.loadUnaligned(fromByteOffset: at, as: UInt16.self)
            if let target = unsafe target { unsafe target.storeBytes(of: word, toByteOffset: at, as: UInt16.self) }
            sum &+= UInt64(word)
            at &+= 2
        }
        if count & 1 != 0 {
            let last = unsafe source.load(fromByteOffset: at, as: UInt8.self)
            if let target = unsafe target { unsafe target.storeBytes(of: last, toByteOffset: at, as: UInt8.self) }
            sum &+= UInt64((UInt16(last) << 8).bigEndian)
        }
        return sum
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
