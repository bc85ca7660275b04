// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The hosts that a policy is for.
public struct HostPattern: Sendable, Hashable, CustomStringConvertible {
    /// How a pattern matches.
    public enum Kind: Sendable, Hashable {
        /// The host itself.
        case exact
        /// Hosts with exactly one label in front of the name, and not the name itself: `*.example.com`.
        case wildcard
        /// The name itself, and all hosts below it at any depth.
        case subdomains
    }

    /// How it matches.
    public let kind: Kind
    /// The host, or the name that the hosts end with.
    public let host: HostName

    private init(_ kind: Kind, _ host: HostName) throws(HostNameError) {
        if kind != .exact {
            guard !host.isAddress else { throw HostNameError("an IP address has no subdomains") }
            guard host.parent != nil else {
                throw HostNameError("hosts below the single label \(host) belong to many owners")
            }
        }
        self.kind = kind
        self.host = host
    }

    /// One host, by name or address.
    ///
    /// - Throws: ``HostNameError`` if it is not a host.
    public static func exact(_ host: String) throws(HostNameError) -> HostPattern {
        try HostPattern(.exact, try HostName(host))
    }

    /// Hosts with one label in front of `name`, which may be written with `*.`.
    ///
    /// - Throws: ``HostNameError`` if it is not a name of two or more labels: nobody owns `*.com`.
    public static func wildcard(_ name: String) throws(HostNameError) -> HostPattern {
        try HostPattern(.wildcard, try HostName(name.hasPrefix("*.") ? String(name.dropFirst(2)) : name))
    }

    /// `name` and all hosts below it.
    ///
    /// - Throws: ``HostNameError`` if it is not a name of two or more labels.
    public static func includingSubdomains(_ name: String) throws(HostNameError) -> HostPattern {
        try HostPattern(.subdomains, try HostName(name))
    }

    /// Reads a pattern: a name with `*.` in front is a wildcard, anything else is exact.
    ///
    /// - Throws: ``HostNameError`` if it is neither.
    public init(_ text: String) throws(HostNameError) {
        guard !text.hasPrefix("*.") else {
            self = try .wildcard(text)
            return
        }
        self = try .exact(text)
    }

    /// Whether a host is one of the pattern's.
    public func matches(_ other: HostName) -> Bool {
        switch kind {
        case .exact: other == host
        case .wildcard: other.parent == Substring(host.description)
        case .subdomains: other == host || !other.isAddress && other.description.hasSuffix("." + host.description)
        }
    }

    /// The name, with `*.` in front of a wildcard's and `**.` in front of one that includes subdomains.
    public var description: String {
        switch kind {
        case .exact: host.description
        case .wildcard: "*.\(host)"
        case .subdomains: "**.\(host)"
        }
    }
}
