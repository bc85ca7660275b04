// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
public import PacketTunnel
import Synchronization

/// A store of profiles as VPN configurations of the system, one for each profile, with the channels to their tunnels.
///
/// The system stores the name, extension, on-demand rules and leak switches. The profile itself is a keychain item to
/// which the configuration refers. The store does not touch configurations of other apps. It converts or removes those that it
/// did not create only as ``NetworkExtensionManagerOptions/adoptConfiguration`` specifies.
public final class NetworkExtensionProfileStore: ProfileStore {
    let options: NetworkExtensionManagerOptions
    private let keychain: KeychainProfiles
    let secrets: (any SecretStore)?
    /// The turns of loads that convert configurations.
    let adoptions = Turns()
    private let state = Mutex(State())

    private struct State {
        var channels: [String: NetworkExtensionChannel] = [:]
        /// The number of saves in progress, by profile.
        var saves: [String: Int] = [:]
        /// The profiles whose configuration was removed, as seen by this process.
        var removed: Set<String> = []
    }

    /// Creates a store.
    ///
    /// - Parameters:
    ///   - options: The extension and its options.
    ///   - secrets: The store of the secrets that each start passes, if the options request it.
    public init(_ options: NetworkExtensionManagerOptions, secrets: (any SecretStore)? = nil) {
        self.options = options
        self.secrets = secrets
        keychain = KeychainProfiles(
            service: "culvert.profiles.\(options.providerBundleIdentifier)", accessGroup: options.accessGroup)
    }

    /// Returns the channel to a profile's tunnel, even if the profile is not saved yet.
    public func channel(for profile: TunnelProfile) -> any Tunnel { channel(profile.id) }

    func channel(_ id: String, _ configuration: SystemConfiguration? = nil) -> NetworkExtensionChannel {
        state.withLock { state in
            if let channel = state.channels[id] { return channel }
            let channel = NetworkExtensionChannel(
                configuration ?? SystemConfiguration(), options, profileID: id, secrets: secrets)
            state.channels[id] = channel
            return channel
        }
    }

    /// Drops the channel of a profile that could not be saved.
    func drop(_ id: String) { state.withLock { $0.channels[id] = nil } }

    private func isSaving(_ id: String) -> Bool { state.withLock { $0.saves[id] != nil } }

    // MARK: - Loading

    /// Adopts the app's former configurations. Then returns all profiles of the extension, and the problems: profiles
    /// that cannot be read, further configurations of the same profile, and keychain items of profiles that were removed
    /// in the system's settings.
    ///
    /// The system's list may be empty although no configuration was removed. So a known profile that is missing from
    /// the list is loaded separately, and treated as removed only if that fails.
    public func loadAll() async throws(TunnelError) -> LoadedProfiles {
        let adoptionErrors = try await adoptExisting()
        var loaded = LoadedProfiles(profiles: [], errors: adoptionErrors)
        loaded.adoptionErrors = adoptionErrors
        let (listed, isEmpty) = try await configurations()
        for (id, configurations) in listed {
            let channel = channel(id, configurations[0])
            await follow(configurations, channel, id)
            await add(id, channel, isSaving(id) ? configurations[0] : channel.configuration, to: &loaded)
            if configurations.count > 1 {
                let name = channel.configuration.manager.localizedDescription ?? id
                loaded.errors.append(
                    TunnelError(
                        .storage, "the system has \(configurations.count) configurations of the profile '\(name)'",
                        fix: "remove the profile, and create it again"))
            }
        }
        let held = await unlisted(Set(listed.map(\.id)))
        for (id, channel, error) in held {
            if let error { loaded.errors.append(error) }
            await add(id, channel, channel.configuration, to: &loaded)
        }
        if options.placement == .keychain {
            do throws(TunnelError) {
                let known = Set(listed.map(\.id)).union(held.map(\.id))
                let found = try orphans(known: known, isListEmpty: isEmpty)
                loaded.orphans = found.certain
                loaded.errors += found.uncertain.map {
                    TunnelError(
                        .storage,
                        "the system's list of configurations is empty, and there are keychain items of the profile '\($0)': "
                            + "nothing says whether the profile was removed in the system's settings",
                        fix: "load the profiles again, or create a profile, and load them then")
                }
            } catch {
                loaded.errors.append(error)
            }
        }
        loaded.errors += loaded.orphans.map {
            TunnelError(
                .storage, "the profile '\($0)' was removed in the system's settings, and its keychain items are left",
                fix: "remove them with TunnelManager.removeOrphans()")
        }
        return loaded
    }

    /// Returns the system's configurations of this extension, by profile, with the enabled one first. The list counts
    /// as empty only if it has no configuration of another extension of this app either.
    private func configurations() async throws(TunnelError) -> (
        listed: [(id: String, [SystemConfiguration])], isEmpty: Bool
    ) {
        var found: [String: [SystemConfiguration]] = [:]
        let all = try await SystemConfiguration.loadAll()
        for configuration in all
        where configuration.bundleIdentifier == options.providerBundleIdentifier {
            if let id = configuration.profileID { found[id, default: []].append(configuration) }
        }
        let listed = found.sorted { $0.key < $1.key }.map { id, configurations in
            let (enabled, others) = (
                configurations.filter(\.manager.isEnabled), configurations.filter { !$0.manager.isEnabled }
            )
            return (id: id, enabled + others)
        }
        return (listed, all.isEmpty)
    }

