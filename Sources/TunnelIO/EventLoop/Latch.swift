// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A gate that is opened once. Threads can wait until it is open.
package final class Latch: Sendable {
    private let isOpen = Monitor(false)

    package init() {}

    /// Releases all waiters, now and later.
    package func open() {
        isOpen.update { isOpen in
            isOpen = true
            return true
        }
    }

    /// Blocks the calling thread until the latch is open.
    package func wait() {
        isOpen.wait { $0 ? () : nil }
    }

    /// Blocks the calling thread until the latch is open or the time is over.
    /// - Returns: whether it is open.
    package func wait(milliseconds: Int) -> Bool {
        isOpen.wait(until: LaneClock.now() + Int64(milliseconds) * 1_000_000) { $0 ? true : nil } ?? false
    }
}
