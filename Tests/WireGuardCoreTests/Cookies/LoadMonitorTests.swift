// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import WireGuardCore

private func at(_ milliseconds: Int64) -> Instant {
    Instant(nanoseconds: 9_000_000_000_000 + milliseconds * 1_000_000)
}

@Suite("Load monitor")
struct LoadMonitorTests {
    @Test("The 129th message at once means load, for one second after the last such message")
    func burst() {
        var monitor = LoadMonitor()
        #expect(!monitor.isUnderLoad(at: at(0)))
        for _ in 0..<128 { #expect(monitor.handshakeArrived(at: at(0)) == false) }
        #expect(monitor.handshakeArrived(at: at(0)) == true)
        #expect(monitor.isUnderLoad(at: at(0)))
        #expect(monitor.isUnderLoad(at: at(999)))
        #expect(!monitor.isUnderLoad(at: at(1_000)))
        // The bucket has recovered, so the state does not return by itself.
        #expect(monitor.handshakeArrived(at: at(1_000)) == false)
    }

    @Test("Messages that find tokens do not prolong the state")
    func notProlonged() {
        var monitor = LoadMonitor(burst: 2, perSecond: 10)
        for _ in 0..<2 { #expect(monitor.handshakeArrived(at: at(0)) == false) }
        #expect(monitor.handshakeArrived(at: at(0)) == true)
        #expect(monitor.handshakeArrived(at: at(500)) == true)
        #expect(monitor.isUnderLoad(at: at(999)))
        #expect(!monitor.isUnderLoad(at: at(1_000)))
    }

    @Test("A steady stream at the rate is no load, one above it is")
    func steady() {
        var monitor = LoadMonitor()
        for millisecond in 0..<3_000 as Range<Int64> { #expect(monitor.handshakeArrived(at: at(millisecond)) == false) }
        var sawLoad = false
        for millisecond in 3_000..<3_300 as Range<Int64> {
            for _ in 0..<2 where monitor.handshakeArrived(at: at(millisecond)) { sawLoad = true }
        }
        #expect(sawLoad)
    }

    @Test("A clock that goes back ends the state and leaves nothing stuck")
    func clockGoesBack() {
        var monitor = LoadMonitor(burst: 1, perSecond: 1)
        _ = monitor.handshakeArrived(at: at(0))
        #expect(monitor.handshakeArrived(at: at(0)) == true)
        #expect(!monitor.isUnderLoad(at: at(-3_600_000)))
        #expect(monitor.handshakeArrived(at: at(-3_600_000)) == true)
        #expect(monitor.handshakeArrived(at: at(-3_600_000 + 1_000)) == false)
    }

    @Test("Settings and times at the ends of their range do not trap")
    func extremes() {
        for (burst, perSecond) in [(0, 0), (-1, -1), (.max, .max), (.max, 1), (1, .max)] {
            var monitor = LoadMonitor(burst: burst, perSecond: perSecond)
            for time in [.min, 0, .max] as [Int64] {
                let now = Instant(nanoseconds: time)
                let isLoaded = monitor.handshakeArrived(at: now)
                #expect(isLoaded == monitor.isUnderLoad(at: now))
            }
        }
    }
}
