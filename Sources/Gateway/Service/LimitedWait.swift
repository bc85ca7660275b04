// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

/// Runs an operation and waits, even in a cancelled task, until the operation ends or the limit is reached. At the
/// limit, the operation is cancelled, and may continue in the background.
/// - Returns: Whether the operation has ended.
func isDone(within limit: Duration, _ operation: @escaping @Sendable () async -> Void) async -> Bool {
    let outcome = await Task { await withDeadline(limit, clock: ContinuousClock(), operation) }.value
    if case .finished = outcome { return true }
    return false
}
