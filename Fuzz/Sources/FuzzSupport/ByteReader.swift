// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Takes a fuzzer's input apart from front to back. Past the end it gives zeros and empty arrays.
struct ByteReader {
    private let bytes: [UInt8]
    private var position = 0

    /// A reader at the start of `bytes`.
    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Whether everything was taken.
    var isAtEnd: Bool { position >= bytes.count }

    /// The next byte.
    mutating func byte() -> UInt8 {
        guard position < bytes.count else { return 0 }
        defer { position += 1 }
        return bytes[position]
    }

    /// The next two bytes as a little-endian number.
    mutating func short() -> Int {
        let low = Int(byte())
        return low | Int(byte()) << 8
    }

    /// The next four bytes as a little-endian number.
    mutating func word() -> UInt32 {
        let low = UInt32(truncatingIfNeeded: short())
        return low | UInt32(truncatingIfNeeded: short()) << 16
    }

    /// The next eight bytes as a little-endian number.
    mutating func long() -> UInt64 {
        let low = UInt64(word())
        return low | UInt64(word()) << 32
    }

    /// A number from zero up to, and not including, `bound`.
    mutating func choice(of bound: Int) -> Int { Int(byte()) % max(bound, 1) }

    /// The next `count` bytes, or as many as are left.
    mutating func take(_ count: Int) -> [UInt8] {
        let end = min(position + max(count, 0), bytes.count)
        defer { position = end }
        return Array(bytes[position..<end])
    }

    /// Everything that is left.
    mutating func rest() -> [UInt8] { take(bytes.count) }
}
