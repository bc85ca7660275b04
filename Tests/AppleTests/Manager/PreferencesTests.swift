// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import AppleTunnelModel
import HostConformance
import NetworkExtension
import PacketTunnelTesting
import Security
import Testing

@testable import PacketTunnel
@testable import PacketTunnelApple

@Suite("Profiles that the system, its user and the keychain change", .timeLimit(.minutes(5)))
struct PreferencesTests {
    private func service(_ scene: ManagerScene) -> String { "culvert.profiles.\(scene.bundle)" }

    /// Waits until a save of the scene's app waits for the user.
    private func holdSaves(_ scene: ManagerScene) -> (log: Eavesdropper<String>, changes: Changes) {
        let (log, changes) = (Eavesdropper<String>(), Changes())
        StandInPreferences.holdSaves(of: scene.bundle) {
            log.observe("save")
            changes.notify()
        }
        return (log, changes)
    }

    /// A profile with a secret whose configuration the user removed in the settings.
    private func removedProfile() async throws -> (scene: ManagerScene, profile: TunnelProfile) {
        let scene = ManagerScene()
        let profile = scene.profile()
        try await scene.manager.create(profile, secrets: ["key": SecretBytes([1])])
        StandInPreferences.removeAll(of: scene.bundle)
        return (scene, profile)
    }

    /// Expects that the keychain has neither the item nor a secret of a profile.
    private func expectNoItems(
        _ scene: ManagerScene, _ profile: TunnelProfile, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(StandInKeychain.items(of: service(scene)).isEmpty, sourceLocation: sourceLocation)
        let secrets = StandInKeychain.items(of: "culvert.secrets").keys
        #expect(secrets.allSatisfy { !$0.hasPrefix(profile.id) }, sourceLocation: sourceLocation)
    }

    // MARK: - Loads during changes

    @Test("A load while the system asks about a new profile does not lose the profile")
    func loadDuringCreate() async throws {
        let scene = ManagerScene()
        let profile = scene.profile()
        let (log, changes) = holdSaves(scene)
        let creating = Task { try await scene.manager.create(profile) }
        #expect(await changes.wait { log.count == 1 })
        #expect(try await scene.manager.load() == [])
        #expect(try await scene.store.removeOrphans() == [])
        StandInPreferences.releaseSaves(of: scene.bundle)
        try await creating.value
        #expect(await scene.manager.profiles == [profile])
        try await scene.manager.start(profile.id)
        #expect(await scene.manager.status(profile.id).status == .connected)
        try await scene.manager.stop(profile.id)
    }

    @Test("A load while a change is being saved does not put the old value back")
    func loadDuringUpdate() async throws {
        let scene = ManagerScene()
        var profile = scene.profile()
        try await scene.manager.create(profile)
        profile.name = "Work"
        profile.serverAddress = "other.example"
        let changed = profile
        let (log, changes) = holdSaves(scene)
        let updating = Task { try await scene.manager.update(changed) }
        #expect(await changes.wait { log.count == 1 })
        try await scene.manager.load()
        StandInPreferences.releaseSaves(of: scene.bundle)
        try await updating.value
        #expect(await scene.manager.profiles == [changed])
        #expect(try scene.configuration(changed).manager.localizedDescription == "Work")
        #expect(await (try scene.restarted()).profiles == [changed])
        // Nor does the save that a start makes.
        try await scene.manager.start(profile.id)
        try await scene.manager.stop(profile.id)
        #expect(await (try scene.restarted()).profiles == [changed])
    }

    @Test("A save succeeds although the load after it fails, and the tunnel starts later")
    func loadAfterSaveFails() async throws {
        let scene = ManagerScene()
        let profile = scene.profile()
        StandInPreferences.failLoads(of: scene.bundle, with: NEVPNError(.configurationReadWriteFailed))
        try await scene.manager.create(profile, secrets: ["key": SecretBytes([1])])
        #expect(StandInPreferences.count(of: scene.bundle) == 1)
        #expect(StandInKeychain.items(of: service(scene)).count == 1)
        #expect(try await scene.secrets.names(of: profile.id) == ["key"])
        StandInPreferences.failLoads(of: scene.bundle, with: nil)
        try await scene.manager.start(profile.id)
        #expect(await scene.manager.status(profile.id).status == .connected)
        try await scene.manager.stop(profile.id)
    }

    // MARK: - The keychain

    @Test("A profile whose keychain item cannot be read keeps its tunnel, which can be stopped and removed")
    func unreadable() async throws {
        let scene = ManagerScene()
        let profile = scene.profile()
        try await scene.manager.create(profile)
        try await scene.manager.start(profile.id)
        StandInKeychain.fail(service(scene), with: errSecInteractionNotAllowed)
        #expect(try await scene.manager.load().contains { $0.code == .storage })
        #expect(await scene.manager.profiles == [profile])
        #expect(await scene.manager.status(profile.id).status == .connected)
        #expect(await scene.manager.unreadableProfiles.map(\.id) == [profile.id])

        // An app that starts now has the profile without its value.
        let later = try await scene.restarted()
        #expect(await later.profiles == [])
        #expect(await later.unreadableProfiles.map(\.name) == ["Home"])
        #expect(await later.status(profile.id).status == .connected)
        await #expect {
            _ = try await later.profile(profile.id)
        } throws: {
            ($0 as? TunnelError)?.code == .storage
        }
        try await later.stop(profile.id)
        #expect(await later.status(profile.id).status == .disconnected)
        await #expect(throws: TunnelError.self) { try await later.start(profile.id) }

