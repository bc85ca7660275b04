// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Overwrites a secret in an array with zeros. Other copies of the array stay unchanged.
package func wipe(_ bytes: inout [UInt8]) {
    unsafe bytes.withUnsafeMutableBytes { unsafe zeroise($0) }
}

/// Overwrites bytes with zeros in a way that the optimiser keeps.
@inline(never)
package func zeroise(_ bytes: UnsafeMutableRawBufferPointer) {
    guard let base = bytes.baseAddress else { return }
    unsafe base.initializeMemory(as: UInt8.self, repeating: 0, count: bytes.count)
    // The optimiser cannot inspect `observe`. Without this call it could remove the stores, since the memory may be
    // freed without being read.
    _ = unsafe observe(base)
}

@inline(never) @_optimize(none)
private func observe(_ pointer: UnsafeMutableRawPointer) -> UInt8 {
    unsafe pointer.load(as: UInt8.self)
}
