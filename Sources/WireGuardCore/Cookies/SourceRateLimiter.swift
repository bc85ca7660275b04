// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// A token bucket for each source of handshake messages (``NetworkAddresses/IPAddress/sourceNetwork``).
///
/// Ask only after mac2 has proved that the source can receive at its address (WireGuard paper, section 5.3): an
/// attacker who forges addresses then never gets this far, and each entry stands for a real host.
package struct SourceRateLimiter: Sendable {
    private var buckets: TokenBuckets<IPPrefix>

    /// A limiter that allows each source `burst` messages at once and `perSecond` in the long run, and remembers at
    /// most `capacity` sources. Values below one count as one.
    package init(capacity: Int = 16_384, perSecond: Int = 20, burst: Int = 5) {
        buckets = TokenBuckets(capacity: capacity, perSecond: perSecond, burst: burst)
    }

    /// The number of sources remembered.
    package var count: Int { buckets.count }

    /// Takes a token from the bucket of `source`; false when there is none.
    package mutating func allow(_ source: IPAddress, at now: Instant) -> Bool {
        buckets.allow(source.sourceNetwork, at: now)
    }

    /// Forgets the sources whose bucket is full, as a new source's would be.
    /// - Parameter most: how many are looked at; the next call goes on behind them.
    /// - Returns: whether the last one was looked at.
    @discardableResult
    package mutating func removeStale(at now: Instant, lookingAt most: Int = .max) -> Bool {
        buckets.removeStale(at: now, lookingAt: most)
    }
}
