// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The rules by which a tunnel starts and stops automatically.
///
/// The first rule that matches the network path decides. Without a match, nothing changes.
public struct OnDemandRules: Codable, Hashable, Sendable {
    /// The action of a rule.
    public enum Action: String, Codable, Hashable, Sendable, CaseIterable {
        /// Bring the tunnel up.
        case connect
        /// Take the tunnel down.
        case disconnect
        /// Leave the tunnel unchanged.
        case ignore
    }

    /// The networks of a rule.
    public enum Interface: String, Codable, Hashable, Sendable, CaseIterable {
        /// Every network.
        case any
        /// IEEE 802.11.
        case wifi
        /// Mobile data.
        case cellular
        /// Wired networks.
        case ethernet
    }

    /// A rule.
    public struct Rule: Codable, Hashable, Sendable {
        /// The action.
        public var action: Action
        /// The networks.
        public var interface: Interface
        /// The names of Wi-Fi networks, compared byte by byte; one of them must match. Empty matches any network. If
        /// the system does not report the name of a network, no name matches it.
        public var ssids: [String]

        /// A rule.
        public init(_ action: Action, on interface: Interface = .any, ssids: [String] = []) {
            self.action = action
            self.interface = interface
            self.ssids = ssids
        }

        func matches(_ path: NetworkPath) -> Bool {
            let matchesInterface =
                switch (interface, path.primaryKind) {
                case (.any, _), (.wifi, .wifi), (.cellular, .cellular), (.ethernet, .ethernet): true
                default: false
                }
            guard matchesInterface, !ssids.isEmpty else { return matchesInterface }
            guard path.primaryKind == .wifi, let ssid = path.ssid else { return false }
            // Compare bytes, not text: two spellings of an accented name are two networks.
            return ssids.contains { $0.utf8.elementsEqual(ssid.utf8) }
        }
    }

    /// The rules, the first one first.
    public var rules: [Rule]

    /// Rules.
    public init(_ rules: [Rule] = []) {
        self.rules = rules
    }

    /// Up whenever there is a network.
    public static let always = OnDemandRules([Rule(.connect)])

    /// Up on Wi-Fi, or only on the Wi-Fi networks with these names; down on all other networks.
    public static func wifiOnly(ssids: [String] = []) -> OnDemandRules {
        OnDemandRules([Rule(.connect, on: .wifi, ssids: ssids), Rule(.disconnect)])
    }

    /// Down on the Wi-Fi networks with these names, up on all other networks.
    public static func except(ssids: [String]) -> OnDemandRules {
        // A rule without names would match every Wi-Fi network.
        OnDemandRules((ssids.isEmpty ? [] : [Rule(.disconnect, on: .wifi, ssids: ssids)]) + [Rule(.connect)])
    }

    /// Returns the action for this network path.
    ///
    /// Without a network the action is `.ignore`: nothing could connect, and a tunnel that is up should wait for the
    /// network rather than restart.
    public func decision(for path: NetworkPath) -> Action {
        guard path.status != .unsatisfied else { return .ignore }
        return rules.first { $0.matches(path) }?.action ?? .ignore
    }

    /// Returns every problem of these rules.
    public func validate() -> [SettingsProblem] {
        rules.enumerated().flatMap { index, rule -> [SettingsProblem] in
            let field = "onDemand.rules[\(index)].ssids"
            var problems: [SettingsProblem] = []
            if !rule.ssids.isEmpty, rule.interface != .wifi, rule.interface != .any {
                problems.append(
                    SettingsProblem(
                        field: field, value: rule.interface.rawValue, problem: "are names of networks without names",
                        fix: "use the interface 'wifi', or remove the names"))
            }
            for (place, ssid) in rule.ssids.enumerated() where !(1...32).contains(ssid.utf8.count) {
                problems.append(
                    SettingsProblem(
                        field: "\(field)[\(place)]", value: ssid, problem: "is not of 1 to 32 bytes",
                        fix: "write the network's name"))
            }
            return problems
        }
    }
}
