// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The policies of an app: its pinned hosts and their pins.
///
/// The first of these that exists decides about a host:
/// 1. the pattern for exactly its name;
/// 2. the matching wildcard or pattern with subdomains that has the longest name; for equal names, the wildcard;
/// 3. the rule for unlisted hosts.
public struct PolicySet: Sendable, Hashable {
    /// The rule for a host.
    package enum Rule: Sendable, Hashable {
        /// Pins of a pattern, or of the default if the pattern is `nil`.
        case pinned(PinningPolicy, HostPattern?)
        /// System trust alone decides: the host is excluded, or unlisted if the pattern is `nil`.
        case systemTrust(HostPattern?)
        /// The host has no policy, and such hosts are refused.
        case missing

        package var pattern: HostPattern? {
            switch self {
            case .pinned(_, let pattern), .systemTrust(let pattern): pattern
            case .missing: nil
            }
        }
    }

    /// The hosts with a policy.
    public let hosts: [HostPolicy]
    /// The rule for all other hosts.
    public let unlisted: UnlistedHosts

    private let exact: [String: Int]
    private let wildcards: [String: Int]
    private let subdomains: [String: Int]

    /// Creates a set of policies after checking it.
    ///
    /// - Parameters:
    ///   - hosts: The hosts with a policy; at most 4096.
    ///   - unlisted: The rule for hosts that are not in the list. It has no default, since some apps must refuse all
    ///     other hosts and some must not restrict them.
    /// - Throws: ``PolicyError`` with all problems, such as repeated patterns and exclusions from nothing.
    public init(_ hosts: [HostPolicy], unlisted: UnlistedHosts) throws(PolicyError) {
        self.hosts = hosts
        self.unlisted = unlisted
        var tables: [HostPattern.Kind: [String: Int]] = [:]
        var problems: [PolicyProblem] = []
        if hosts.count > Self.maximumHosts {
            problems.append(PolicyProblem("hosts", "must have at most \(Self.maximumHosts) elements"))
        }
        for (index, host) in hosts.enumerated() {
            let pattern = host.pattern
            if let first = tables[pattern.kind, default: [:]][pattern.host.description] {
                problems.append(PolicyProblem("hosts[\(index)].host", "\(pattern) is in hosts[\(first)] already"))
            } else {
                tables[pattern.kind, default: [:]][pattern.host.description] = index
            }
        }
        exact = tables[.exact] ?? [:]
        wildcards = tables[.wildcard] ?? [:]
        subdomains = tables[.subdomains] ?? [:]
        // Unlisted hosts already use system trust, so an exclusion is only useful within a wider pattern.
        if unlisted == .systemTrust {
            for (index, host) in hosts.enumerated() where host.policy == nil {
                let isCovered = hosts.contains {
                    $0.policy != nil && $0.pattern.matches(host.pattern.host)
                        || $0.policy != nil && $0.pattern.host == host.pattern.host
                }
                guard !isCovered else { continue }
                problems.append(
                    PolicyProblem("hosts[\(index)]", "\(host.pattern) is excluded, but no pattern includes it"))
            }
        }
        if !problems.isEmpty { throw PolicyError(problems) }
    }

    static let maximumHosts = 4096

    /// A set without listed hosts that refuses all hosts.
    static let refusingAll = PolicySet(noHostsBut: .refuse)

    /// A set without listed hosts in which system trust decides about all hosts.
    package static let systemTrustOnly = PolicySet(noHostsBut: .systemTrust)

    private init(noHostsBut unlisted: UnlistedHosts) {
        hosts = []
        self.unlisted = unlisted
        exact = [:]
        wildcards = [:]
        subdomains = [:]
    }

    /// Returns the policy for a host, or `nil` if it has none, because it is excluded or unlisted.
    public func policy(for host: HostName) -> PinningPolicy? {
        guard case .pinned(let policy, _) = rule(for: host) else { return nil }
        return policy
    }

    package func rule(for host: HostName) -> Rule {
        if let index = exact[host.description] { return rule(at: index) }
        if !host.isAddress {
            if let index = subdomains[host.description] {
                // This pattern has priority: the host's own name is longer than the name of any matching wildcard.
                return rule(at: index)
            }
            var name = host.parent
            var isFirst = true
            while let suffix = name {
                if isFirst, let index = wildcards[String(suffix)] { return rule(at: index) }
                if let index = subdomains[String(suffix)] { return rule(at: index) }
                isFirst = false
                name = suffix.firstIndex(of: ".").map { suffix[suffix.index(after: $0)...] }
            }
        }
        switch unlisted {
        case .refuse: return .missing
        case .systemTrust: return .systemTrust(nil)
        case .pinned(let policy): return .pinned(policy, nil)
        }
    }

    /// Whether the same policy with pins applies to both hosts. `false` if only system trust applies to them, because
    /// it would trust any host.
    package func haveSamePolicy(_ host: HostName, _ other: HostName) -> Bool {
        switch (rule(for: host), rule(for: other)) {
        case (.pinned(let policy, _), .pinned(let otherPolicy, _)): policy == otherPolicy
        default: false
        }
    }

    private func rule(at index: Int) -> Rule {
        let host = hosts[index]
        return host.policy.map { .pinned($0, host.pattern) } ?? .systemTrust(host.pattern)
    }
}
