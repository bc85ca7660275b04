// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Testing

@testable import Gateway

@Suite("Jumps of the wall clock") struct ClockWatchTests {
    private static let start = 1_767_225_600.0

    /// Readings of both clocks.
    private struct Clocks {
        var wall = ClockWatchTests.start
        var counter: Int64 = 1000
        var watch = ClockWatch(Date(timeIntervalSince1970: ClockWatchTests.start), nanoseconds: 1000 * 1_000_000_000)

        /// Advances both clocks, with a jump of the wall clock at the end.
        mutating func pass(_ seconds: Int64, jump: Double = 0) -> ClockWatch.Change? {
            counter += seconds
            wall += Double(seconds) + jump
            return watch.observe(Date(timeIntervalSince1970: wall), nanoseconds: counter * 1_000_000_000)
        }
    }

    @Test("The time at the start is steady immediately, and certain after ten minutes")
    func start() {
        var clocks = Clocks()
        #expect(clocks.watch.isSteady && !clocks.watch.isCertain)
        #expect(clocks.pass(599) == nil && !clocks.watch.isCertain)
        #expect(clocks.pass(1) == nil && clocks.watch.isCertain)
    }

    @Test("A jump of more than a minute is uncertain until it is reverted or has persisted for ten minutes")
    func jump() {
        for seconds: Double in [61, -61, 34_560_000, -34_560_000] {
            var clocks = Clocks()
            #expect(clocks.pass(600) == nil)
            #expect(clocks.pass(1, jump: seconds) == .jumped(Int64(seconds)) && !clocks.watch.isSteady)
            #expect(clocks.pass(1) == nil && !clocks.watch.isCertain)
            #expect(clocks.pass(1, jump: -seconds) == .returned && clocks.watch.isCertain)
            #expect(clocks.pass(1, jump: seconds) == .jumped(Int64(seconds)))
            #expect(clocks.pass(599) == nil && !clocks.watch.isCertain)
            #expect(clocks.pass(1) == .accepted && clocks.watch.isCertain)
        }
    }

    @Test("A second jump restarts the ten minutes")
    func twice() {
        var clocks = Clocks()
        _ = clocks.pass(600)
        #expect(clocks.pass(1, jump: 86_400) == .jumped(86_400))
        #expect(clocks.pass(500, jump: 86_400) == .jumped(172_800))
        #expect(clocks.pass(599) == nil)
        #expect(clocks.pass(1) == .accepted)
    }

    @Test("A difference of a minute, a drift and a suspension for a year do not count as jumps")
    func noJumps() {
        var clocks = Clocks()
        _ = clocks.pass(600)
        #expect(clocks.pass(1, jump: 60) == nil && clocks.watch.isCertain)
        #expect(clocks.pass(1, jump: -60) == nil && clocks.watch.isCertain)
        for _ in 0..<1000 { #expect(clocks.pass(60, jump: 0.5) == nil && clocks.watch.isCertain) }
        #expect(clocks.pass(31_536_000) == nil && clocks.watch.isCertain)
    }

    @Test("Small steps that add up to more than a minute are a jump")
    func creeping() {
        var clocks = Clocks()
        _ = clocks.pass(600)
        #expect(clocks.pass(1, jump: 50) == nil)
        #expect(clocks.pass(1, jump: 50) == .jumped(100))
    }

    @Test("The earliest and the latest times of a clock do not crash the watch")
    func extremes() {
        for date in [Date.distantPast, .distantFuture, Date(timeIntervalSince1970: .infinity)] {
            var watch = ClockWatch(Date(timeIntervalSince1970: Self.start), nanoseconds: 0)
            #expect(watch.observe(date, nanoseconds: .max) != nil || !watch.isSteady)
        }
    }
}
