// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// Threads that seal and open batches of lanes.
///
/// The queue is bounded by the lanes' batches in progress. The lanes process the batches that the workers have not started,
/// so nothing depends on a worker that has not begun.
final class BatchWorkers: Sendable {
    private struct State {
        /// A ring of batches that wait.
        var queue: [BatchSlot?]
        var first = 0
        var count = 0
        var idle = 0
        var isStopped = false
    }

    private let state: Monitor<State>
    private let threads = Mutex<[LoopThread]>([])
    private let workerCount: Int

    /// - Parameter capacity: the most batches that wait.
    init(count: Int, capacity: Int) {
        workerCount = count
        state = Monitor(State(queue: Array(repeating: nil, count: max(capacity, 1))))
    }

    /// Starts the threads, unless they were started before.
    func start(name: String) throws(TunnelIOError) {
        try threads.withLock { (threads) throws(TunnelIOError) in
            guard threads.isEmpty else { return }
            let state = state
            for index in 0..<workerCount {
                threads.append(try LoopThread(name: "\(name)-w\(index)") { Self.work(state) })
            }
        }
    }

    /// The threads that were started.
    var threadCount: Int { threads.withLock { $0.count } }

    /// Ends the threads after their current batches, and waits for them.
    func stop() {
        requestStop()
        for thread in threads.withLock({ $0 }) { thread.join() }
    }

    /// Makes the threads end, without waiting for them.
    func requestStop() {
        state.update { state in
            state.isStopped = true
            return true
        }
    }

    /// Offers a batch to an idle worker. Its lane may start it before a worker does.
    func offer(_ slot: BatchSlot) {
        state.updateForOne { state in
            let capacity = state.queue.count
            // Batches that their lanes processed keep their place in the queue. If it is full, the lane processes this
            // batch too.
            guard state.count < capacity, !state.isStopped else { return false }
            state.queue[(state.first + state.count) % capacity] = slot
            state.count += 1
            return state.idle > 0
        }
    }

    private static func work(_ state: Monitor<State>) {
        while let slot = next(state) { slot.runIfWaiting() }
    }

    /// Waits for a batch.
    /// - Returns: `nil` if it is time to end.
    private static func next(_ state: Monitor<State>) -> BatchSlot? {
        var isIdle = false
        let found: BatchSlot?? = state.wait { state in
            if isIdle { state.idle -= 1 }
            isIdle = false
            if state.isStopped { return .some(nil) }
            guard state.count > 0 else {
                isIdle = true
                state.idle += 1
                return nil
            }
            let slot = state.queue[state.first]
            state.queue[state.first] = nil
            state.first = (state.first + 1) % state.queue.count
            state.count -= 1
            return .some(slot)
        }
        return found ?? nil
    }
}
