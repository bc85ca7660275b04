// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import TunnelSystem

/// The error of a task that a test no longer waits for.
struct Overdue: Error {}

extension Task where Failure == any Error {
    /// The task's value, so that a task that does not end makes a test fail.
    /// - Throws: ``Overdue`` if the task has not ended within `limit`; the task's error.
    func value(within limit: Duration) async throws -> Success {
        let outcome = await withDeadline(limit, clock: ContinuousClock()) { await result }
        guard case .finished(let result) = outcome else { throw Overdue() }
        return try result.get()
    }
}

extension VirtualClock {
    /// Waits until at least `count` tasks sleep; returns whether they do within a minute.
    func hasSleepers(_ count: Int = 1) async -> Bool {
        await changes.wait { sleeperCount >= count }
    }
}
