// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import WireGuardCore

@Suite("Token buckets")
struct TokenBucketsTests {
    @Test("Each key has its own burst and rate")
    func keys() {
        var buckets = TokenBuckets<String>(capacity: 10, perSecond: 2, burst: 5)
        func allowed(_ key: String, at milliseconds: Int64, _ count: Int) -> Int {
            (0..<count).count { _ in buckets.allow(key, at: Instant(nanoseconds: milliseconds * 1_000_000)) }
        }
        #expect(allowed("a", at: 0, 10) == 5 && allowed("b", at: 0, 3) == 3)
        #expect(allowed("a", at: 499, 10) == 0 && allowed("a", at: 500, 10) == 1)
        #expect(allowed("a", at: 1500, 10) == 2 && allowed("b", at: 1500, 10) == 5)
        #expect(buckets.count == 2)
    }
}
