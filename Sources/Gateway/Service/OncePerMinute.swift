// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

/// A minute in nanoseconds.
let nanosecondsPerMinute: Int64 = 60_000_000_000

/// A limit of one event a minute for each key.
struct OncePerMinute<Key: Hashable & Sendable>: Sendable {
    private var times: BoundedTable<Key, Int64>

    /// - Parameter capacity: The number of keys that are remembered.
    init(capacity: Int) { times = BoundedTable(capacity: capacity) }

    /// Records an event if it is allowed.
    /// - Returns: Whether the event is allowed: a minute has passed since the key's last allowed event.
    mutating func allows(_ key: Key, at now: Int64) -> Bool {
        if let last = times[key], now - last < nanosecondsPerMinute { return false }
        times[key] = now
        return true
    }
}
