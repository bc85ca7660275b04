// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@Suite("Fake clock")
struct FakeClockTests {
    @Test("Time passes on both clocks")
    func advance() {
        let clock = FakeClock(monotonic: 100, wall: .init(seconds: 10, nanoseconds: 999_999_999))
        clock.advance(by: .nanoseconds(1))
        #expect(clock.nanoseconds == 101)
        #expect(clock.wall == .init(seconds: 11, nanoseconds: 0))
        clock.advance(by: .milliseconds(2_500))
        #expect(clock.nanoseconds == 2_500_000_101)
        #expect(clock.wall == .init(seconds: 13, nanoseconds: 500_000_000))
    }

    @Test("The wall clock jumps alone, forward and back")
    func wallJumps() {
        let clock = FakeClock(monotonic: 5, wall: .init(seconds: 1_000))
        clock.jumpWall(by: .milliseconds(-1_500))
        #expect(clock.wall == .init(seconds: 998, nanoseconds: 500_000_000))
        clock.jumpWall(by: .seconds(3_600))
        #expect(clock.wall == .init(seconds: 4_598, nanoseconds: 500_000_000))
        clock.jumpWall(by: .seconds(-10_000))
        #expect(clock.wall.seconds == -5_402)
        #expect(clock.nanoseconds == 5)
    }

    @Test("Either clock can be set")
    func setting() {
        let clock = FakeClock()
        clock.setMonotonic(-7)
        clock.setWall(.init(seconds: 1, nanoseconds: 2))
        #expect(clock.nanoseconds == -7)
        #expect(clock.wall == .init(seconds: 1, nanoseconds: 2))
    }
}
