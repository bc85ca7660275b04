// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// What others undid of a tunnel's part of the network (routes, rules, addresses, its firewall), and the host made again.
public struct NetworkRepairs: Hashable, Sendable, Codable {
    /// How often something had to be made again.
    public private(set) var count = 0
    /// What the last time was about, for people; nil before there was one.
    public private(set) var last: String?

    /// None.
    public init() {}

    package mutating func note(_ text: String) {
        count += 1
        last = text
    }
}