    /// Makes a channel follow one of its profile's configurations, and reads the changes of other processes.
    private func follow(_ configurations: [SystemConfiguration], _ channel: NetworkExtensionChannel, _ id: String) async
    {
        let held = channel.configuration
        if !configurations.contains(where: { $0 === held }), !isSaving(id),
            case .removed = await held.presence(of: id),
            // A save may have begun meanwhile.
            !isSaving(id)
        {
            channel.replaceConfiguration(with: configurations[0])
        }
        await channel.refresh()
    }

    /// Returns the channels of profiles that the system has although they are missing from its list, each with the
    /// system's error if it failed to read one. Channels of removed profiles are dropped.
    private func unlisted(
        _ ids: Set<String>
    ) async -> [(id: String, channel: NetworkExtensionChannel, error: TunnelError?)] {
        var present: [(id: String, channel: NetworkExtensionChannel, error: TunnelError?)] = []
        let channels = state.withLock { $0.channels }
        for (id, channel) in channels.sorted(by: { $0.key < $1.key })
        where !ids.contains(id) && channel.configuration.isSaved && !isSaving(id) {
            switch await channel.configuration.presence(of: id) {
            case .present(let error): present.append((id, channel, error))
            case .removed:
                state.withLock { state in
                    guard state.saves[id] == nil else { return }
                    state.channels[id] = nil
                    state.removed.insert(id)
                }
            }
        }
        return present
    }

    private func add(
        _ id: String, _ channel: NetworkExtensionChannel, _ configuration: SystemConfiguration,
        to loaded: inout LoadedProfiles
    ) async {
        do throws(TunnelError) {
            let profile = try profile(id, configuration)
            loaded.profiles.append(profile)
        } catch {
            loaded.errors.append(error)
            let name = configuration.manager.localizedDescription ?? id
            loaded.unreadable.append(UnreadableProfile(id: id, name: name, error: error))
        }
    }

    private func profile(_ id: String, _ configuration: SystemConfiguration) throws(TunnelError) -> TunnelProfile {
        let json = if let json = configuration.profileJSON { json as [UInt8]? } else { try keychain.read(id) }
        guard let json else {
            throw TunnelError(
                .secretUnavailable,
                "the keychain item of the profile '\(configuration.manager.localizedDescription ?? id)' "
                    + "was removed", fix: "remove the profile, and create it again")
        }
        var profile = try KeychainProfiles.decode(json)
        // The user can change this in the system's settings.
        if configuration.manager.isEnabled { profile.isOnDemandEnabled = configuration.manager.isOnDemandEnabled }
        return profile
    }

    // MARK: - Saving

    /// Saves a profile. The first time the system asks the user for permission. A tunnel that is up continues.
    /// - Throws: `.permissionDenied` if the user refuses; `.storage`. After an error nothing has changed.
    public func save(_ profile: TunnelProfile) async throws(TunnelError) { try await save(profile, replacing: nil) }

    /// Saves an edited profile.
    ///
    /// The user can switch off on-demand rules in the system's settings. They stay off unless the edit changes
    /// `isOnDemandEnabled`.
    /// - Throws: `.permissionDenied` if the user refuses; `.storage`. After an error nothing has changed.
    public func save(_ profile: TunnelProfile, replacing before: TunnelProfile?) async throws(TunnelError) {
        try await saving(profile.id) { () throws(TunnelError) in try await replace(before, with: profile) }
    }

    /// Runs a save of a profile. A concurrent load must not treat the profile as removed.
    func saving(_ id: String, _ body: () async throws(TunnelError) -> Void) async throws(TunnelError) {
        state.withLock { state in
            state.saves[id, default: 0] += 1
            state.removed.remove(id)
        }
        defer {
            state.withLock { state in
                let count = state.saves[id] ?? 0
                state.saves[id] = count > 1 ? count - 1 : nil
            }
        }
        try await body()
    }

    private func replace(_ before: TunnelProfile?, with profile: TunnelProfile) async throws(TunnelError) {
        let channel = channel(profile.id)
        let configuration = channel.configuration
        if configuration.isSaved { try await configuration.load() }
        let isOn = profile.isEnabled && profile.isOnDemandEnabled
        let setsOnDemand = before.map { $0.isEnabled && $0.isOnDemandEnabled } != isOn
        var kept = profile
        if !setsOnDemand, configuration.manager.isEnabled, profile.isEnabled {
            kept.isOnDemandEnabled = configuration.manager.isOnDemandEnabled
        }
        try await write(kept, to: configuration, setsOnDemand: setsOnDemand)
        await channel.refresh()
    }

