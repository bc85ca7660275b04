// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

/// Secret bytes. They are zeroed when released, and never appear in a description. ``bytes`` returns a copy;
/// ``withBytes(_:)`` gives temporary access.
@safe
public final class SecretBytes: @unchecked Sendable, CustomStringConvertible {
    // The storage is written only in `init` and `deinit`, so sharing it between threads is safe.
    private let storage: UnsafeMutableRawBufferPointer

    /// Copies `bytes`. The caller must wipe its own copy.
    public init(_ bytes: some Collection<UInt8>) {
        unsafe storage = .allocate(byteCount: max(bytes.count, 1), alignment: 1)
        unsafe storage.initializeMemory(as: UInt8.self, repeating: 0)
        for (index, byte) in bytes.enumerated() { unsafe storage[index] = byte }
        count = bytes.count
    }

    deinit {
        unsafe zeroise(storage)
        unsafe storage.deallocate()
    }

    /// The number of bytes.
    public let count: Int

    /// Calls `body` with the bytes, which are valid during the call.
    public func withBytes<Result, Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let bytes = unsafe UnsafeRawBufferPointer(start: storage.baseAddress, count: count).bindMemory(to: UInt8.self)
        return unsafe try body(bytes.span)
    }

    /// A copy of the bytes, for functions that require an array.
    public var bytes: [UInt8] {
        withBytes { span in span.indices.map { span[$0] } }
    }

    /// The number of bytes, without the bytes.
    public var description: String { "SecretBytes(\(count) bytes)" }
}
