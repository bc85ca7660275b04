// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import Foundation
import PacketTunnel
public import PacketTunnelApple
import Provisioning
import WireGuardTunnel

/// Readers of the VPN configurations that an app saved with another library. Each configuration becomes a profile of this app,
/// so that the user has one entry in the system's settings and is not asked for permission again.
public enum FormerConfiguration {
    /// The certificate of the servers' authority in the app's resources (`authority.pem`), or `nil` without such a file.
    public static var authority: String? {
        Bundle.main.url(forResource: "authority", withExtension: "pem").flatMap {
            try? String(contentsOf: $0, encoding: .utf8)
        }
    }

    /// Reads a configuration of an app with WireGuardKit, whose keychain item is a wg-quick file.
    @Sendable public static func readWireGuardKit(
        _ former: ExistingConfiguration
    ) throws -> ConfigurationAdoption {
        guard former.passwordReference != nil else { return .leave }
        guard let text = try former.password() else {
            #if os(macOS)
                // It is usually in the login keychain, which `password` does not search.
                let fix = "read it from the login keychain, by step 4 of docs/migrating-from-wireguardkit.md"
            #else
                let fix = "remove the VPN in the system's settings, and add the tunnel again"
            #endif
            throw TunnelError(
                .secretUnavailable, "the keychain item of '\(former.name)' was not found", fix: fix)
        }
        let parts = try WireGuardTunnelConfiguration.split(wgQuick: String(decoding: text.bytes, as: UTF8.self))
        var configuration = parts.configuration
        configuration.allowsLocalNetwork = former.allowsLocalNetwork
        let profile = try profile(former, "wireguard", fallback: "WireGuard tunnel", encoding: configuration)
        return .adopt(profile, secrets: parts.secrets)
    }

    /// Reads a configuration of BestVPN, which has the server, the user's name and a reference to the password. The user
    /// enters the server's key and the pre-shared key, which BestVPN did not have.
    @Sendable public static func readBestVPN(_ former: ExistingConfiguration) throws -> ConfigurationAdoption {
        guard let login = former.username else { return .leave }
        let configuration = CredentialTunnelConfiguration(
            server: former.serverAddress, serverKey: "", login: login, allowsLocalNetwork: former.allowsLocalNetwork)
        let profile = try profile(former, "credential", fallback: "Login tunnel", encoding: configuration)
        guard let password = try former.password() else { return .adopt(profile) }
        return .adopt(profile, secrets: [configuration.passwordName: password])
    }

    /// Reads a configuration of an app with PIA's library.
    /// - Parameter authority: The certificate of the servers' authority, as PEM.
    public static func readPIA(
        _ former: ExistingConfiguration, authority: String?
    ) throws -> ConfigurationAdoption {
        guard former.providerConfiguration["token"] is String else { return .leave }
        guard let authority else {
            throw TunnelError(
                .configurationInvalid, "the app does not contain the certificate of the servers' authority",
                fix: "add it to the app's resources as authority.pem")
        }
        var (configuration, token) = try AddKeyConfiguration.fromProviderConfiguration(
            former.providerConfiguration, serverAddress: former.serverAddress,
            trust: .authorities(authority, acceptsCommonName: true))
        configuration.allowsLocalNetwork = former.allowsLocalNetwork
        let profile = try profile(former, "add-key", fallback: "addKey tunnel", encoding: configuration)
        return .adopt(profile, secrets: [configuration.tokenName: token])
    }

    /// Returns a profile with the settings that a former configuration has in the system.
    private static func profile(
        _ former: ExistingConfiguration, _ provider: String, fallback: String, encoding configuration: some Encodable
    ) throws -> TunnelProfile {
        var profile = try TunnelProfile(
            name: former.name.isEmpty ? fallback : former.name, provider: provider,
            serverAddress: former.serverAddress, encoding: configuration)
        profile.onDemand = former.onDemand
        profile.isOnDemandEnabled = former.isOnDemandEnabled
        profile.leakPolicy = former.leakPolicy
        profile.userName = former.username
        return profile
    }
}
