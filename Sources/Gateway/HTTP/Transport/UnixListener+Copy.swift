// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

extension UnixListener {
    /// Returns a new descriptor of the same socket. The caller must close it.
    func duplicate() throws(SystemError) -> Int32 {
        guard descriptor.acquire() else { throw SystemError("dup", errno: EBADF) }
        defer { descriptor.release() }
        let copy = try SystemCall.check("dup") { dup(descriptor.number) }
        _ = fcntl(copy, F_SETFD, FD_CLOEXEC)
        return copy
    }
}
