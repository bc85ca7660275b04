// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import WireGuardCore

/// The share of each source (``NetworkAddresses/IPAddress/sourceNetwork``) in the notices that a server sends.
///
/// Anyone can cause a notice, from any address. A fixed number of buckets therefore bounds the memory and the sum of all
/// notices. A hash with the process's own key selects a source's bucket, so that an attacker cannot choose sources that
/// share one.
struct NoticeLimiter {
    private let count: Int
    private var buckets: TokenBuckets<Int>

    init(_ limits: ServerLimits) {
        count = max(limits.noticeSources, 1)
        buckets = TokenBuckets(capacity: count, perSecond: limits.noticesPerSecond, burst: limits.noticeBurst)
    }

    /// Takes a notice from the share of `source`, and returns whether one was left.
    mutating func allow(_ source: IPAddress, at now: Instant) -> Bool {
        var hasher = Hasher()
        hasher.combine(source.sourceNetwork)
        return buckets.allow(Int(UInt(bitPattern: hasher.finalize()) % UInt(count)), at: now)
    }
}
