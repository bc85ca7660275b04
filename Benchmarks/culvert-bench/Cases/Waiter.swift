// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Dispatch
import Synchronization

/// Waits for asynchronous work on the program's own thread.
enum Waiter {
    static func run(_ body: @escaping @Sendable () async -> Double) -> Double {
        let result = Mutex(Double.nan)
        let done = DispatchSemaphore(value: 0)
        Task {
            let value = await body()
            result.withLock { $0 = value }
            done.signal()
        }
        done.wait()
        return result.withLock { $0 }
    }
}
