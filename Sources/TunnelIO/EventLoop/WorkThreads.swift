// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// Threads for work that occupies a processor, such as hashing passwords.
package final class WorkThreads: Sendable {
    private let loops: [EventLoop]
    /// The number of pieces of work that each thread has.
    private let loads: Mutex<[Int]>

    /// - Parameters:
    ///   - name: The name of the threads.
    ///   - count: The number of threads; by default, that of the processors.
    /// - Throws: `.eventLoop` if the system refuses a thread or its descriptors.
    package init(name: String, count: Int = ProcessorCount.forLanes()) throws(TunnelIOError) {
        var loops: [EventLoop] = []
        do throws(TunnelIOError) {
            for _ in 0..<max(count, 1) {
                let loop = try EventLoop()
                loops.append(loop)
                try loop.startThread(name: name)
            }
        } catch {
            for loop in loops { loop.stop() }
            throw error
        }
        self.loops = loops
        loads = Mutex([Int](repeating: 0, count: loops.count))
    }

    deinit { for loop in loops { loop.stop() } }

    /// The number of threads.
    package var count: Int { loops.count }

    /// Runs `work` on the thread with the least work.
    /// - Returns: The result of `work`; `nil` if the threads have ended.
    package func run<Result: Sendable>(_ work: @escaping @Sendable () -> Result) async -> Result? {
        let index = loads.withLock { loads in
            let index = loads.indices.min { loads[$0] < loads[$1] } ?? 0
            loads[index] += 1
            return index
        }
        defer { loads.withLock { $0[index] -= 1 } }
        return await withCheckedContinuation { continuation in
            if !loops[index].perform({ continuation.resume(returning: work()) }) { continuation.resume(returning: nil) }
        }
    }
}
