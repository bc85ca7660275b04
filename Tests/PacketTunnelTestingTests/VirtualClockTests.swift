// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@Suite("A clock to sleep on, moved by hand")
struct VirtualClockTests {
    @Test("Sleepers wake at their deadline, and not before")
    func sleepersWake() async throws {
        let clock = VirtualClock()
        let woken = Eavesdropper<Int>()
        async let first: Void = {
            try await clock.sleep(for: .seconds(1))
            woken.observe(1)
        }()
        async let second: Void = {
            try await clock.sleep(for: .seconds(2))
            woken.observe(2)
        }()
        await clock.waitForSleepers(2)
        #expect(clock.nextDeadline == VirtualClock.Instant(offset: .seconds(1)))
        clock.advance(by: .milliseconds(999))
        #expect(clock.sleeperCount == 2)
        clock.advance(by: .milliseconds(1))
        try await first
        #expect(woken.messages == [1])
        #expect(clock.advanceToNextDeadline())
        try await second
        #expect(woken.messages == [1, 2])
        #expect(clock.now.offset == .seconds(2))
        #expect(!clock.advanceToNextDeadline())
    }

    @Test("A deadline in the past does not wait")
    func pastDeadline() async throws {
        let clock = VirtualClock()
        clock.advance(by: .seconds(5))
        try await clock.sleep(until: VirtualClock.Instant(offset: .seconds(5)))
        #expect(clock.sleeperCount == 0)
    }

    @Test("Waiting for sleepers ends with the waiting task, even if it was cancelled before")
    func cancelledWait() async {
        let clock = VirtualClock()
        let waiting = Task { await clock.waitForSleepers() }
        waiting.cancel()
        await waiting.value
        let early = Task {
            unsafe withUnsafeCurrentTask { task in unsafe task?.cancel() }
            await clock.waitForSleepers()
        }
        await early.value
        #expect(clock.sleeperCount == 0)
    }

    @Test("A cancelled sleeper continues immediately, even if it was cancelled before it slept")
    func cancellation() async {
        let clock = VirtualClock()
        let sleeper = Task { try await clock.sleep(for: .seconds(1)) }
        await clock.waitForSleepers()
        sleeper.cancel()
        await #expect(throws: CancellationError.self) { try await sleeper.value }
        #expect(clock.sleeperCount == 0)

        let early = Task {
            unsafe withUnsafeCurrentTask { task in unsafe task?.cancel() }
            try await clock.sleep(for: .seconds(1))
        }
        await #expect(throws: CancellationError.self) { try await early.value }
        #expect(clock.sleeperCount == 0)
    }
}
