// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// 16 bytes stored inline or in registers: mac1, mac2, or the cookie that is the key of mac2 (WireGuard paper, section
/// 5.4.4).
///
/// Words are little-endian, first bytes first.
package struct Mac16: Equatable, Sendable {
    package var w0: UInt64
    package var w1: UInt64

    package static let byteCount = 16
    package static let zero = Mac16(w0: 0, w1: 0)

    package init(w0: UInt64, w1: UInt64) {
        self.w0 = w0
        self.w1 = w1
    }

    /// Loads the 16 bytes at `bytes`, which need not be aligned.
    package init(loadingFrom bytes: UnsafeRawPointer) {
        w0 = unsafe UInt64(littleEndian: bytes.loadUnaligned(as: UInt64.self))
        w1 = unsafe UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
    }

    /// Writes the 16 bytes to `bytes`, which need not be aligned.
    package func store(to bytes: UnsafeMutableRawPointer) {
        unsafe bytes.storeBytes(of: w0.littleEndian, as: UInt64.self)
        unsafe bytes.storeBytes(of: w1.littleEndian, toByteOffset: 8, as: UInt64.self)
    }

    /// Whether every byte is zero, in constant time.
    package var isZero: Bool { w0 | w1 == 0 }

    /// Compares in constant time.
    package static func == (a: Mac16, b: Mac16) -> Bool {
        (a.w0 ^ b.w0) | (a.w1 ^ b.w1) == 0
    }

    /// Calls `body` with the bytes in memory order.
    package func withBytes<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
        var copy = (w0.littleEndian, w1.littleEndian)
        let result = unsafe withUnsafeBytes(of: &copy) { unsafe body($0) }
        unsafe withUnsafeMutableBytes(of: &copy) { unsafe WireGuardCore.wipe($0) }
        return result
    }

    /// Overwrites the value with zeros, in a way that the optimiser does not remove.
    package mutating func wipe() {
        unsafe withUnsafeMutableBytes(of: &self) { unsafe WireGuardCore.wipe($0) }
    }
}

// A cookie is a secret between two hosts, so no value of this type is printed.
extension Mac16: CustomStringConvertible, CustomReflectable {
    package var description: String { "(16 bytes)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
