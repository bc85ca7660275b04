// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import PacketTunnel
import Synchronization

/// The parameters of a start. They come from the app's start options, or from the system's configuration if the tunnel
/// starts on demand or from the system's settings.
struct NetworkExtensionStart {
    /// The request as JSON, in start options.
    static let requestKey = "CulvertRequest"
    /// The key of the secrets by name, in the start options, which are kept in memory only.
    static let secretsKey = "CulvertSecrets"
    /// The key of the profile's ID in the provider's configuration.
    static let idKey = "CulvertProfileID"
    /// The key of the profile as JSON in the provider's configuration, if it is not in the keychain.
    static let profileKey = "CulvertProfile"

    var request: TunnelStartRequest
    var secrets: [String: SecretBytes] = [:]

    /// Options for the system.
    static func options(_ request: TunnelStartRequest, secrets: [String: SecretBytes]) -> [String: NSObject] {
        guard let json = try? JSONEncoder().encode(request) else { return [:] }
        var options: [String: NSObject] = [requestKey: NSData(data: json)]
        if !secrets.isEmpty {
            let dictionary = NSMutableDictionary()
            for (name, secret) in secrets { dictionary[NSString(string: name)] = NSData(data: Data(secret.bytes)) }
            options[secretsKey] = dictionary
        }
        return options
    }

    /// - Throws: `.configurationInvalid`, or the errors of `profiles`.
    init(
        _ options: [String: NSObject]?, _ configuration: NEVPNProtocol?, _ profiles: (any ReferencedProfiles)?,
        adopt: NetworkExtensionManagerOptions.Adopt? = nil
    ) throws(TunnelError) {
        if let json = options?[Self.requestKey] as? NSData {
            request = try Self.decode(TunnelStartRequest.self, from: Data(referencing: json), "the start options")
            if let dictionary = options?[Self.secretsKey] as? NSDictionary {
                for (name, bytes) in dictionary {
                    guard let name = name as? String, let bytes = bytes as? Data else { continue }
                    secrets[name] = SecretBytes(bytes)
                }
            }
            return
        }
        let profile: TunnelProfile
        if let adopt, let configuration, Self.hasNoProfile(configuration) {
            (profile, secrets) = try Self.profile(adopt, ExistingConfiguration(configuration))
        } else {
            profile = try Self.profile(configuration, profiles)
        }
        guard profile.isEnabled else {
            throw TunnelError(.profileDisabled, "the profile '\(profile.name)' is disabled", fix: "enable it")
        }
        request = TunnelStartRequest(
            configuration: try profile.configuration.text(), leakPolicy: profile.leakPolicy, profileID: profile.id)
    }

    /// Whether another library saved the configuration.
    private static func hasNoProfile(_ configuration: NEVPNProtocol) -> Bool {
        let values = (configuration as? NETunnelProviderProtocol)?.providerConfiguration ?? [:]
        return values[idKey] == nil && values[profileKey] == nil
    }

    private static func profile(
        _ adopt: NetworkExtensionManagerOptions.Adopt, _ existing: ExistingConfiguration
    ) throws(TunnelError) -> (TunnelProfile, [String: SecretBytes]) {
        guard case .adopt(let profile, let secrets) = try existing.decision(adopt) else {
            throw TunnelError(
                .configurationInvalid, "a former version of the app saved the system's configuration",
                fix: "open the app once")
        }
        return (profile, secrets)
    }

    private static func profile(
        _ configuration: NEVPNProtocol?, _ profiles: (any ReferencedProfiles)?
    ) throws(TunnelError) -> TunnelProfile {
        guard let configuration else { throw TunnelError(.hostFailed, "the system has released the tunnel") }
        if let profiles, let reference = configuration.passwordReference {
            return try profiles.profile(reference: Array(reference))
        }
        let values = (configuration as? NETunnelProviderProtocol)?.providerConfiguration
        guard let json = values?[profileKey] as? Data else {
            throw TunnelError(
                .configurationInvalid, "neither the start options nor the system's configuration has a profile",
                fix: "save the profile with a TunnelManager")
        }
        return try decode(TunnelProfile.self, from: json, "the system's configuration")
    }

    private static func decode<Value: Decodable>(
        _ type: Value.Type, from json: Data, _ place: String
    ) throws(TunnelError) -> Value {
        do {
            return try JSONDecoder().decode(type, from: json)
        } catch {
            throw TunnelError(
                .configurationInvalid, "the data in \(place) does not decode: \(error)",
                fix: "use the same version in app and extension")
        }
    }
}
