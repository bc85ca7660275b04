// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing

@testable import WireGuardCore

private func at(_ milliseconds: Int64) -> Instant {
    Instant(nanoseconds: 5_000_000_000_000 + milliseconds * 1_000_000)
}

private func v4(_ value: UInt32) -> IPAddress { IPAddress.v4(value) }

@Suite("Source rate limiter")
struct SourceRateLimiterTests {
    private static let sources: [IPAddress] =
        [0x7f00_0001, 0xc0a8_0101, 0x0102_0304, 0x0a00_0001, 0xac10_0001, 0xc633_6401, 0xffff_ffff].map(v4)
        + [0x2001_0db8, 0x2001_0db9, 0xfd00_0000, 0xfe80_0000, 0x2600_1900, 0x2a00_1450, 0x2400_cb00].map {
            IPAddress.v6($0 << 32, 1)
        }

    @Test("Fourteen concurrent sources each get a burst of 5 and then 20 per second")
    func burstAndRefill() {
        #expect(Self.sources.count == 14)
        var limiter = SourceRateLimiter()
        // The wait before each message, in milliseconds, and what becomes of it: a token comes every 50 ms.
        let script: [(wait: Int64, isAllowed: Bool)] = [
            (0, true), (0, true), (0, true), (0, true), (0, true), (0, false), (0, false),
            (49, false), (1, true), (0, false),
            (100, true), (0, true), (0, false),
            (75, true), (24, false), (1, true), (0, false),
            (10_000, true), (0, true), (0, true), (0, true), (0, true), (0, false),
        ]
        var now: Int64 = 0
        for (number, step) in script.enumerated() {
            now += step.wait
            for source in Self.sources {
                #expect(limiter.allow(source, at: at(now)) == step.isAllowed, "step \(number)")
            }
        }
        #expect(limiter.count == 14)
    }

    @Test("A source that never stops is held to its rate and harms no other")
    func isolation() {
        var limiter = SourceRateLimiter()
        var allowed = 0
        for millisecond in 0..<2_000 as Range<Int64> {
            if limiter.allow(v4(1), at: at(millisecond)) { allowed += 1 }
            if millisecond % 100 == 0 { #expect(limiter.allow(v4(2), at: at(millisecond)) == true) }
        }
        // A burst of five and then one for each full 50 ms.
        #expect(allowed == 5 + 39)
    }

    @Test("An IPv6 host is identified by its /64, an IPv4 host by its whole address")
    func grouping() {
        var limiter = SourceRateLimiter()
        for low in 0..<5 as Range<UInt64> {
            let source = IPAddress.v6(0x2001_0db8_0000_0001, low &* 0x9e37_79b9_7f4a_7c15)
            #expect(limiter.allow(source, at: at(0)) == true)
        }
        #expect(limiter.allow(IPAddress.v6(0x2001_0db8_0000_0001, 77), at: at(0)) == false)
        #expect(limiter.allow(IPAddress.v6(0x2001_0db8_0000_0002, 77), at: at(0)) == true)
        #expect(limiter.count == 2)
        for last in 0..<20 as Range<UInt32> { #expect(limiter.allow(v4(0x0a00_0000 | last), at: at(0)) == true) }
        #expect(limiter.count == 22)
    }

    @Test("An IPv4 address in IPv6 clothes is the same source, and no other IPv6 address is")
    func mappedAddresses() {
        var limiter = SourceRateLimiter(burst: 1)
        #expect(limiter.allow(v4(0x0102_0304), at: at(0)) == true)
        #expect(limiter.allow(IPAddress.v6(0, 0xffff_0102_0304), at: at(0)) == false)
        #expect(limiter.allow(IPAddress.v6(0, 0xffff_0102_0305), at: at(0)) == true)
        #expect(limiter.allow(IPAddress.v6(0x0102_0304, 0), at: at(0)) == true)
    }

    @Test("Sources whose bucket is full again are forgotten")
    func stale() {
        var limiter = SourceRateLimiter()
        for source in 0..<10 as Range<UInt32> { _ = limiter.allow(v4(source), at: at(0)) }
        for _ in 0..<4 { _ = limiter.allow(v4(3), at: at(0)) }
        limiter.removeStale(at: at(49))
        #expect(limiter.count == 10)
        limiter.removeStale(at: at(50))
        #expect(limiter.count == 1)
        #expect(limiter.allow(v4(3), at: at(50)) == true)
        #expect(limiter.allow(v4(3), at: at(50)) == false)
        limiter.removeStale(at: at(299))
        #expect(limiter.count == 1)
        limiter.removeStale(at: at(300))
        #expect(limiter.count == 0)
    }

    @Test("The table keeps its bound, admits new sources and keeps those with an empty bucket")
    func bounded() {
        var limiter = SourceRateLimiter(capacity: 100)
        for _ in 0..<6 { _ = limiter.allow(v4(0), at: at(0)) }
        for source in 1..<5_000 as Range<UInt32> {
            #expect(limiter.allow(v4(source), at: at(1)) == true)
            #expect(limiter.count <= 100)
        }
        #expect(limiter.count == 100)
        #expect(limiter.allow(v4(0), at: at(2)) == false)
    }

    @Test("A clock that goes back blocks a source no longer than an empty bucket does")
    func clockGoesBack() {
        var limiter = SourceRateLimiter()
        for _ in 0..<5 { #expect(limiter.allow(v4(9), at: at(0)) == true) }
        #expect(limiter.allow(v4(9), at: at(-1_000_000)) == false)
        #expect(limiter.allow(v4(9), at: at(-1_000_000 + 50)) == true)
    }

    @Test("Settings and times at the ends of their range do not trap")
    func extremes() {
        for (perSecond, burst) in [(0, 0), (-1, -1), (.max, .max), (1, .max), (.max, 1)] {
            var limiter = SourceRateLimiter(capacity: 0, perSecond: perSecond, burst: burst)
            for time in [.min, -1, 0, .max] as [Int64] {
                _ = limiter.allow(v4(1), at: Instant(nanoseconds: time))
                _ = limiter.allow(v4(2), at: Instant(nanoseconds: time))
                limiter.removeStale(at: Instant(nanoseconds: time))
            }
            #expect(limiter.count <= 1)
        }
    }
}
