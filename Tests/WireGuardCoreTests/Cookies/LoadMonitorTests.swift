// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import WireGuardCore

private func at(_ milliseconds: Int64) -> Instant {
    Instant(nanoseconds: 9_000_000_000_000 + milliseconds * 1_000_000)
}

@Suite("Load monitor")
struct LoadMonitorTests {
    @Test("A burst of 129 messages means load, for one second after the last such message")
    func burst() {
        var monitor = LoadMonitor(burst: 128, perSecond: 1_000)
        #expect(!monitor.isUnderLoad(at: at(0)))
        for _ in 0..<128 { #expect(monitor.messageArrived(at: at(0)) == false) }
        #expect(monitor.messageArrived(at: at(0)) == true)
        #expect(monitor.isUnderLoad(at: at(0)))
        #expect(monitor.isUnderLoad(at: at(999)))
        #expect(!monitor.isUnderLoad(at: at(1_000)))
        // The bucket has recovered, so the state does not return by itself.
        #expect(monitor.messageArrived(at: at(1_000)) == false)
    }

    @Test("Messages that find tokens do not prolong the state")
    func notProlonged() {
        var monitor = LoadMonitor(burst: 2, perSecond: 10)
        for _ in 0..<2 { #expect(monitor.messageArrived(at: at(0)) == false) }
        #expect(monitor.messageArrived(at: at(0)) == true)
        #expect(monitor.messageArrived(at: at(500)) == true)
        #expect(monitor.isUnderLoad(at: at(999)))
        #expect(!monitor.isUnderLoad(at: at(1_000)))
    }

    @Test("A steady stream at the rate is not load, one above it is")
    func steady() {
        var monitor = LoadMonitor(burst: 128, perSecond: 1_000)
        for millisecond in 0..<3_000 as Range<Int64> { #expect(monitor.messageArrived(at: at(millisecond)) == false) }
        var sawLoad = false
        for millisecond in 3_000..<3_300 as Range<Int64> {
            for _ in 0..<2 where monitor.messageArrived(at: at(millisecond)) { sawLoad = true }
        }
        #expect(sawLoad)
    }

    @Test("A slow machine is under load at fewer messages; a fast one is not under load at more")
    func slowMachine() {
        func admitted(_ took: Int64) -> Int {
            var monitor = LoadMonitor(burst: 10, perSecond: 1_000)
            for _ in 0..<100 { monitor.messages(4, took: 4 * took) }
            // Within a second, one each 100 us.
            return (0..<10_000 as Range<Int64>).firstIndex { step in
                monitor.messageArrived(at: Instant(nanoseconds: 9_000_000_000_000 + step * 100_000))
            }.map { Int($0) } ?? 10_000
        }
        // Ten places, and those that become free meanwhile: at 1,000 a second one every ten steps, at 250 one every 40.
        #expect(admitted(1_000) == 11)
        #expect(admitted(2_000_000) == 10)
        var monitor = LoadMonitor(burst: 1, perSecond: 1_000)
        monitor.messages(4, took: 8_000_000)
        #expect(monitor.messageArrived(at: at(0)) == false)
        #expect(monitor.messageArrived(at: at(4)) == false)
        #expect(monitor.messageArrived(at: at(7)) == true)
        // An interruption counts as ten milliseconds. No messages, and a time below zero, do not count.
        var interrupted = LoadMonitor(burst: 1, perSecond: 1_000)
        interrupted.messages(1, took: .max)
        interrupted.messages(0, took: 5)
        interrupted.messages(4, took: -5)
        #expect(interrupted.messageArrived(at: at(0)) == false)
        #expect(interrupted.messageArrived(at: at(20)) == false)
        #expect(interrupted.messageArrived(at: at(39)) == true)
    }

    @Test("A clock that goes back ends the state and leaves nothing stuck")
    func clockGoesBack() {
        var monitor = LoadMonitor(burst: 1, perSecond: 1)
        _ = monitor.messageArrived(at: at(0))
        #expect(monitor.messageArrived(at: at(0)) == true)
        #expect(!monitor.isUnderLoad(at: at(-3_600_000)))
        #expect(monitor.messageArrived(at: at(-3_600_000)) == true)
        #expect(monitor.messageArrived(at: at(-3_600_000 + 1_000)) == false)
    }

    @Test("Settings and times at the ends of their range do not trap")
    func extremes() {
        for (burst, perSecond) in [(0, 0), (-1, -1), (.max, .max), (.max, 1), (1, .max)] {
            var monitor = LoadMonitor(burst: burst, perSecond: perSecond)
            for time in [.min, 0, .max] as [Int64] {
                let now = Instant(nanoseconds: time)
                let isLoaded = monitor.messageArrived(at: now)
                #expect(isLoaded == monitor.isUnderLoad(at: now))
            }
        }
    }
}
