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
        /// Take it down.
        case disconnect
        /// Leave the tunnel unchanged.
        case ignore
    }

    /// The networks of a rule.
    public enum Interface: String, Codable, Hashable, Sendable, CaseIterable {
        /// All of them.
        case any
        /// IEEE 802.11.
        case wifi
        /// Mobile networks.
        case cellular
        /// A cable.
        case ethernet
    }

    /// A rule.
    public struct Rule: Codable, Hashable, Sendable {
        /// The action.
        public var action: Action
        /// The networks.
        public var interface: Interface
        /// Names of Wi-Fi networks, one of which must match, byte by byte; empty for any. A network whose name the system
        /// does not report matches no name.
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
            // Not as text: two spellings of an accent are two networks.
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

    /// Up on Wi-Fi, or on these Wi-Fi networks only; down elsewhere.
    public static func wifiOnly(ssids: [String] = []) -> OnDemandRules {
        OnDemandRules([Rule(.connect, on: .wifi, ssids: ssids), Rule(.disconnect)])
    }

    /// Down on these Wi-Fi networks, up elsewhere.
    public static func except(ssids: [String]) -> OnDemandRules {
        // Without a name the rule would match every Wi-Fi network.
        OnDemandRules((ssids.isEmpty ? [] : [Rule(.disconnect, on: .wifi, ssids: ssids)]) + [Rule(.connect)])
    }

    /// Returns the action for this network path. Without a network, nothing changes: nothing could connect, and a tunnel that
    /// is up should wait for the network rather than restart.
    public func decision(for path: NetworkPath) -> Action {
        guard path.status != .unsatisfied else { return .ignore }
        return rules.first { $0.matches(path) }?.action ?? .ignore
    }

    /// Everything that is wrong with these rules.
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
