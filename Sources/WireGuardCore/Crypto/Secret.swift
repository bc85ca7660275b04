// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// 32 secret bytes with a single copy in memory. They are wiped when the last owner releases them, and are never
/// printed.
///
/// Copies of a value with a `Secret` share these bytes rather than duplicating them.
@safe
package final class Secret: @unchecked Sendable {
    // The storage is written only in `init`, so sharing it between threads is safe.
    private let storage: UnsafeMutableRawPointer

    /// The number of bytes of every secret.
    package static let byteCount = 32

    /// Creates a secret whose bytes `initialize` writes. They are zeros before.
    package init(initializingWith initialize: (UnsafeMutableRawBufferPointer) -> Void) {
        unsafe storage = UnsafeMutableRawPointer.allocate(byteCount: Secret.byteCount, alignment: 16)
        unsafe storage.initializeMemory(as: UInt8.self, repeating: 0, count: Secret.byteCount)
        unsafe initialize(UnsafeMutableRawBufferPointer(start: storage, count: Secret.byteCount))
    }

    deinit {
        unsafe wipe(UnsafeMutableRawBufferPointer(start: storage, count: Secret.byteCount))
        unsafe storage.deallocate()
    }

    /// Calls `body` with the bytes, which are valid during the call.
    package func withBytes<R: ~Copyable, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> R) throws(E) -> R {
        try unsafe body(UnsafeRawBufferPointer(start: storage, count: Secret.byteCount))
    }

    fileprivate var copy: Bytes32 { unsafe Bytes32(loadingFrom: storage) }

    /// Whether both have the same bytes, in constant time.
    package func isEqual(to other: Secret) -> Bool {
        unsafe constantTimeEqual(
            UnsafeRawBufferPointer(start: storage, count: Secret.byteCount),
            UnsafeRawBufferPointer(start: other.storage, count: Secret.byteCount))
    }

    /// Whether every byte is zero, in constant time.
    package var isZero: Bool {
        var bits: UInt8 = 0
        for index in 0..<Secret.byteCount { unsafe bits |= storage.load(fromByteOffset: index, as: UInt8.self) }
        return bits == 0
    }
}

extension Bytes32 {
    /// Creates a copy of a secret. The owner must wipe it.
    package init(copying secret: Secret) {
        self = secret.copy
    }
}

extension Secret: CustomStringConvertible, CustomReflectable {
    /// A placeholder; the bytes never print.
    package var description: String { "(secret)" }
    /// Hides the secret from `dump` and debuggers.
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// Overwrites secret bytes with zeros, in a way that the optimiser does not remove.
@inline(never)
package func wipe(_ bytes: UnsafeMutableRawBufferPointer) {
    guard let base = bytes.baseAddress else { return }
    unsafe base.initializeMemory(as: UInt8.self, repeating: 0, count: bytes.count)
    // The optimiser cannot see into this call. Without it, it could remove a store to memory that is about to be freed.
    unsafe withExtendedLifetime(wipeBarrier(base)) {}
}

@inline(never) @_optimize(none)
private func wipeBarrier(_ pointer: UnsafeMutableRawPointer) -> UInt8 {
    unsafe pointer.load(as: UInt8.self)
}

/// Compares in a time that depends only on the lengths.
@inline(never)
package func constantTimeEqual(_ a: UnsafeRawBufferPointer, _ b: UnsafeRawBufferPointer) -> Bool {
    guard a.count == b.count else { return false }
    var difference: UInt8 = 0
    for index in 0..<a.count { unsafe difference |= a[index] ^ b[index] }
    return difference == 0
}
