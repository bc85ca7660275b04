// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing
import TunnelSystem

@Suite("Deadlines", .timeLimit(.minutes(1)))
struct DeadlineTests {
    /// Waits until its task is cancelled.
    private static func forever() async {
        let never = OneShot<Void>()
        await withTaskCancellationHandler {
            await never.value
        } onCancel: {
            never.finish(())
        }
    }

    @Test("An operation that returns in time gives its value")
    func inTime() async {
        guard case .finished(let value) = await withDeadline(.seconds(1), clock: VirtualClock(), { 7 }) else {
            Issue.record("it did not finish")
            return
        }
        #expect(value == 7)
    }

    @Test("When the limit has passed the operation is cancelled and not waited for")
    func late() async throws {
        let clock = VirtualClock()
        let cancelled = OneShot<Bool>()
        async let outcome = withDeadline(.seconds(3), clock: clock) {
            await Self.forever()
            cancelled.finish(Task.isCancelled)
        }
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(3))
        guard case .timedOut = await outcome else {
            Issue.record("it did not time out")
            return
        }
        #expect(await cancelled.value)
    }

    @Test("Cancelling the caller ends the wait and the operation")
    func cancelledCaller() async {
        let begun = OneShot<Void>()
        let ended = OneShot<Void>()
        let caller = Task {
            await withDeadline(nil, clock: VirtualClock()) {
                begun.finish(())
                await Self.forever()
                ended.finish(())
            }
        }
        await begun.value
        caller.cancel()
        guard case .cancelled = await caller.value else {
            Issue.record("it was not cancelled")
            return
        }
        await ended.value
    }

    @Test("In a task that is cancelled already nothing begins")
    func cancelledBefore() async {
        let caller = Task {
            await Self.forever()
            return await withDeadline(nil, clock: VirtualClock()) { Issue.record("it began") }
        }
        caller.cancel()
        guard case .cancelled = await caller.value else {
            Issue.record("it was not cancelled")
            return
        }
    }
}
