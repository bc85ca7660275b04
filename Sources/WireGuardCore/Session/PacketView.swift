// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A packet or datagram in memory that its owner keeps valid while it is processed.
@unsafe
public struct PacketView {
    /// The first byte.
    public var base: UnsafeMutableRawPointer
    /// The number of bytes.
    public var count: Int

    /// A view of `count` bytes at `base`.
    @inlinable
    public init(base: UnsafeMutableRawPointer, count: Int) {
        unsafe self.base = unsafe base
        unsafe self.count = count
    }
}
