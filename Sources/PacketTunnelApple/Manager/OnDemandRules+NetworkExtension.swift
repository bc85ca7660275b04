// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkExtension
public import PacketTunnel

extension OnDemandRules {
    /// These rules as the system takes them, which then acts by them also while the app does not run.
    ///
    /// A rule about a kind of network that this platform has no word for could never match, and is left out. A last rule
    /// says what ours mean without one: everything stays as it is.
    public func makeNetworkExtensionRules() -> [NEOnDemandRule] {
        guard !rules.isEmpty else { return [] }
        return rules.compactMap(\.networkExtensionRule) + [NEOnDemandRuleIgnore()]
    }
}

extension OnDemandRules.Rule {
    fileprivate var networkExtensionRule: NEOnDemandRule? {
        let rule: NEOnDemandRule =
            switch action {
            case .connect: NEOnDemandRuleConnect()
            case .disconnect: NEOnDemandRuleDisconnect()
            case .ignore: NEOnDemandRuleIgnore()
            }
        // Only Wi-Fi networks have names.
        guard let type = (ssids.isEmpty ? interface : .wifi).networkExtensionType else { return nil }
        rule.interfaceTypeMatch = type
        if !ssids.isEmpty { rule.ssidMatch = ssids }
        return rule
    }
}
