// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import PacketTunnelTesting
import Testing

@Suite("The elapsed time of a run")
struct ElapsedTimeTests {
    @Test("Sleep is the time that only one of the clocks counts")
    func asleep() {
        let (clock, awake) = (VirtualClock(), VirtualClock())
        clock.advance(by: .seconds(5))
        let time = ElapsedTime(clock, awake: awake)
        for clock in [clock, awake] { clock.advance(by: .seconds(10)) }
        #expect(time.now == .seconds(10))
        #expect(time.asleep == .zero)
        clock.advance(by: .seconds(40))
        #expect(time.now == .seconds(50))
        #expect(time.asleep == .seconds(40))
        awake.advance(by: .seconds(60))
        #expect(time.asleep == .zero, "never negative")
    }

    @Test("A clock that is not the system's has no sleep, and the system's has none while it runs")
    func systemClock() {
        let clock = VirtualClock()
        let time = ElapsedTime(clock)
        clock.advance(by: .seconds(3600))
        #expect(time.asleep == .zero)
        #expect(ElapsedTime(ContinuousClock()).asleep < .seconds(1))
    }
}
