// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The time to wait before each attempt of an operation that fails repeatedly.
struct BackOff: Sendable {
    private var delay: Duration = .seconds(1)
    private static let longest: Duration = .seconds(60)

    /// Returns the time to wait before the next attempt: a second at first, then twice as long each time, up to a
    /// minute.
    mutating func next() -> Duration {
        defer { delay = min(delay * 2, Self.longest) }
        return delay
    }
}
