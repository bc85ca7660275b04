// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The repairs of a tunnel's network (routes, rules, addresses, firewall) after changes by other processes.
public struct NetworkRepairs: Hashable, Sendable, Codable {
    /// The number of repairs.
    public private(set) var count = 0
    /// The last repair, as text for users; `nil` before the first.
    public private(set) var last: String?

    /// No repairs.
    public init() {}

    package mutating func record(_ text: String) {
        count += 1
        last = text
    }
}
