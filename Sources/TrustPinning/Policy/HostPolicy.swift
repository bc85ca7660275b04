// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The policy for the hosts that match a pattern.
public struct HostPolicy: Sendable, Hashable {
    /// The hosts.
    public let pattern: HostPattern
    /// The policy of the hosts. `nil` excludes them from a wider pattern or the default, so that system trust decides.
    public let policy: PinningPolicy?

    /// Applies a policy to hosts.
    public init(_ pattern: HostPattern, _ policy: PinningPolicy) {
        self.pattern = pattern
        self.policy = policy
    }

    private init(excluding pattern: HostPattern) {
        self.pattern = pattern
        policy = nil
    }

    /// Excludes hosts from a wider pattern or from the default: system trust decides about them.
    public static func excluding(_ pattern: HostPattern) -> HostPolicy { HostPolicy(excluding: pattern) }
}

/// The rule for hosts that no pattern matches.
public enum UnlistedHosts: Sendable, Hashable {
    /// These hosts are refused.
    case refuse
    /// System trust decides.
    case systemTrust
    /// This policy decides.
    case pinned(PinningPolicy)
}
