// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// Runs operations one after another, in the order of the calls. Cancelling the caller does not cancel its operation.
final class SerialOperations: Sendable {
    private let last = Mutex<Task<Void, Never>?>(nil)

    func run<Result: Sendable>(_ operation: @escaping @Sendable () async -> Result) async -> Result {
        let task = last.withLock { last in
            let before = last
            let task = Task {
                await before?.value
                return await operation()
            }
            last = Task { _ = await task.value }
            return task
        }
        return await task.value
    }
}
