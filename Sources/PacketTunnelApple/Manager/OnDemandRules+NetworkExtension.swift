// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkExtension
public import PacketTunnel

extension OnDemandRules {
    /// Returns these rules for the system, which follows them while the app does not run too.
    ///
    /// A rule about a kind of network that this platform does not have could never match, and is omitted. A final rule keeps
    /// everything unchanged, which is the meaning of no match.
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
