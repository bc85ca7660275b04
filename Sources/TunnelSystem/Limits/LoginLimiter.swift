// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// How many failed logins there may be, and how long is waited after more. A value without a clock.
///
/// Failures are counted for each source (an address, or an IPv6 network of 64 bits) and for each login. After a few, attempts
/// wait: each further failure doubles the time, up to a limit. Attempts that come too early are refused unlooked at, and count
/// for nothing: a wait ends, whoever knocks, and the right password works after it. Nobody is locked out: a source that has not
/// failed itself, or that the login succeeded from lately, does not wait for what others do to that login.
package struct LoginLimiter: Sendable {
    package struct Limits: Hashable, Sendable, Codable {
        /// Failures that nobody waits for.
        package var free = 5
        /// The longest wait of a source, in seconds.
        package var longestSourceWait = 300
        /// The longest wait of a login, in seconds. Short: strangers can cause it.
        package var longestLoginWait = 15
        /// How long failures are remembered, in seconds from the last one on.
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

    private struct Failures {
        var count: Int
        var until: Int64
        var last: Int64
    }

    private enum Source: Hashable {
        case address(UInt32)
        case network(UInt64)

        init(_ address: IPAddress) {
            let value = address.value
            // An IPv4 address that was mapped into IPv6 is that address.
            if !address.isIPv6 || value >> 32 == 0xffff {
                self = .address(UInt32(truncatingIfNeeded: value))
            } else {
                self = .network(UInt64(truncatingIfNeeded: value >> 64))
            }
        }
    }

    private struct Visitor: Hashable {
        var login: Int
        var source: Source
    }

    private let limits: Limits
    private var sources: BoundedTable<Source, Failures>
    /// By the hash of a login, seeded for this process: what somebody typed is not kept.
    private var logins: BoundedTable<Int, Failures>
    /// Where logins succeeded from lately.
    private var known: BoundedTable<Visitor, Bool>

    package init(_ limits: Limits = Limits(), capacity: Int = 16_384) {
        self.limits = limits
        sources = BoundedTable(capacity: capacity)
        logins = BoundedTable(capacity: capacity)
        known = BoundedTable(capacity: capacity)
    }

    /// How many sources, logins and visitors are remembered.
    package var counts: (sources: Int, logins: Int, known: Int) { (sources.count, logins.count, known.count) }

    private static let second: Int64 = 1_000_000_000

    /// How long an attempt has to wait, in nanoseconds; zero for not at all.
    package func wait(from address: IPAddress, as login: String, at now: Int64) -> Int64 {
        let source = Source(address)
        guard let own = sources[source], !isForgotten(own, at: now) else { return 0 }
        var until = own.until
        if known[Visitor(login: login.hashValue, source: source)] == nil {
            until = max(until, logins[login.hashValue]?.until ?? 0)
        }
        return max(until - now, 0)
    }

    /// Notes that a password was wrong, or a login unknown.
    package mutating func failed(from address: IPAddress, as login: String, at now: Int64) {
        let source = Source(address)
        sources[source] = failure(after: sources[source], limits.longestSourceWait, at: now)
        logins[login.hashValue] = failure(after: logins[login.hashValue], limits.longestLoginWait, at: now)
    }

    private func failure(after before: Failures?, _ longest: Int, at now: Int64) -> Failures {
        let count = (before.map { isForgotten($0, at: now) ? 0 : $0.count } ?? 0) + 1
        let doublings = min(max(count - limits.free - 1, 0), 30)
        let seconds = count > limits.free ? min(1 << doublings, max(longest, 1)) : 0
        return Failures(count: count, until: now + Int64(seconds) * Self.second, last: now)
    }

    private func isForgotten(_ failures: Failures, at now: Int64) -> Bool {
        now - failures.last > Int64(limits.memory) * Self.second
    }

    /// Notes a login that was good. Its source waits no longer, but what failed before still counts: who has one login may be
    /// guessing at others.
    package mutating func succeeded(from address: IPAddress, as login: String) {
        let source = Source(address)
        sources[source]?.until = 0
        known[Visitor(login: login.hashValue, source: source)] = true
    }
}
