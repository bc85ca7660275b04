// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Dispatch
import Synchronization

/// Waits for asynchronous work on the program's own thread.
enum Waiter {
    static func run(_ body: @escaping @Sendable () async -> Double) -> Double {
        (try? wait { await body() }) ?? .nan
    }

    static func wait<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) throws -> Value {
        let result = Mutex<Result<Value, any Error>?>(nil)
        let done = DispatchSemaphore(value: 0)
        Task {
            let outcome: Result<Value, any Error>
            do { outcome = .success(try await body()) } catch { outcome = .failure(error) }
            result.withLock { $0 = outcome }
            done.signal()
        }
        done.wait()
        guard let outcome = result.withLock({ $0 }) else { throw BenchmarkError("the work has no result") }
        return try outcome.get()
    }
}
