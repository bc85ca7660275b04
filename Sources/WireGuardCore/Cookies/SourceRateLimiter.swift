// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// Token buckets by the source of handshake messages (``NetworkAddresses/IPAddress/sourceNetwork``).
///
/// Use it only after mac2 has proved that the source can receive at its address (WireGuard paper, section 5.3). Then an
/// attacker with forged addresses gets no entry, and each entry is a real host.
package struct SourceRateLimiter: Sendable {
    private var buckets: TokenBuckets<IPPrefix>

    /// Creates a limiter that allows each source bursts of `burst` messages and `perSecond` on average, and stores at most
    /// `capacity` sources. Values below one count as one.
    package init(capacity: Int = 16_384, perSecond: Int = 20, burst: Int = 5) {
        buckets = TokenBuckets(capacity: capacity, perSecond: perSecond, burst: burst)
    }

    /// The number of stored sources.
    package var count: Int { buckets.count }

    /// Takes a token from the bucket of `source`. Returns `false` if there is none.
    package mutating func allow(_ source: IPAddress, at now: Instant) -> Bool {
        buckets.allow(source.sourceNetwork, at: now)
    }

    /// Removes the sources with a full bucket, which equals that of a new source.
    /// - Parameter most: The number of sources to check; the next call continues after them.
    /// - Returns: Whether the last source was checked.
    @discardableResult
    package mutating func removeStale(at now: Instant, lookingAt most: Int = .max) -> Bool {
        buckets.removeStale(at: now, lookingAt: most)
    }
}
