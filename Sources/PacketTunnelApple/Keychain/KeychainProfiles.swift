// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
public import PacketTunnel

/// Profiles in the keychain, by ID or by the persistent reference in the system's configuration.
public struct KeychainProfiles: ReferencedProfiles {
    private let items: KeychainItems

    /// Profiles; the parameters are those of ``KeychainSecretStore/init(service:accessGroup:)``.
    public init(service: String = "culvert.profiles", accessGroup: String? = nil) {
        items = KeychainItems(service: service, accessGroup: accessGroup)
    }

    /// The profile of a reference.
    public func profile(reference: [UInt8]) throws(TunnelError) -> TunnelProfile {
        guard let json = try KeychainItems.read(reference: reference) else {
            throw TunnelError(
                .secretUnavailable, "the keychain item of the profile was removed", fix: "save the profile again")
        }
        return try Self.decode(json)
    }

    static func decode(_ json: [UInt8]) throws(TunnelError) -> TunnelProfile {
        do {
            return try JSONDecoder().decode(TunnelProfile.self, from: Data(json))
        } catch {
            throw TunnelError(
                .configurationInvalid, "the profile in the keychain does not decode: \(error)",
                fix: "remove it, and create it again")
        }
    }

    /// Returns the profile's raw item, or `nil` if there is none.
    func read(_ id: String) throws(TunnelError) -> [UInt8]? { try items.read(id) }

    /// Saves a profile's item.
    /// - Returns: The item's persistent reference.
    func write(_ json: [UInt8], of profile: TunnelProfile) throws(TunnelError) -> [UInt8] {
        try items.write(json, profile.id, label: "Tunnel: \(profile.name)")
    }

    /// Restores a previous item, or removes the item if there was none.
    func restore(_ json: [UInt8]?, of profile: TunnelProfile) throws(TunnelError) {
        if let json { _ = try write(json, of: profile) } else { try items.remove(profile.id) }
    }

    func remove(_ id: String) throws(TunnelError) { try items.remove(id) }

    func ids() throws(TunnelError) -> [String] { try items.accounts() }
}

extension NetworkExtensionOptions {
    /// Returns options with the profiles and secrets in the keychain that app and extension share, and otherwise the
    /// defaults.
    /// - Parameters:
    ///   - accessGroup: The keychain access group of both.
    ///   - log: The log of both; `nil` for the default.
    public static func standard(accessGroup: String?, log: SharedLog? = nil) -> NetworkExtensionOptions {
        var options = NetworkExtensionOptions()
        options.secrets = KeychainSecretStore(accessGroup: accessGroup)
        options.profiles = KeychainProfiles(accessGroup: accessGroup)
        if let log { options.keep(log) }
        return options
    }
}
