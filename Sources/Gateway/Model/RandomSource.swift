// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// The source of a gateway's IDs, secrets, keys and nonces. Copies share one generator; tests use a seeded one.
package struct RandomSource: RandomNumberGenerator, Sendable {
    private final class Shared: Sendable {
        let generator: Mutex<any RandomNumberGenerator & Sendable>

        init(_ generator: some RandomNumberGenerator & Sendable) { self.generator = Mutex(generator) }
    }

    private let shared: Shared

    package init(_ generator: some RandomNumberGenerator & Sendable = SystemRandomNumberGenerator()) {
        shared = Shared(generator)
    }

    package mutating func next() -> UInt64 { shared.generator.withLock { $0.next() } }

    /// Returns this number of random bytes.
    package func bytes(_ count: Int) -> [UInt8] {
        var source = self
        return (0..<count).map { _ in UInt8.random(in: 0...255, using: &source) }
    }
}
