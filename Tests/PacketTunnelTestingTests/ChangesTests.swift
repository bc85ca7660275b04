// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Synchronization
import Testing

@Suite("Changes", .timeLimit(.minutes(2)))
struct ChangesTests {
    @Test("A condition that holds is not waited for")
    func holds() async {
        #expect(await Changes().wait { true })
    }

    @Test("A condition is checked after each change by any task, and not in between")
    func looks() async {
        let changes = Changes()
        let number = Atomic<Int>(0)
        var looks = 0
        async let counting: Void = {
            for _ in 0..<100 {
                number.add(1, ordering: .relaxed)
                changes.notify()
                await Task.yield()
            }
        }()
        let holds = await changes.wait {
            looks += 1
            return number.load(ordering: .relaxed) == 100
        }
        await counting
        #expect(holds)
        #expect(looks <= 101)
    }

    @Test("Waiting for a false condition ends at the limit, and with the task")
    func ends() async {
        let changes = Changes()
        #expect(await !changes.wait(within: .milliseconds(20)) { false })
        let waiting = Task { await changes.wait { false } }
        waiting.cancel()
        #expect(await !waiting.value)
    }

    @Test("Values of a sequence are changes")
    func follows() async {
        let changes = Changes()
        let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
        changes.follow(stream)
        var looks = 0
        continuation.yield(1)
        let seen = await changes.wait {
            looks += 1
            if looks == 2 { return true }
            continuation.yield(2)
            return false
        }
        #expect(seen)
    }

    @Test("A clock notifies of each task that begins to sleep or is woken")
    func clock() async {
        let clock = VirtualClock()
        let sleeping = Task { try await clock.sleep(until: .init(offset: .seconds(1))) }
        #expect(await clock.changes.wait { clock.sleeperCount == 1 })
        clock.advance(by: .seconds(1))
        #expect(await clock.changes.wait { clock.sleeperCount == 0 })
        _ = await sleeping.result
        let cancelled = Task { try await clock.sleep(until: .init(offset: .seconds(9))) }
        #expect(await clock.changes.wait { clock.sleeperCount == 1 })
        cancelled.cancel()
        #expect(await clock.changes.wait { clock.sleeperCount == 0 })
    }
}
