// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Small random delays that separate the timers of many peers (WireGuard paper, section 6.1). Fast, and not secret.
struct JitterSource: Sendable {
    private var state: UInt64

    /// A separate sequence for each seed.
    init(seed: UInt64) {
        state = seed
    }

    /// Returns a number from 0 to `bound`, both included. The numbers are uniformly distributed, as far as 64 bits
    /// permit.
    mutating func next(upTo bound: Int64) -> Int64 {
        // SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        word ^= word >> 31
        return Int64(word.multipliedFullWidth(by: UInt64(max(bound, 0)) + 1).high)
    }
}
