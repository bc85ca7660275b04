// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

private let second: Int64 = 1_000_000_000

/// Limits failed logins with increasing waits. It has no clock: the caller passes the time.
///
/// Failures are counted for each source (an address, or an IPv6 network of 64 bits) and for each login. After a few failures,
/// attempts must wait: each further failure doubles the time, up to a limit. An attempt that comes too early is refused
/// unchecked and does not count, so a wait ends in any case, and the right password works after it. No user is locked out: a
/// source without failures does not wait for the failures of that login elsewhere.
///
/// A login that has succeeded from a source in the last seven days waits only for its own failures there, and for at most
/// ``Limits/longestLoginWait``. The failures of other logins there, and its failures elsewhere, do not delay it.
///
/// All times are nanoseconds of one monotonic clock that counts while the machine sleeps.
///
/// Successes are limited too, if ``Successes`` are given: each one costs as much as a failure.
package struct LoginLimiter: Sendable {
    package struct Limits: Hashable, Sendable, Codable {
        /// The failures without a wait.
        package var free = 5
        /// The longest wait of a source, in seconds.
        package var longestSourceWait = 300
        /// The longest wait of a login, in seconds. It is short, since other people can cause it.
        package var longestLoginWait = 15
        /// The time for which failures count, in seconds from the last one.
        package var memory = 900

        package init(
            free: Int = 5, longestSourceWait: Int = 300, longestLoginWait: Int = 15, memory: Int = 900
        ) {
            self.free = free
            self.longestSourceWait = longestSourceWait
            self.longestLoginWait = longestLoginWait
            self.memory = memory
        }
    }

    /// The limit of a login's successes: a token bucket.
    package struct Successes: Hashable, Sendable {
        /// The time after which a success no longer counts, in nanoseconds.
        fileprivate let interval: Int64
        fileprivate let depth: Int64

        /// Creates a limit of twice the number of a user's sessions, both for each minute and without a pause, since
        /// each session may begin again after its server or network has failed.
        /// - Parameter sessionsPerUser: The number of sessions, up to a million; fewer than five count as five.
        package init(sessionsPerUser: Int) {
            let count = 2 * Int64(min(max(sessionsPerUser, 5), 1_000_000))
            interval = 60 * second / count
            depth = interval * count
        }
    }

    private struct Failures {
        var count = 0
        var until: Int64 = 0
        var last: Int64 = 0
    }

    /// The last success of a login from a source, with its failures there since.
    private struct Visit {
        var success: Int64
        var failures = Failures()
    }

    private struct Visitor: Hashable {
        var login: Int
        var source: IPPrefix
    }

    private let limits: Limits
    private let successes: Successes?
    private var sources: BoundedTable<IPPrefix, Failures>
    /// The failures of each login. The key is a hash of the login, seeded for this process: the typed text is not
    /// stored.
    private var logins: BoundedTable<Int, Failures>
    private var known: BoundedTable<Visitor, Visit>
    /// The time from which earlier successes of a login no longer count.
    private var spent: BoundedTable<Int, Int64>

    /// The time for which a success makes its source known, in nanoseconds: seven days. A user who logs in on working days stays known
    /// over a weekend; an address that another user has got since does not.
    package static let knownLifetime = 7 * 24 * 3600 * second

    /// - Parameter successes: `nil` for no limit.
    package init(_ limits: Limits = Limits(), successes: Successes? = nil, capacity: Int = 16_384) {
        self.limits = limits
        self.successes = successes
        sources = BoundedTable(capacity: capacity)
        logins = BoundedTable(capacity: capacity)
        known = BoundedTable(capacity: capacity)
        spent = BoundedTable(capacity: capacity)
    }

    /// Whether a login has succeeded from a source in the last seven days (``knownLifetime``).
    package func isKnown(_ login: String, from address: IPAddress, at now: Int64) -> Bool {
        visit(Visitor(login: login.hashValue, source: address.sourceNetwork), at: now) != nil
    }

    private func visit(_ visitor: Visitor, at now: Int64) -> Visit? {
        known[visitor].flatMap { now - $0.success < Self.knownLifetime ? $0 : nil }
    }

    /// The numbers of sources, logins and visitors in the tables.
    package var counts: (sources: Int, logins: Int, known: Int) { (sources.count, logins.count, known.count) }

    /// Returns the time that an attempt must wait, in nanoseconds; zero if it need not wait.
    package func wait(from address: IPAddress, as login: String, at now: Int64) -> Int64 {
        let (source, login) = (address.sourceNetwork, login.hashValue)
        var until: Int64 = 0
        if let own = visit(Visitor(login: login, source: source), at: now)?.failures {
            if !isForgotten(own, at: now) { until = own.until }
        } else if let own = sources[source], !isForgotten(own, at: now) {
            until = max(own.until, logins[login]?.until ?? 0)
        }
        if let successes, let fullAt = spent[login] {
            until = max(until, fullAt + successes.interval - successes.depth)
        }
        return max(until - now, 0)
    }

    /// Records a failed attempt: a wrong password, or an unknown login.
    package mutating func failed(from address: IPAddress, as login: String, at now: Int64) {
        let (source, login) = (address.sourceNetwork, login.hashValue)
        let visitor = Visitor(login: login, source: source)
        if var own = visit(visitor, at: now) {
            own.failures = failure(after: own.failures, limits.longestLoginWait, at: now)
            known[visitor] = own
        } else {
            known[visitor] = nil
            sources[source] = failure(after: sources[source], limits.longestSourceWait, at: now)
        }
        logins[login] = failure(after: logins[login], limits.longestLoginWait, at: now)
    }

    private func failure(after before: Failures?, _ longest: Int, at now: Int64) -> Failures {
        let count = (before.map { isForgotten($0, at: now) ? 0 : $0.count } ?? 0) + 1
        let doublings = min(max(count - limits.free - 1, 0), 30)
        let seconds = count > limits.free ? min(1 << doublings, max(longest, 1)) : 0
        return Failures(count: count, until: now + Int64(seconds) * second, last: now)
    }

    private func isForgotten(_ failures: Failures, at now: Int64) -> Bool {
        now - failures.last > Int64(limits.memory) * second
    }

    /// Records a successful login. The earlier failures of its source no longer delay this login. They still delay
    /// other logins, since the same user may be guessing their passwords.
    package mutating func succeeded(from address: IPAddress, as login: String, at now: Int64) {
        known[Visitor(login: login.hashValue, source: address.sourceNetwork)] = Visit(success: now)
    }

    /// Charges a login for a success.
    package mutating func charge(_ login: String, at now: Int64) {
        guard let successes else { return }
        spent[login.hashValue] = max(spent[login.hashValue] ?? now, now) + successes.interval
    }
}
