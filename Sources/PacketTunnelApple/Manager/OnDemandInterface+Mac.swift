// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel

#if os(macOS)
    import NetworkExtension

    extension OnDemandRules.Interface {
        /// The system's value, or `nil` if it has none.
        var networkExtensionType: NEOnDemandRuleInterfaceType? {
            switch self {
            case .any: .any
            case .wifi: .wiFi
            case .ethernet: .ethernet
            case .cellular: nil
            }
        }
    }
#endif
