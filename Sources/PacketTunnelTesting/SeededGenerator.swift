// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A generator of reproducible random numbers: the same seed gives the same sequence on every platform and in every
/// release.
///
/// The generator is xoshiro256** by Blackman and Vigna, seeded through SplitMix64. It is fast and well distributed. It
/// must not be used for keys outside of tests.
public struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: (UInt64, UInt64, UInt64, UInt64)

    /// Creates a generator whose sequence is determined by `seed`.
    public init(seed: UInt64) {
        var counter = seed
        func splitMix() -> UInt64 {
            counter &+= 0x9e37_79b9_7f4a_7c15
            var mixed = counter
            mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
            return mixed ^ (mixed >> 31)
        }
        state = (splitMix(), splitMix(), splitMix(), splitMix())
    }

    /// Creates a generator with a given state of xoshiro256**, to compare it with published outputs.
    package init(state: (UInt64, UInt64, UInt64, UInt64)) {
        self.state = state
    }

    /// The next 64 random bits.
    public mutating func next() -> UInt64 {
        let product = state.1 &* 5
        let result = (product << 7 | product >> 57) &* 9
        let shifted = state.1 << 17
        state.2 ^= state.0
        state.3 ^= state.1
        state.1 ^= state.2
        state.0 ^= state.3
        state.2 ^= shifted
        state.3 = state.3 << 45 | state.3 >> 19
        return result
    }

    /// A number from 0 up to, but not including, 1, with 53 random bits.
    public mutating func nextDouble() -> Double {
        Double(next() >> 11) * 0x1p-53
    }

    /// Returns `true` with the given probability: never at 0 or below, always at 1 or above.
    public mutating func chance(_ probability: Double) -> Bool {
        nextDouble() < probability
    }

    /// A number from the range, each equally likely.
    ///
    /// Unlike the standard library's `random(in:using:)`, this method will always map the generator's output in the
    /// same way.
    public mutating func int(in range: ClosedRange<Int>) -> Int {
        let width = UInt64(bitPattern: Int64(range.upperBound) &- Int64(range.lowerBound))
        guard width < .max else { return Int(truncatingIfNeeded: next()) }
        let count = width + 1
        // The largest multiple of `count` below 2^64. Values from there on are rejected, because they would favour
        // small results.
        let limit = UInt64.max - UInt64.max % count
        var drawn = next()
        while drawn >= limit { drawn = next() }
        return range.lowerBound &+ Int(truncatingIfNeeded: drawn % count)
    }

    /// A number from the range, which must not be empty, each equally likely.
    public mutating func int(in range: Range<Int>) -> Int {
        int(in: range.lowerBound...(range.upperBound - 1))
    }

    /// `count` random bytes.
    public mutating func bytes(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count)
        while bytes.count < count {
            var word = next()
            for _ in 0..<min(8, count - bytes.count) {
                bytes.append(UInt8(truncatingIfNeeded: word))
                word >>= 8
            }
        }
        return bytes
    }
}
