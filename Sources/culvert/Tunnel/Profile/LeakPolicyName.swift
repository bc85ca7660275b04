// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel

/// The names of the leak policies on the command line.
enum LeakPolicyName: String, CaseIterable, Codable, Sendable {
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

    /// The traffic that may bypass the tunnel, for help.
    private var permitted: String {
        switch self {
        case .routeBased: "all that the routing table sends elsewhere, as with wg-quick"
        case .enforced: "nothing that is routed into the tunnel, even when it fails"
        case .everything: "nothing at all"
        }
    }

    /// All names with their meanings, for help.
    static var meanings: String { allCases.map { "'\($0.rawValue)', \($0.permitted)" }.joined(separator: "; ") }

    /// The names of some policies, for help: `enforced or everything`.
    static func list(_ isIncluded: (LeakPolicy) -> Bool = { _ in true }) -> String {
        let names = allCases.filter { isIncluded($0.policy) }.map(\.rawValue)
        return (names.dropLast().isEmpty ? "" : names.dropLast().joined(separator: ", ") + " or ") + (names.last ?? "")
    }

    var policy: LeakPolicy {
        switch self {
        case .routeBased: .routeBased
        case .enforced: .enforcedRoutes
        case .everything: .everything
        }
    }
}
