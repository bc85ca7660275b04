// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import TunnelIO

@Suite("A monitor", .timeLimit(.minutes(1)))
struct MonitorTests {
    @Test("A wait ends at its deadline, and sees another thread's change")
    func waits() throws {
        let monitor = Monitor(0)
        #expect(monitor.wait(until: LaneClock.now() + 1_000_000) { $0 == 1 ? $0 : nil } == nil)
        let thread = try LoopThread(name: "monitor-test") {
            monitor.update { value in
                value = 1
                return true
            }
        }
        #expect(monitor.wait(until: LaneClock.now() + 5_000_000_000) { $0 == 1 ? $0 : nil } == 1)
        #expect(monitor.wait { $0 == 1 ? "one" : nil } == "one")
        thread.join()
    }

    @Test("Each that waits is woken in the end when they are woken one by one")
    func wakesOne() throws {
        let monitor = Monitor(0)
        let threads = try (0..<4).map { _ in
            try LoopThread(name: "waiter") {
                monitor.wait { value -> Void? in
                    guard value > 0 else { return nil }
                    value -= 1
                    return ()
                }
            }
        }
        for _ in 0..<4 {
            monitor.updateForOne { value in
                value += 1
                return true
            }
        }
        for thread in threads { thread.join() }
        #expect(monitor.withValue { $0 } == 0)
    }
}
