// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// Duplicates file descriptors.
enum DescriptorCopy {
    /// A duplicate, closed on exec.
    /// - Throws: `.invalidDescriptor` with `errno` `EBADF` when it is not open, `EMFILE` when there are no more numbers.
    static func make(of descriptor: Int32) throws(TunnelIOError) -> Int32 {
        try SystemCall.check(.invalidDescriptor(descriptor, expected: "one that can be duplicated")) {
            fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        }
    }

    /// A duplicate of a descriptor that other threads may close during the call.
    /// - Throws: `.closed`; `.invalidDescriptor` with `errno` `EMFILE` when there are no more numbers.
    static func make(of descriptor: SharedDescriptor) throws(TunnelIOError) -> Int32 {
        guard descriptor.acquire() else { throw TunnelIOError(.closed) }
        defer { descriptor.release() }
        return try make(of: descriptor.number)
    }
}
