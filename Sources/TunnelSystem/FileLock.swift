// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem

/// The exclusive lock of an open file (flock(2)). The system releases it when the descriptor is closed or its process
/// ends.
package enum FileLock {
    /// Takes the lock, and waits while another process has it.
    ///
    /// A process that was stopped keeps its locks, so no caller waits without a limit.
    /// - Parameters:
    ///   - descriptor: the file.
    ///   - limit: the time to wait.
    /// - Returns: 0, or the reason: `EWOULDBLOCK` if another process kept the lock.
    package static func acquire(_ descriptor: Int32, within limit: Duration) -> Int32 {
        var began: ContinuousClock.Instant?
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let reason = errno
            guard reason == EWOULDBLOCK || reason == EINTR else { return reason }
            let now = ContinuousClock.now
            let waited = now - (began ?? now)
            guard waited < limit else { return EWOULDBLOCK }
            began = began ?? now
            // A lock is mostly held for microseconds.
            if waited < .milliseconds(1) { sched_yield() } else { usleep(waited < .milliseconds(100) ? 500 : 5_000) }
        }
        return 0
    }
}
