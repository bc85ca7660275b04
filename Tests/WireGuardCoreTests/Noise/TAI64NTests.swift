// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@testable import WireGuardCore

private func bytes(of label: TAI64N) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: TAI64N.byteCount)
    unsafe bytes.withUnsafeMutableBytes { buffer in
        if let base = buffer.baseAddress { unsafe label.store(to: base) }
    }
    return bytes
}

private func label(_ bytes: [UInt8]) -> TAI64N? {
    unsafe bytes.withUnsafeBytes { buffer in
        unsafe buffer.baseAddress.map { unsafe TAI64N(loadingFrom: $0) }
    }
}

private let millisecond: UInt32 = 1_000_000
private let step: UInt32 = 1 << 24

@Suite("TAI64N timestamps")
struct TAI64NTests {
    @Test("The epoch is 2^62 + 10 seconds, and nanoseconds lose their low 24 bits")
    func layout() {
        #expect(bytes(of: TAI64N(WallTime(seconds: 0))) == [0x40, 0, 0, 0, 0, 0, 0, 0x0a, 0, 0, 0, 0])
        #expect(
            bytes(of: TAI64N(WallTime(seconds: 0x1_0203, nanoseconds: 999_999_999)))
                == [0x40, 0, 0, 0, 0, 1, 2, 0x0d, 0x3b, 0, 0, 0])
        #expect(bytes(of: .zero) == [UInt8](repeating: 0, count: 12))
        #expect(TAI64N(WallTime(seconds: .min)) == .zero)
        #expect(TAI64N(WallTime(seconds: -10)) > .zero)
        #expect(TAI64N(WallTime(seconds: -1)) < TAI64N(WallTime(seconds: 0)))
        #expect(TAI64N(WallTime(seconds: .max, nanoseconds: .max)) > TAI64N(WallTime(seconds: .max - 1)))
    }

    @Test("Any bytes survive loading and storing")
    func roundTrip() {
        var random = SeededGenerator(seed: 5)
        for _ in 0..<200 {
            let (a, b) = (random.bytes(12), random.bytes(12))
            #expect(label(a).map(bytes(of:)) == a)
            if let first = label(a), let second = label(b) {
                #expect((first < second) == a.lexicographicallyPrecedes(b))
            }
        }
    }

    @Test("Times 10 ms apart within a step are equal, 20 ms apart are in order", arguments: 0..<50 as Range<UInt32>)
    func whitening(_ number: UInt32) {
        let start = WallTime(seconds: 1_700_000_000, nanoseconds: number * step)
        var later = start
        later.nanoseconds += 10 * millisecond
        #expect(TAI64N(later) == TAI64N(start))
        later.nanoseconds += 10 * millisecond
        #expect(TAI64N(later) > TAI64N(start))
    }

    @Test("The next label is the clock's when that is later")
    func followsClock() {
        let now = WallTime(seconds: 1_700_000_000, nanoseconds: 500 * millisecond)
        #expect(TAI64N.next(after: nil, at: now) == TAI64N(now))
        #expect(TAI64N.next(after: .zero, at: now) == TAI64N(now))
        #expect(TAI64N.next(after: TAI64N(WallTime(seconds: 1_699_999_999)), at: now) == TAI64N(now))
    }

    @Test("Labels rise strictly while the clock stands still or goes back", arguments: [0, 1, 3_600, 1_000_000_000])
    func neverGoesBack(_ backwards: Int64) {
        let start = WallTime(seconds: 1_700_000_000, nanoseconds: 123 * millisecond)
        var last = TAI64N.next(after: nil, at: start)
        let clock = WallTime(seconds: start.seconds - backwards, nanoseconds: start.nanoseconds)
        for _ in 0..<200 {
            let next = TAI64N.next(after: last, at: clock)
            #expect(next > last)
            let stored = bytes(of: next)
            #expect(stored[9...11].allSatisfy { $0 == 0 })
            #expect(stored[8] <= 0x3b)
            last = next
        }
        // 200 steps of 16.8 ms are no more than 4 s ahead.
        #expect(last < TAI64N(WallTime(seconds: start.seconds + 4)))
    }

    @Test("A random walk of the clock never makes a label repeat")
    func randomClock() {
        var random = SeededGenerator(seed: 17)
        var last: TAI64N?
        for _ in 0..<2_000 {
            let wall = WallTime(
                seconds: 1_700_000_000 + Int64(random.int(in: -5...5)),
                nanoseconds: UInt32(random.int(in: 0...999_999_999)))
            let next = TAI64N.next(after: last, at: wall)
            if let last { #expect(next > last) }
            last = next
        }
    }

    @Test("Odd labels have a successor, and the greatest stays")
    func top() throws {
        let now = WallTime(seconds: 0)
        let odd = try #require(label([0x50, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]))
        #expect(bytes(of: .next(after: odd, at: now)) == [0x50, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0])
        let nearTop = try #require(label([UInt8](repeating: 255, count: 8) + [0x3b, 0, 0, 1]))
        let top = TAI64N.next(after: nearTop, at: now)
        #expect(top > nearTop)
        let greatest = try #require(label([UInt8](repeating: 255, count: 12)))
        #expect(TAI64N.next(after: greatest, at: now) == greatest)
    }
}
