// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The changes of a tunnel's network (routes, rules, addresses, its firewall) by other processes that the host repaired.
public struct NetworkRepairs: Hashable, Sendable, Codable {
    /// How often something had to be made again.
    public private(set) var count = 0
    /// The last repair, for people; `nil` before the first.
    public private(set) var last: String?

    /// None.
    public init() {}

    package mutating func record(_ text: String) {
        count += 1
        last = text
    }
}
