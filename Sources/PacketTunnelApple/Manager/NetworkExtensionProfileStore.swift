// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
public import PacketTunnel
import Synchronization

/// Profiles as VPN configurations of the system, one for each, and the channels to their tunnels.
///
/// The system keeps name, extension, on-demand rules and leak switches; the profile itself is a keychain item that the
/// configuration refers to. Configurations of others, and those that this did not make, are left alone.
public final class NetworkExtensionProfileStore: ProfileStore {
    private let options: NetworkExtensionManagerOptions
    private let keychain: KeychainProfiles
    private let secrets: (any SecretStore)?
    private let channels = Mutex<[String: NetworkExtensionChannel]>([:])

    /// A store.
    ///
    /// - Parameters:
    ///   - options: which extension, and how.
    ///   - secrets: where the secrets are that go with each start, where the options say so.
    public init(_ options: NetworkExtensionManagerOptions, secrets: (any SecretStore)? = nil) {
        self.options = options
        self.secrets = secrets
        keychain = KeychainProfiles(
            service: "culvert.profiles.\(options.providerBundleIdentifier)", accessGroup: options.accessGroup)
    }

    /// The channel to the tunnel of a profile, saved or not yet.
    public func channel(for profile: TunnelProfile) -> any TunnelChannel { channel(profile.id) }

    private func channel(_ id: String, _ configuration: SystemConfiguration? = nil) -> NetworkExtensionChannel {
        channels.withLock { channels in
            if let channel = channels[id] { return channel }
            let channel = NetworkExtensionChannel(
                configuration ?? SystemConfiguration(), options, profileID: id, secrets: secrets)
            channels[id] = channel
            return channel
        }
    }

    /// All profiles of the extension. Those that were removed in the system's settings are gone.
    public func loadAll() async throws(TunnelError) -> LoadedProfiles {
        var loaded = LoadedProfiles(profiles: [])
        var ids: Set<String> = []
        for configuration in try await SystemConfiguration.loadAll() {
            guard configuration.bundleIdentifier == options.providerBundleIdentifier,
                let id = configuration.profileID, ids.insert(id).inserted
            else { continue }
            let channel = channel(id, configuration)
            // What there is already is what the app follows; it reads what others changed.
            if channel.configuration !== configuration { try await channel.configuration.load() }
            await channel.refresh()
            do throws(TunnelError) {
                loaded.profiles.append(try profile(id, channel.configuration))
            } catch {
                loaded.errors.append(error)
            }
        }
        let gone = channels.withLock { channels in channels.keys.filter { !ids.contains($0) } }
        for id in gone { _ = channels.withLock { $0.removeValue(forKey: id) } }
        return loaded
    }

    private func profile(_ id: String, _ configuration: SystemConfiguration) throws(TunnelError) -> TunnelProfile {
        let json = if let json = configuration.profileJSON { json as [UInt8]? } else { try keychain.read(id) }
        guard let json else {
            throw TunnelError(
                .secretUnavailable,
                "the keychain item of the profile '\(configuration.manager.localizedDescription ?? id)' "
                    + "is gone", fix: "remove the profile, and create it again")
        }
        var profile = try KeychainProfiles.decode(json)
        // The user can switch that in the system's settings.
        if configuration.manager.isEnabled { profile.isOnDemandEnabled = configuration.manager.isOnDemandEnabled }
        return profile
    }

    /// Saves a profile; the first time the system asks the user. A tunnel that is up goes on.
    /// - Throws: `.permissionDenied` when the user refuses; `.storage`. Then all is as before.
    public func save(_ profile: TunnelProfile) async throws(TunnelError) {
        let json = try JSONValue(encoding: profile).text()
        let channel = channel(profile.id)
        switch options.placement {
        case .systemConfiguration:
            try await channel.configuration.save { self.fill($0, from: profile, json: json, reference: nil) }
        case .keychain:
            let before = try keychain.read(profile.id)
            let reference = try keychain.write(json, of: profile)
            do throws(TunnelError) {
                try await channel.configuration.save {
                    self.fill($0, from: profile, json: nil, reference: reference)
                }
            } catch {
                do throws(TunnelError) {
                    try keychain.restore(before, of: profile)
                } catch {
                    // What failed first is what the caller needs to know.
                }
                throw error
            }
        }
        await channel.refresh()
    }

    private func fill(
        _ manager: NETunnelProviderManager, from profile: TunnelProfile, json: [UInt8]?, reference: [UInt8]?
    ) {
        let configuration = manager.protocolConfiguration as? NETunnelProviderProtocol ?? NETunnelProviderProtocol()
        configuration.providerBundleIdentifier = options.providerBundleIdentifier
        // The system refuses an empty one.
        configuration.serverAddress = profile.serverAddress.isEmpty ? profile.name : profile.serverAddress
        var values: [String: Any] = [NetworkExtensionStart.idKey: profile.id]
        if let json { values[NetworkExtensionStart.profileKey] = Data(json) }
        configuration.providerConfiguration = values
        configuration.passwordReference = reference.map { Data($0) }
        configuration.disconnectOnSleep = options.disconnectsOnSleep
        configuration.hold(profile.leakPolicy, allowsLocalNetwork: options.allowsLocalNetwork)
        manager.protocolConfiguration = configuration
        manager.localizedDescription = profile.name
        manager.onDemandRules = profile.onDemand.makeNetworkExtensionRules()
        manager.isOnDemandEnabled = profile.isEnabled && profile.isOnDemandEnabled
        // Enabling one disables the others, which a start does; rules work only for the one that is enabled.
        if !profile.isEnabled { manager.isEnabled = false }
        if manager.isOnDemandEnabled { manager.isEnabled = true }
    }

    /// Removes a profile; none is fine.
    public func remove(_ id: String) async throws(TunnelError) {
        guard let channel = channels.withLock({ $0[id] }) else { return }
        try await channel.configuration.remove()
        _ = channels.withLock { $0.removeValue(forKey: id) }
        channel.end()
        try keychain.remove(id)
    }

    /// Removes keychain items whose profile the user removed in the system's settings.
    /// - Returns: the ids of those profiles.
    @discardableResult
    public func removeOrphans() async throws(TunnelError) -> [String] {
        let known = try await SystemConfiguration.loadAll().compactMap(\.profileID)
        let orphans = try keychain.ids().filter { !known.contains($0) }
        for id in orphans { try keychain.remove(id) }
        return orphans
    }
}
