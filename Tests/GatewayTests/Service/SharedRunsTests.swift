// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Synchronization
import Testing

@testable import Gateway

@Suite("Shared runs", .timeLimit(.minutes(1)))
struct SharedRunsTests {
    @Test("All calls during a run share the next run and its result")
    func shared() async {
        let (runs, changes) = (SharedRuns<Int>(), Changes())
        let state = Mutex((begun: 0, isOpen: false))
        let operation: @Sendable () async -> Int = {
            let number = state.withLock { state in
                state.begun += 1
                return state.begun
            }
            changes.notify()
            _ = await changes.wait { state.withLock { $0.isOpen } }
            return number
        }
        let first = Task { await runs.run(operation) }
        #expect(await changes.wait { state.withLock { $0.begun } == 1 })
        let others = (0..<50).map { _ in Task { await runs.run(operation) } }
        let end = ContinuousClock.now + .seconds(20)
        while runs.waitingCount < others.count, ContinuousClock.now < end { await Task.yield() }
        // A cancelled caller does not end the run of the others.
        others[0].cancel()
        #expect(runs.waitingCount == others.count && state.withLock { $0.begun } == 1)
        state.withLock { $0.isOpen = true }
        changes.notify()
        #expect(await first.value == 1)
        for other in others { #expect(await other.value == 2) }
        #expect(await runs.run(operation) == 3)
        #expect(runs.waitingCount == 0)
    }
}
