// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkExtension
public import PacketTunnel

/// A VPN configuration of the app that another library, or an earlier version of the app, saved.
///
/// ``NetworkExtensionManagerOptions/adoptConfiguration`` reads it.
public struct ExistingConfiguration {
    /// The name in the system's settings. It is empty in an extension, which cannot read it.
    public var name = ""
    /// The bundle identifier of the configuration's extension.
    public var providerBundleIdentifier = ""
    /// The server's address, as the settings show it.
    public var serverAddress = ""
    /// The user's name, if the configuration has one.
    public var username: String?
    /// The values that the other library saved for its extension.
    public var providerConfiguration: [String: Any] = [:]
    /// The persistent reference of a keychain item; see ``password()``.
    public var passwordReference: [UInt8]?
    /// The on-demand rules that have a counterpart here. It is empty in an extension.
    public var onDemand = OnDemandRules()
    /// Whether the on-demand rules are in effect. `false` in an extension.
    public var isOnDemandEnabled = false
    /// The packets that the system blocks for this configuration (`includeAllNetworks`, `enforceRoutes`).
    public var leakPolicy = LeakPolicy.routeBased
    /// Whether attached networks are reached directly under a policy that blocks traffic (`excludeLocalNetworks`).
    public var allowsLocalNetwork = false

    /// A configuration without values, for tests of an app's reader.
    public init() {}

    init(_ configuration: NEVPNProtocol) {
        serverAddress = configuration.serverAddress ?? ""
        username = configuration.username
        passwordReference = configuration.passwordReference.map(Array.init)
        leakPolicy = configuration.leakPolicy
        allowsLocalNetwork = !leakPolicy.leavesDecisionToRoutes && configuration.excludeLocalNetworks
        guard let configuration = configuration as? NETunnelProviderProtocol else { return }
        providerBundleIdentifier = configuration.providerBundleIdentifier ?? ""
        providerConfiguration = configuration.providerConfiguration ?? [:]
    }

    init?(_ manager: NETunnelProviderManager) {
        guard let configuration = manager.protocolConfiguration else { return nil }
        self.init(configuration)
        name = manager.localizedDescription ?? ""
        onDemand = OnDemandRules(manager.onDemandRules ?? [])
        isOnDemandEnabled = manager.isOnDemandEnabled
    }

    /// Returns the app's decision.
    /// - Throws: `.configurationInvalid`, or the `TunnelError` of the app's function.
    func decision(_ adopt: NetworkExtensionManagerOptions.Adopt) throws(TunnelError) -> ConfigurationAdoption {
        do {
            return try adopt(self)
        } catch let error as TunnelError {
            throw error
        } catch {
            throw TunnelError(
                .configurationInvalid, "cannot read the former configuration '\(name)': \(error)",
                fix: "remove it in the system's settings, and create the profile again")
        }
    }

    /// Reads the keychain item that ``passwordReference`` refers to; returns `nil` if there is no reference or no item.
    ///
    /// On macOS it finds items of the data-protection keychain only.
    /// - Throws: `.storage`.
    public func password() throws(TunnelError) -> SecretBytes? {
        guard let passwordReference else { return nil }
        return try KeychainItems.read(reference: passwordReference).map { SecretBytes($0) }
    }
}

/// The decision about a configuration that the app's profile store did not save.
public enum ConfigurationAdoption: Sendable {
    /// The configuration becomes this profile, with these secrets. Its other values are removed.
    case adopt(TunnelProfile, secrets: [String: SecretBytes] = [:])
    /// The configuration is removed from the system.
    case remove
    /// The configuration stays unchanged. The store does not list it.
    case leave
}

extension OnDemandRules {
    /// Returns the system's rules that have a counterpart here, in their order.
    public init(_ rules: [NEOnDemandRule]) { self.init(rules.compactMap(Rule.init)) }
}

extension OnDemandRules.Rule {
    /// Creates the counterpart of a system's rule; `nil` if it has another condition, or evaluates each connection.
    fileprivate init?(_ rule: NEOnDemandRule) {
        guard rule.dnsSearchDomainMatch == nil, rule.dnsServerAddressMatch == nil, rule.probeURL == nil,
            let interface = OnDemandRules.Interface.allCases.first(where: {
                $0.networkExtensionType == rule.interfaceTypeMatch
            })
        else { return nil }
        let action: OnDemandRules.Action
        switch rule.action {
        case .connect: action = .connect
        case .disconnect: action = .disconnect
        case .ignore: action = .ignore
        default: return nil
        }
        self.init(action, on: interface, ssids: rule.ssidMatch ?? [])
    }
}
