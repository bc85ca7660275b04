// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel

/// The names of the leak policies on the command line.
enum LeakPolicyName: String, CaseIterable, Sendable {
    case routeBased = "route-based"
    case enforced
    case everything

    init(_ policy: LeakPolicy) {
        self =
            switch policy {
            case .routeBased: .routeBased
            case .enforcedRoutes: .enforced
            case .everything: .everything
            }
    }

    var policy: LeakPolicy {
        switch self {
        case .routeBased: .routeBased
        case .enforced: .enforcedRoutes
        case .everything: .everything
        }
    }
}