    /// - Parameter isConverted: Whether another library saved the configuration. Then its values are removed.
    func write(
        _ profile: TunnelProfile, to configuration: SystemConfiguration, setsOnDemand: Bool, isConverted: Bool = false
    ) async throws(TunnelError) {
        let json = try JSONValue(encoding: profile).text()
        func save(_ json: [UInt8]?, _ reference: [UInt8]?) async throws(TunnelError) {
            try await configuration.save { manager in
                if isConverted { manager.protocolConfiguration = nil }
                self.fill(manager, from: profile, json: json, reference: reference)
                if setsOnDemand || !profile.isEnabled {
                    manager.isOnDemandEnabled = profile.isEnabled && profile.isOnDemandEnabled
                    // Enabling one profile disables the others, as a start does. On-demand rules work only for the
                    // enabled profile.
                    // A conversion does not select a configuration that the user has deselected.
                    if manager.isOnDemandEnabled, !isConverted { manager.isEnabled = true }
                }
            }
        }
        switch options.placement {
        case .systemConfiguration: try await save(json, nil)
        case .keychain:
            let before = try keychain.read(profile.id)
            let reference = try keychain.write(json, of: profile)
            do throws(TunnelError) {
                try await save(nil, reference)
            } catch {
                do throws(TunnelError) {
                    try keychain.restore(before, of: profile)
                } catch {
                    // Ignore errors of the cleanup: the caller needs the first error.
                }
                throw error
            }
        }
    }

    private func fill(
        _ manager: NETunnelProviderManager, from profile: TunnelProfile, json: [UInt8]?, reference: [UInt8]?
    ) {
        let configuration = manager.protocolConfiguration as? NETunnelProviderProtocol ?? NETunnelProviderProtocol()
        configuration.providerBundleIdentifier = options.providerBundleIdentifier
        // The system refuses an empty address.
        configuration.serverAddress = profile.serverAddress.isEmpty ? profile.name : profile.serverAddress
        configuration.username = profile.userName
        var values: [String: Any] = [NetworkExtensionStart.idKey: profile.id]
        if let json { values[NetworkExtensionStart.profileKey] = Data(json) }
        configuration.providerConfiguration = values
        configuration.passwordReference = reference.map { Data($0) }
        configuration.disconnectOnSleep = options.disconnectsOnSleep
        configuration.hold(profile.leakPolicy, allowsLocalNetwork: options.allowsLocalNetwork)
        manager.protocolConfiguration = configuration
        manager.localizedDescription = profile.name
        manager.onDemandRules = profile.onDemand.makeNetworkExtensionRules()
        if !profile.isEnabled { manager.isEnabled = false }
    }

    // MARK: - Removing

    /// Removes a profile: each of its configurations in the system, its secrets, and its keychain item. Does nothing if
    /// it does not exist, even if the user removed it in the system's settings. After a failure another call removes
    /// the rest.
    public func remove(_ id: String) async throws(TunnelError) {
        let channel = state.withLock { $0.channels[id] }
        try await channel?.configuration.remove()
        for (other, configurations) in try await configurations().listed where other == id {
            for configuration in configurations { try await configuration.remove() }
        }
        _ = state.withLock { $0.removed.insert(id) }
        try await removeItems(of: id)
        state.withLock { state in
            state.channels[id] = nil
            state.removed.remove(id)
        }
        channel?.end()
    }

    /// Removes the secrets and then the keychain item. The item is last, because a later call finds the rest through
    /// it.
    private func removeItems(of id: String) async throws(TunnelError) {
        try await secrets?.removeAll(of: id)
        if options.placement == .keychain { try keychain.remove(id) }
    }

    /// Returns the profiles that have a keychain item, are not known, and are not being saved. While the system's list
    /// is empty, a profile counts as removed only if this process has seen its removal.
    private func orphans(
        known: Set<String>, isListEmpty: Bool
    ) throws(TunnelError) -> (certain: [String], uncertain: [String]) {
        let ids = try keychain.ids().filter { !known.contains($0) && !isSaving($0) }
        let removed = state.withLock { $0.removed }
        return (
            ids.filter { !isListEmpty || removed.contains($0) }, ids.filter { isListEmpty && !removed.contains($0) }
        )
    }

    /// Removes keychain items and secrets of profiles that the user removed in the system's settings. A profile whose
    /// configuration the system still has keeps them, even if it is missing from the system's list. While that list is
    /// empty, this removes only the items of configurations whose removal this process has seen, because an empty list
    /// may be an error of the system.
    /// - Returns: The IDs of those profiles.
    @discardableResult
    public func removeOrphans() async throws(TunnelError) -> [String] {
        let all = try await SystemConfiguration.loadAll()
        let listed = Set(all.compactMap(\.profileID))
        let known = listed.union(await unlisted(listed).map(\.id))
        let orphans = try orphans(known: known, isListEmpty: all.isEmpty).certain
        for id in orphans where !isSaving(id) { try await removeItems(of: id) }
        return orphans
    }
}
