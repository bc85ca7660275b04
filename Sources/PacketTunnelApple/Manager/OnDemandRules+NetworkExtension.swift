// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkExtension
public import PacketTunnel

extension OnDemandRules {
    /// Returns these rules in the system's form. The system applies them even while the app does not run.
    ///
    /// A rule for a kind of network that this platform does not have could never match, and is omitted. A final rule
    /// changes nothing, which corresponds to no match.
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
