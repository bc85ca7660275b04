// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// How long to wait before each try of something that fails again and again.
struct BackOff: Sendable {
    private var delay: Duration = .seconds(1)
    private static let longest: Duration = .seconds(60)

    /// The time to wait before the next try: twice as long each time, up to a minute.
    mutating func next() -> Duration {
        defer { delay = min(delay * 2, Self.longest) }
        return delay
    }
}
