// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The properties of a policy that hosts and providers need.
///
/// Other code uses them instead of comparing a policy with a case; `dev/check layering` refuses comparisons. Each
/// switch names all cases, so that a new case does not compile until every property handles it.
extension LeakPolicy {
    /// Whether a tunnel that fails keeps its leak guard until the user ends it.
    public var blocksAfterFailure: Bool {
        switch self {
        case .routeBased: false
        case .enforcedRoutes, .everything: true
        }
    }

    /// Whether only the routing table decides. No firewall blocks packets, and a program that binds to another
    /// interface bypasses the tunnel.
    package var leavesDecisionToRoutes: Bool {
        switch self {
        case .routeBased: true
        case .enforcedRoutes, .everything: false
        }
    }

    /// Whether packets are blocked from the start of a tunnel, before the provider's settings are known.
    package var holdsBeforeSettings: Bool {
        switch self {
        case .routeBased, .enforcedRoutes: false
        case .everything: true
        }
    }

    /// Whether all packets of both families are routed into the tunnel, independent of the included routes.
    package var routesEverything: Bool {
        switch self {
        case .routeBased, .enforcedRoutes: false
        case .everything: true
        }
    }

    /// Whether packets to excluded routes may bypass the tunnel.
    package var allowsExcludedRoutes: Bool {
        switch self {
        case .routeBased, .enforcedRoutes: true
        case .everything: false
        }
    }

    /// Whether a firewall blocks only packets to the tunnel's networks, and allows the rest.
    package var refusesTunnelledOnly: Bool {
        switch self {
        case .routeBased, .everything: false
        case .enforcedRoutes: true
        }
    }

    /// Whether every DNS query outside the tunnel is blocked, even for names that the tunnel's servers do not resolve.
    package var refusesAllLookups: Bool {
        switch self {
        case .routeBased, .enforcedRoutes: false
        case .everything: true
        }
    }
}
