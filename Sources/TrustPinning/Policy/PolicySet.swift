// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The policies of an app: which hosts are pinned to what.
///
/// A host is decided by the first of these that there is:
/// 1. the pattern with exactly its name;
/// 2. of the wildcards and patterns with subdomains that match, the one with the longest name, and of two with the same
///    name the wildcard;
/// 3. what is said about unlisted hosts.
public struct PolicySet: Sendable, Hashable {
    /// What a host's rule is.
    package enum Rule: Sendable, Hashable {
        /// Pins, of a pattern, or of the default when it is nil.
        case pinned(PinningPolicy, HostPattern?)
        /// System trust alone decides: excluded, or unlisted.
        case systemTrust(HostPattern?)
        /// No policy is there, and none is allowed to be missing.
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
    /// What is done with all others.
    public let unlisted: UnlistedHosts

    private let exact: [String: Int]
    private let wildcards: [String: Int]
    private let subdomains: [String: Int]

    /// Checks and makes a set of policies.
    ///
    /// - Parameters:
    ///   - hosts: at most 4096.
    ///   - unlisted: what is done with hosts that are not in the list. There is no default for it: blocking everything
    ///     else and leaving it alone are both right for someone.
    /// - Throws: ``PolicyError`` with every problem: patterns that occur twice, exclusions from nothing.
    public init(_ hosts: [HostPolicy], unlisted: UnlistedHosts) throws(PolicyError) {
        self.hosts = hosts
        self.unlisted = unlisted
        var tables: [HostPattern.Kind: [String: Int]] = [:]
        var problems: [PolicyProblem] = []
        if hosts.count > Self.maximumHosts {
            problems.append(PolicyProblem("hosts", "there are more than \(Self.maximumHosts)"))
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
        // What is left to system trust needs no exclusions, unless a pattern takes them in.
        if unlisted == .systemTrust {
            for (index, host) in hosts.enumerated() where host.policy == nil {
                let isCovered = hosts.contains {
                    $0.policy != nil && $0.pattern.matches(host.pattern.host)
                        || $0.policy != nil && $0.pattern.host == host.pattern.host
                }
                guard !isCovered else { continue }
                problems.append(
                    PolicyProblem("hosts[\(index)]", "\(host.pattern) is excluded, but no pattern takes it in"))
            }
        }
        if !problems.isEmpty { throw PolicyError(problems) }
    }

    static let maximumHosts = 4096

    /// No host is listed, and none is accepted.
    static let refusingAll = PolicySet(noHostsBut: .refuse)

    /// No host is listed, and system trust decides about all.
    package static let systemTrustOnly = PolicySet(noHostsBut: .systemTrust)

    private init(noHostsBut unlisted: UnlistedHosts) {
        hosts = []
        self.unlisted = unlisted
        exact = [:]
        wildcards = [:]
        subdomains = [:]
    }

    /// The policy for a host; nil if it has none, because it is excluded or unlisted.
    public func policy(for host: HostName) -> PinningPolicy? {
        guard case .pinned(let policy, _) = rule(for: host) else { return nil }
        return policy
    }

    package func rule(for host: HostName) -> Rule {
        if let index = exact[host.description] { return rule(at: index) }
        if !host.isAddress {
            if let index = subdomains[host.description] {
                // Its own name is longer than that of any wildcard.
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

    /// Whether one policy with pins is for both hosts. System trust alone is not a policy: it verifies any host.
    package func areOfOnePolicy(_ host: HostName, _ other: HostName) -> Bool {
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
