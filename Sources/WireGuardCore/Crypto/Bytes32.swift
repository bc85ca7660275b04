// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// 32 bytes stored inline or in registers, never on the heap by itself: a hash, a chaining key or a derived key.
///
/// Words are little-endian, first bytes first. The owner of a secret value must call ``wipe()`` after use.
package struct Bytes32: Equatable, Sendable {
    package var w0: UInt64
    package var w1: UInt64
    package var w2: UInt64
    package var w3: UInt64

    package static let byteCount = 32
    package static let zero = Bytes32(w0: 0, w1: 0, w2: 0, w3: 0)

    package init(w0: UInt64, w1: UInt64, w2: UInt64, w3: UInt64) {
        self.w0 = w0
        self.w1 = w1
        self.w2 = w2
        self.w3 = w3
    }

    /// Loads the 32 bytes at `bytes`, which need not be aligned.
    package init(loadingFrom bytes: UnsafeRawPointer) {
        w0 = unsafe UInt64(littleEndian: bytes.loadUnaligned(as: UInt64.self))
        w1 = unsafe UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
        w2 = unsafe UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self))
        w3 = unsafe UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: 24, as: UInt64.self))
    }

    /// Creates a value from the 32 bytes that `fill` writes. They are zeros before.
    package init(filledBy fill: (UnsafeMutableRawBufferPointer) -> Void) {
        var bytes: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        unsafe withUnsafeMutableBytes(of: &bytes) { unsafe fill($0) }
        w0 = UInt64(littleEndian: bytes.0)
        w1 = UInt64(littleEndian: bytes.1)
        w2 = UInt64(littleEndian: bytes.2)
        w3 = UInt64(littleEndian: bytes.3)
        unsafe withUnsafeMutableBytes(of: &bytes) { unsafe WireGuardCore.wipe($0) }
    }

    package init(_ key: PublicKey) {
        self.init(w0: key.words.0, w1: key.words.1, w2: key.words.2, w3: key.words.3)
    }

    /// Writes the 32 bytes to `bytes`, which need not be aligned.
    package func store(to bytes: UnsafeMutableRawPointer) {
        unsafe bytes.storeBytes(of: w0.littleEndian, as: UInt64.self)
        unsafe bytes.storeBytes(of: w1.littleEndian, toByteOffset: 8, as: UInt64.self)
        unsafe bytes.storeBytes(of: w2.littleEndian, toByteOffset: 16, as: UInt64.self)
        unsafe bytes.storeBytes(of: w3.littleEndian, toByteOffset: 24, as: UInt64.self)
    }

    /// Whether every byte is zero, in constant time.
    package var isZero: Bool { w0 | w1 | w2 | w3 == 0 }

    /// Compares in constant time.
    package static func == (a: Bytes32, b: Bytes32) -> Bool {
        (a.w0 ^ b.w0) | (a.w1 ^ b.w1) | (a.w2 ^ b.w2) | (a.w3 ^ b.w3) == 0
    }

    /// Calls `body` with the bytes in memory order.
    package func withBytes<R, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> R) throws(E) -> R {
        var copy = (w0.littleEndian, w1.littleEndian, w2.littleEndian, w3.littleEndian)
        defer { unsafe withUnsafeMutableBytes(of: &copy) { unsafe WireGuardCore.wipe($0) } }
        return try unsafe withUnsafeBytes(of: &copy) { bytes throws(E) in try unsafe body(bytes) }
    }

    /// Overwrites the value with zeros, in a way that the optimiser does not remove.
    package mutating func wipe() {
        unsafe withUnsafeMutableBytes(of: &self) { unsafe WireGuardCore.wipe($0) }
    }
}

extension PublicKey {
    package init(_ bytes: Bytes32) {
        words = (bytes.w0, bytes.w1, bytes.w2, bytes.w3)
    }
}

// Chaining keys and session keys have this type, so its bytes are never printed.
extension Bytes32: CustomStringConvertible, CustomReflectable {
    package var description: String { "(32 bytes)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
