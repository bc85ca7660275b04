// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The questions that hosts and providers ask a policy.
///
/// Other code asks them instead of comparing a policy with a case; `dev/check layering` refuses comparisons. Each switch
/// here names all cases, so that a new case does not compile until it has an answer to each question.
extension LeakPolicy {
    /// Whether a tunnel that fails leaves its leak guard in place until the user ends it.
    public var blocksAfterFailure: Bool {
        switch self {
        case .routeBased: false
        case .enforcedRoutes, .everything: true
        }
    }

    /// Whether the routing table alone decides: no firewall refuses packets, and a program that binds to another interface gets
    /// around the tunnel.
    package var leavesDecisionToRoutes: Bool {
        switch self {
        case .routeBased: true
        case .enforcedRoutes, .everything: false
        }
    }

    /// Whether packets are held back from the start of a tunnel, before its provider's settings are known.
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

    /// Whether packets to excluded routes pass outside of the tunnel.
    package var allowsExcludedRoutes: Bool {
        switch self {
        case .routeBased, .enforcedRoutes: true
        case .everything: false
        }
    }

    /// Whether a firewall refuses only packets to the tunnel's networks, and lets the rest pass.
    package var refusesTunnelledOnly: Bool {
        switch self {
        case .routeBased, .everything: false
        case .enforcedRoutes: true
        }
    }

    /// Whether every name lookup outside of the tunnel is refused, even one that the tunnel's servers would not answer.
    package var refusesAllLookups: Bool {
        switch self {
        case .routeBased, .enforcedRoutes: false
        case .everything: true
        }
    }
}
