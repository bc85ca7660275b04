// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing
import TunnelSystem

private let second: Int64 = 1_000_000_000

@Suite struct LoginLimiterTests {
    private let anna = "anna"

    @Test(
        "After a few failures each further one doubles the wait, up to a limit, and attempts within it change nothing")
    func grows() throws {
        var limiter = LoginLimiter()
        let source = try IPAddress("192.0.2.7")
        var now: Int64 = 0
        var waits: [Int64] = []
        for _ in 0..<18 {
            limiter.failed(from: source, as: anna, at: now)
            let wait = limiter.wait(from: source, as: anna, at: now)
            waits.append(wait / second)
            now += wait
        }
        #expect(waits == [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300])
        // Calls that ask for the wait do not extend it.
        #expect(limiter.wait(from: source, as: anna, at: now) == 0)
    }

    @Test("Failures from elsewhere do not delay a login where it succeeded recently")
    func knownSources() throws {
        var limiter = LoginLimiter()
        let home = try IPAddress("2001:db8:1::5")
        limiter.succeeded(from: home, as: anna, at: 0)
        for number in 0..<200 {
            limiter.failed(from: .v4(UInt32(0xc000_0200) + UInt32(number)), as: anna, at: 0)
        }
        #expect(limiter.wait(from: home, as: anna, at: 0) == 0)
        // The same network, another machine in it.
        #expect(limiter.wait(from: try IPAddress("2001:db8:1::6"), as: anna, at: 0) == 0)
        // A source without a failure does not wait; a source with one failure waits, but not for long.
        let elsewhere = try IPAddress("198.51.100.1")
        #expect(limiter.wait(from: elsewhere, as: anna, at: 0) == 0)
        limiter.failed(from: elsewhere, as: "ben", at: 0)
        #expect(limiter.wait(from: elsewhere, as: anna, at: 0) == 15 * second)
        #expect(limiter.wait(from: elsewhere, as: "ben", at: 0) == 0)
    }

    @Test("A login that has succeeded from a source recently does not wait for the failures of its neighbours there")
    func neighbours() throws {
        var limiter = LoginLimiter()
        let home = try IPAddress("192.0.2.7")
        limiter.succeeded(from: home, as: anna, at: 0)
        for number in 0..<40 as Range<Int64> { limiter.failed(from: home, as: "ben", at: number * 300 * second) }
        let now = 39 * 300 * second
        #expect(limiter.wait(from: home, as: "ben", at: now) == 300 * second)
        #expect(limiter.wait(from: home, as: "cleo", at: now) == 300 * second)
        #expect(limiter.wait(from: home, as: anna, at: now) == 0)
        #expect(limiter.isKnown(anna, from: home, at: now) && !limiter.isKnown("ben", from: home, at: now))
    }

    @Test(
        "A login that has succeeded from a source waits for its own failures there, and for no longer than for those of a login"
    )
    func ownFailures() throws {
        var limiter = LoginLimiter()
        let home = try IPAddress("192.0.2.7")
        limiter.succeeded(from: home, as: anna, at: 0)
        var waits: [Int64] = []
        for number in 0..<12 as Range<Int64> {
            limiter.failed(from: home, as: anna, at: number * 60 * second)
            waits.append(limiter.wait(from: home, as: anna, at: number * 60 * second) / second)
        }
        #expect(waits == [0, 0, 0, 0, 0, 1, 2, 4, 8, 15, 15, 15])
        // Its neighbours do not wait for these.
        #expect(limiter.wait(from: home, as: "ben", at: 11 * 60 * second) == 0)
        limiter.succeeded(from: home, as: anna, at: 0)
        #expect(limiter.wait(from: home, as: anna, at: 11 * 60 * second) == 0)
    }

    @Test("The longest times that settings allow do not overflow")
    func longest() throws {
        let tenYears = 315_360_000
        var limiter = LoginLimiter(
            LoginLimiter.Limits(
                free: 1, longestSourceWait: tenYears, longestLoginWait: tenYears, memory: tenYears))
        let source = try IPAddress("192.0.2.7")
        for number in 0..<40 as Range<Int64> { limiter.failed(from: source, as: "anna", at: number) }
        #expect(limiter.wait(from: source, as: "anna", at: 40) > 0)
    }

    @Test("Successes are limited to twice the sessions that a user has, for each minute and login")
    func successes() throws {
        var limiter = LoginLimiter(successes: LoginLimiter.Successes(sessionsPerUser: 10))
        let home = try IPAddress("192.0.2.7")
        var count = 0
        for tenth in 0..<600 as Range<Int64> {
            let now = tenth * second / 10
            guard limiter.wait(from: home, as: anna, at: now) == 0 else { continue }
            limiter.succeeded(from: home, as: anna, at: now)
            limiter.charge(anna, at: now)
            count += 1
        }
        // Twenty at the beginning, and twenty more in the minute.
        #expect((39...40).contains(count), "\(count)")
        #expect(limiter.wait(from: home, as: "ben", at: 60 * second) == 0)
        #expect(limiter.wait(from: home, as: anna, at: 120 * second) == 0)
    }

