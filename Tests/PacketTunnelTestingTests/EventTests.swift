// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@Suite("Events, latches and recorders")
struct EventTests {
    /// Long enough never to run out on a busy machine; no test waits for it to.
    private let patience: Duration = .seconds(30)

    @Test("An event that has happened admits every waiter, before and after")
    func event() async {
        let event = Event()
        #expect(!event.hasHappened)
        async let first = event.wait(timeout: patience)
        async let second = event.wait(timeout: patience)
        event.signal()
        event.signal()
        #expect(await first)
        #expect(await second)
        #expect(event.hasHappened)
        #expect(await event.wait(timeout: .zero))
    }

    @Test("Waiting for an event that does not happen ends at the timeout")
    func timeout() {
        let event = Event()
        #expect(!event.wait(timeout: .zero))
        #expect(!event.wait(timeout: .milliseconds(1)))
        #expect(!event.wait(timeout: .seconds(-1)))
        event.signal()
        #expect(event.wait(timeout: .zero))
    }

    @Test("A latch opens with the last of its counts")
    func latch() async {
        let latch = Latch(count: 3)
        #expect(!latch.wait(timeout: .zero))
        await withTaskGroup { group in
            for _ in 0..<3 { group.addTask { latch.countDown() } }
        }
        #expect(await latch.wait(timeout: patience))
        #expect(latch.count == 0)
        latch.countDown()
        #expect(latch.count == 0)
        #expect(Latch(count: 0).wait(timeout: .zero))
    }

    @Test("A condition is checked at least once and until it holds")
    func polling() {
        var checks = 0
        #expect(
            !waitUntil(timeout: .zero) {
                checks += 1
                return false
            })
        #expect(checks == 2)
        #expect(waitUntil(timeout: .zero) { true })
        checks = 0
        #expect(
            waitUntil(timeout: patience, pollEvery: .microseconds(50)) {
                checks += 1
                return checks == 4
            })
        #expect(checks == 4)
    }

    @Test("A task that waits for a condition checks it at least once, until it holds or the task is cancelled")
    func asyncPolling() async {
        var checks = 0
        func check(until last: Int) -> Bool {
            checks += 1
            return checks == last
        }
        #expect(await !waitUntil(timeout: .zero) { check(until: 0) })
        #expect(checks == 2)
        #expect(await waitUntil(timeout: patience, pollEvery: .microseconds(50)) { check(until: 6) })
        #expect(checks == 6)
        let cancelled = Task { await waitUntil(timeout: patience, pollEvery: patience) { false } }
        cancelled.cancel()
        #expect(await !cancelled.value)
    }

    @Test("An eavesdropper records what its filter accepts")
    func eavesdropper() {
        let eavesdropper = Eavesdropper<[UInt8]> { $0.first == 1 }
        eavesdropper.observe([1, 2], at: 10)
        eavesdropper.observe([2, 2], at: 11)
        eavesdropper.observe([1, 3], at: 12)
        #expect(eavesdropper.messages == [[1, 2], [1, 3]])
        #expect(eavesdropper.records.map(\.time) == [10, 12])
        #expect(eavesdropper.drain().count == 2)
        #expect(eavesdropper.count == 0)
    }
}
