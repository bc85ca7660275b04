// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// What is done with some hosts.
public struct HostPolicy: Sendable, Hashable {
    /// The hosts.
    public let pattern: HostPattern
    /// Their policy. Nil: they are excluded from what a wider pattern, or the default, says, and system trust decides.
    public let policy: PinningPolicy?

    /// Pins hosts.
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

/// What is done with hosts that no pattern matches.
public enum UnlistedHosts: Sendable, Hashable {
    /// They are refused.
    case refuse
    /// System trust decides.
    case systemTrust
    /// This policy decides.
    case pinned(PinningPolicy)
}
