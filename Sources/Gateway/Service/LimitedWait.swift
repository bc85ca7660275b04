// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

/// Runs an operation and waits for it, even in a cancelled task, until it ends or the time is over. The operation is then cancelled, and
/// left to itself.
/// - Returns: Whether it has ended.
func isDone(within limit: Duration, _ operation: @escaping @Sendable () async -> Void) async -> Bool {
    let outcome = await Task { await withDeadline(limit, clock: ContinuousClock(), operation) }.value
    if case .finished = outcome { return true }
    return false
}
