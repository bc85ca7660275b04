// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

/// Secret bytes: zeroed when they are released, and never in a description. ``bytes`` is a copy; ``withBytes(_:)`` lends
/// them.
@safe
public final class SecretBytes: @unchecked Sendable, CustomStringConvertible {
    // Written at init and deinit only, so sharing it is safe.
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

    /// A copy of the bytes, for what needs an array.
    public var bytes: [UInt8] {
        withBytes { span in span.indices.map { span[$0] } }
    }

    /// How many bytes there are.
    public var description: String { "SecretBytes(\(count) bytes)" }
}
