// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The pattern of hosts that a policy applies to.
public struct HostPattern: Sendable, Hashable, CustomStringConvertible {
    /// The kind of match.
    public enum Kind: Sendable, Hashable {
        /// The host itself.
        case exact
        /// Hosts with exactly one label before the name, and not the name itself: `*.example.com`.
        case wildcard
        /// The name itself, and all its subdomains at any depth.
        case subdomains
    }

    /// The kind of match.
    public let kind: Kind
    /// The host, or the common parent name of the hosts.
    public let host: HostName

    private init(_ kind: Kind, _ host: HostName) throws(HostNameError) {
        if kind != .exact {
            guard !host.isAddress else { throw HostNameError("an IP address has no subdomains") }
            guard host.parent != nil else {
                throw HostNameError("a pattern needs two or more labels: hosts below \(host) have many owners")
            }
        }
        self.kind = kind
        self.host = host
    }

    /// Creates a pattern for one host, by name or address.
    ///
    /// - Throws: ``HostNameError`` if it is not a host.
    public static func exact(_ host: String) throws(HostNameError) -> HostPattern {
        try HostPattern(.exact, try HostName(host))
    }

    /// Creates a pattern for hosts with one label before `name`, which may start with `*.`.
    ///
    /// - Throws: ``HostNameError`` if it is not a name of two or more labels: hosts below `com` have many owners.
    public static func wildcard(_ name: String) throws(HostNameError) -> HostPattern {
        try HostPattern(.wildcard, try HostName(name.hasPrefix("*.") ? String(name.dropFirst(2)) : name))
    }

    /// Creates a pattern for `name` and all its subdomains.
    ///
    /// - Throws: ``HostNameError`` if it is not a name of two or more labels.
    public static func includingSubdomains(_ name: String) throws(HostNameError) -> HostPattern {
        try HostPattern(.subdomains, try HostName(name))
    }

    /// Reads a pattern: text that starts with `*.` is a wildcard, other text is an exact host.
    ///
    /// - Throws: ``HostNameError`` if it is neither.
    public init(_ text: String) throws(HostNameError) {
        guard !text.hasPrefix("*.") else {
            self = try .wildcard(text)
            return
        }
        self = try .exact(text)
    }

    /// Whether the pattern matches a host.
    public func matches(_ other: HostName) -> Bool {
        switch kind {
        case .exact: other == host
        case .wildcard: other.parent == Substring(host.description)
        case .subdomains: other == host || !other.isAddress && other.description.hasSuffix("." + host.description)
        }
    }

    /// The name, after `*.` for a wildcard, or after `**.` for a pattern that includes subdomains.
    public var description: String {
        switch kind {
        case .exact: host.description
        case .wildcard: "*.\(host)"
        case .subdomains: "**.\(host)"
        }
    }
}