        StandInKeychain.fail(service(scene), with: nil)
        #expect(try await later.load() == [])
        #expect(await later.unreadableProfiles.isEmpty)
        #expect(await later.profiles == [profile])
    }

    @Test("A profile without its keychain item can be removed")
    func removeUnreadable() async throws {
        let scene = ManagerScene()
        let profile = scene.profile()
        try await scene.manager.create(profile)
        try KeychainProfiles(service: service(scene), accessGroup: "TEAM.example").remove(profile.id)
        let later = try await scene.restarted()
        #expect(await later.unreadableProfiles.map(\.id) == [profile.id])
        try await later.remove(profile.id)
        #expect(StandInPreferences.count(of: scene.bundle) == 0)
        #expect(await later.unreadableProfiles.isEmpty)
    }

    @Test("After a keychain that fails during a removal, a second removal removes the rest")
    func removalFails() async throws {
        let scene = ManagerScene()
        let profile = scene.profile()
        try await scene.manager.create(profile, secrets: ["key": SecretBytes([1])])
        StandInKeychain.fail(service(scene), with: errSecInteractionNotAllowed)
        await #expect(throws: TunnelError.self) { try await scene.manager.remove(profile.id) }
        #expect(StandInPreferences.count(of: scene.bundle) == 0)
        StandInKeychain.fail(service(scene), with: nil)
        #expect(StandInKeychain.items(of: service(scene)).count == 1)
        // A start does not create it again.
        await #expect {
            try await scene.manager.start(profile.id)
        } throws: {
            ($0 as? TunnelError)?.code == .profileNotFound
        }
        #expect(StandInPreferences.count(of: scene.bundle) == 0)
        try await scene.manager.remove(profile.id)
        expectNoItems(scene, profile)
    }

    // MARK: - Removals elsewhere

    @Test("A profile that the user removed in the settings can be removed in the app, keychain items included")
    func removedInSettings() async throws {
        let (scene, profile) = try await removedProfile()
        try await scene.manager.remove(profile.id)
        #expect(await scene.manager.profiles.isEmpty)
        expectNoItems(scene, profile)
    }

    @Test("A load reports the keychain items of a profile removed in the settings, and the manager removes them")
    func orphans() async throws {
        let (scene, profile) = try await removedProfile()
        let errors = try await scene.manager.load()
        #expect(errors.map(\.code) == [.storage])
        #expect(errors.first?.message.contains(profile.id) == true)
        #expect(try await scene.store.loadAll().orphans == [profile.id])
        #expect(try await scene.manager.removeOrphans() == [profile.id])
        #expect(try await scene.manager.load() == [])
        expectNoItems(scene, profile)
    }

    @Test("An empty list without an error leaves profiles and their keychain items, and a failing list is an error")
    func emptyList() async throws {
        let scene = ManagerScene()
        let profile = scene.profile()
        try await scene.manager.create(profile, secrets: ["key": SecretBytes([1])])
        try await scene.manager.start(profile.id)
        try await StandInPreferences.listing.withValue(.empty) { () async throws in
            #expect(try await scene.manager.load() == [])
            #expect(try await scene.manager.removeOrphans() == [])
        }
        #expect(await scene.manager.profiles == [profile])
        #expect(await scene.manager.status(profile.id).status == .connected)
        #expect(try await scene.secrets.names(of: profile.id) == ["key"])
        #expect(StandInKeychain.items(of: service(scene)).count == 1)
        await StandInPreferences.listing.withValue(.failing(NEVPNError(.configurationReadWriteFailed))) {
            await #expect(throws: TunnelError.self) { try await scene.manager.load() }
        }
        #expect(await scene.manager.profiles == [profile])
        try await scene.manager.stop(profile.id)
    }

    @Test("An app that starts and gets an empty list keeps the keychain items, and reports them")
    func emptyListAtLaunch() async throws {
        let scene = ManagerScene()
        let profile = scene.profile()
        try await scene.manager.create(profile, secrets: ["key": SecretBytes([1])])
        try await StandInPreferences.listing.withValue(.empty) { () async throws in
            let store = NetworkExtensionProfileStore(scene.options, secrets: scene.secrets)
            let loaded = try await store.loadAll()
            #expect(loaded.orphans.isEmpty)
            #expect(loaded.errors.map(\.code) == [.storage])
            #expect(loaded.errors.first?.message.contains("nothing says whether") == true)
            #expect(try await store.removeOrphans() == [])
        }
        #expect(try await scene.secrets.names(of: profile.id) == ["key"])
        #expect(StandInKeychain.items(of: service(scene)).count == 1)
        #expect(await (try scene.restarted()).profiles == [profile])

        // An app that saw the removal knows.
        StandInPreferences.removeAll(of: scene.bundle)
        try await StandInPreferences.listing.withValue(.empty) { () async throws in
            #expect(try await scene.store.removeOrphans() == [profile.id])
        }
        #expect(StandInKeychain.items(of: service(scene)).isEmpty)
    }

    @Test("A known profile that the system does not list and fails to read is reported, and stays")
    func unlistedFails() async throws {
        let scene = ManagerScene()
        let profile = scene.profile()
        try await scene.manager.create(profile)
        StandInPreferences.fail(scene.bundle, with: NEVPNError(.configurationReadWriteFailed))
        #expect(try await scene.manager.load().count == 1)
        #expect(await scene.manager.profiles == [profile])
        StandInPreferences.fail(scene.bundle, with: nil)
        #expect(try await scene.manager.load() == [])
    }

    /// A profile with two configurations. The store holds the first one.
    private func duplicated() async throws -> (
        scene: ManagerScene, profile: TunnelProfile, first: NETunnelProviderManager
    ) {
        let scene = ManagerScene()
        let profile = scene.profile()
        try await scene.manager.create(profile)
        let first = try scene.configuration(profile).manager
        let copy = NETunnelProviderManager()
        copy.protocolConfiguration = first.protocolConfiguration
        copy.localizedDescription = "Home"
        try await SystemConfiguration(copy).save { _ in }
        #expect(StandInPreferences.count(of: scene.bundle) == 2)
        return (scene, profile, first)
    }

    @Test("A second configuration of a profile is reported, and removed with the profile")
    func duplicate() async throws {
        let (scene, profile, _) = try await duplicated()
        #expect(try await scene.manager.load().map(\.code) == [.storage])
        #expect(await scene.manager.profiles == [profile])
        try await scene.manager.remove(profile.id)
        #expect(StandInPreferences.count(of: scene.bundle) == 0)
    }

    @Test("If another process removes the configuration that the store holds, the store uses the profile's second one")
    func heldRemoved() async throws {
        let (scene, profile, first) = try await duplicated()
        StandInPreferences.remove(first)
        #expect(try await scene.manager.load() == [])
        #expect(await scene.manager.profiles == [profile])
        #expect(await scene.manager.status(profile.id).status == .disconnected)
        try await scene.manager.start(profile.id)
        #expect(await scene.manager.status(profile.id).status == .connected)
        try await scene.manager.stop(profile.id)
    }

    // MARK: - On-demand rules

    @Test("A change of a profile leaves on-demand rules off that the user switched off in the settings")
    func onDemandStaysOff() async throws {
        let scene = ManagerScene()
        var profile = scene.profile()
        profile.onDemand = .wifiOnly()
        profile.isOnDemandEnabled = true
        try await scene.manager.create(profile)
        StandInPreferences.setOnDemand(false, of: scene.bundle)
        profile.serverAddress = "other.example"
        try await scene.manager.update(profile)
        #expect(try scene.configuration(profile).manager.isOnDemandEnabled == false)
        let later = try await scene.restarted()
        #expect(await later.profiles.map(\.isOnDemandEnabled) == [false])
        #expect(await later.profiles.map(\.serverAddress) == ["other.example"])

        // The app can switch them on again.
        try await scene.manager.load()
        #expect(await scene.manager.profiles.map(\.isOnDemandEnabled) == [false])
        try await scene.manager.update(profile)
        #expect(try scene.configuration(profile).manager.isOnDemandEnabled)
    }

    @Test("A save with an old value leaves on-demand rules off that the user switched off during the edit")
    func onDemandOffDuringEdit() async throws {
        let scene = ManagerScene()
        var profile = scene.profile()
        profile.onDemand = .wifiOnly()
        profile.isOnDemandEnabled = true
        try await scene.manager.create(profile)
        StandInPreferences.setOnDemand(false, of: scene.bundle)
        // The store reads the new value, and the manager does not know it.
        _ = try await scene.store.loadAll()
        profile.serverAddress = "other.example"
        try await scene.manager.update(profile)
        #expect(try scene.configuration(profile).manager.isOnDemandEnabled == false)
    }

    @Test("The example's switch for on-demand rules keeps the rules that were saved")
    @MainActor func customRules() async throws {
        let scene = ManagerScene()
        var profile = scene.profile()
        profile.onDemand = .wifiOnly(ssids: ["home"])
        profile.isOnDemandEnabled = true
        try await scene.manager.create(profile)
        let model = TunnelModel(scene.manager)
        await model.load()
        for isOn in [false, true] {
            await model.setOnDemand(isOn, of: profile)
            #expect(model.alert == nil)
            #expect(model.profiles.map(\.onDemand) == [.wifiOnly(ssids: ["home"])])
            #expect(model.profiles.map(\.isOnDemandEnabled) == [isOn])
        }
    }
}