    @Test("A source is known for seven days after a success, and then the login waits there as anywhere else")
    func forgetsVisitors() throws {
        var limiter = LoginLimiter()
        let home = try IPAddress("192.0.2.7")
        let day = 24 * 3600 * second
        limiter.succeeded(from: home, as: anna, at: day)
        #expect(limiter.isKnown(anna, from: home, at: 8 * day - 1))
        // Its failures do not make it known for longer.
        limiter.failed(from: home, as: anna, at: 7 * day)
        #expect(!limiter.isKnown(anna, from: home, at: 8 * day))
        for _ in 0..<8 { limiter.failed(from: home, as: "ben", at: 8 * day - 1) }
        #expect(limiter.wait(from: home, as: anna, at: 8 * day - 1) == 0)
        #expect(limiter.wait(from: home, as: anna, at: 8 * day) > 0)
        limiter.failed(from: home, as: anna, at: 8 * day)
        #expect(!limiter.isKnown(anna, from: home, at: 8 * day))
        limiter.succeeded(from: home, as: anna, at: 8 * day)
        #expect(limiter.isKnown(anna, from: home, at: 8 * day) && limiter.wait(from: home, as: anna, at: 8 * day) == 0)
    }

    @Test("An IPv6 network of 64 bits is one source, and so is an IPv4 address that is mapped into IPv6")
    func sources() throws {
        var limiter = LoginLimiter()
        for number in 1...10 {
            limiter.failed(from: try IPAddress("2001:db8::\(number)"), as: "user\(number)", at: 0)
            limiter.failed(from: try IPAddress("::ffff:192.0.2.1"), as: "other\(number)", at: 0)
        }
        #expect(limiter.wait(from: try IPAddress("2001:db8::99"), as: "new", at: 0) > 0)
        #expect(limiter.wait(from: try IPAddress("2001:db8:0:1::99"), as: "new", at: 0) == 0)
        #expect(limiter.wait(from: try IPAddress("192.0.2.1"), as: "new", at: 0) > 0)
    }

    @Test("A successful login does not allow unlimited guesses at other logins")
    func ownLogin() throws {
        var limiter = LoginLimiter()
        let source = try IPAddress("192.0.2.7")
        for round in 0..<4 {
            for number in 0..<5 { limiter.failed(from: source, as: "victim\(round)-\(number)", at: 0) }
            let isLate = limiter.wait(from: source, as: "victim", at: 0) > 0
            #expect(isLate == (round > 0), "\(round)")
            limiter.succeeded(from: source, as: anna, at: 0)
            #expect(limiter.wait(from: source, as: anna, at: 0) == 0)
        }
    }

    @Test("Failures are forgotten after a while, and after a success its source waits no longer")
    func forgets() throws {
        var limiter = LoginLimiter()
        let source = try IPAddress("192.0.2.7")
        for _ in 0..<8 { limiter.failed(from: source, as: anna, at: 0) }
        limiter.failed(from: source, as: anna, at: 901 * second)
        #expect(limiter.wait(from: source, as: anna, at: 901 * second) == 0)
        for _ in 0..<8 { limiter.failed(from: source, as: anna, at: 901 * second) }
        limiter.succeeded(from: source, as: anna, at: 0)
        #expect(limiter.wait(from: source, as: anna, at: 901 * second) == 0)
    }

    @Test("Millions of sources and logins make it no larger than it is allowed to be")
    func bounded() {
        var limiter = LoginLimiter(capacity: 100)
        for number in 0..<20_000 as Range<UInt32> {
            limiter.failed(from: .v4(number), as: "login\(number)", at: 0)
            limiter.succeeded(from: .v4(number), as: "login\(number)", at: 0)
        }
        #expect(limiter.counts.sources <= 100 && limiter.counts.logins <= 100 && limiter.counts.known <= 100)
    }

    @Test("A frequent event is logged a few times a minute, with the number of omitted ones")
    func log() {
        var log = BoundedLog(most: 2)
        var lines: [String] = []
        for number in 0..<1000 { lines += log.lines("refusal \(number)", at: Int64(number) * second / 100) }
        #expect(lines == ["refusal 0", "refusal 1"])
        lines = log.lines("later", at: 61 * second)
        #expect(lines == ["998 more were refused meanwhile", "later"])
    }
}
