// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import AppleTunnelModel
import NetworkAddresses
import Observation
import PacketTunnelTesting
import Synchronization
import Testing
import WireGuardCore

@testable import CredentialTunnel
@testable import PacketTunnel
@testable import WireGuardTunnel

/// The models of the example, with a person's taps and a system that fails.
@Suite("The models of the example", .timeLimit(.minutes(5)))
@MainActor struct ExampleModelTests {
    /// A store whose profiles cannot be read while the device is locked.
    private final class LockableStore: ProfileStore {
        private let memory: MemoryProfileStore
        private let isLocked = Mutex(false)
        private let isListed = Mutex(true)
        private let failsSaves = Mutex(false)
        private let unreadable = Mutex<UnreadableProfile?>(nil)
        /// Problems that are none of a profile's: orphans, and second configurations.
        let problems = Mutex<[TunnelError]>([])
        let adoptionErrors = Mutex<[TunnelError]>([])
        let tidyings = Mutex(0)
        let saved = Mutex<[TunnelProfile]>([])

        init(_ profiles: [TunnelProfile]) { memory = MemoryProfileStore(profiles) }

        func setLocked(_ isOn: Bool) { isLocked.withLock { $0 = isOn } }

        func loadAll() async throws(TunnelError) -> LoadedProfiles {
            var loaded = try await memory.loadAll()
            if !isListed.withLock({ $0 }) { loaded.profiles = [] }
            loaded.adoptionErrors = adoptionErrors.withLock { $0 }
            loaded.errors = problems.withLock { $0 } + loaded.adoptionErrors
            if let profile = unreadable.withLock({ $0 }) {
                loaded.unreadable = [profile]
                loaded.errors.append(profile.error)
            }
            guard isLocked.withLock({ $0 }) else { return loaded }
            let error = TunnelError(.storage, "the device is locked")
            loaded.unreadable = loaded.profiles.map { UnreadableProfile(id: $0.id, name: $0.name, error: error) }
            loaded.errors += loaded.profiles.map { _ in error }
            loaded.profiles = []
            return loaded
        }

        /// Whether a load returns the profiles; otherwise it returns none, and no error.
        func setListed(_ isOn: Bool) { isListed.withLock { $0 = isOn } }

        /// Adds a profile that cannot be read.
        func setUnreadable(_ profile: UnreadableProfile) { unreadable.withLock { $0 = profile } }

        func setFailsSaves(_ isOn: Bool) { failsSaves.withLock { $0 = isOn } }

        func removeOrphans() async throws(TunnelError) -> [String] {
            tidyings.withLock { $0 += 1 }
            return []
        }

        func save(_ profile: TunnelProfile) async throws(TunnelError) {
            if failsSaves.withLock({ $0 }) { throw TunnelError(.storage, "the configuration cannot be saved") }
            saved.withLock { $0.append(profile) }
            try await memory.save(profile)
        }

        func remove(_ id: String) async throws(TunnelError) { try await memory.remove(id) }
    }

    /// A tunnel that starts immediately, or never until it is stopped. It answers no message.
    private final class TappedChannel: PacketTunnel.Tunnel {
        let changes = Changes()
        private let updates = Broadcast(TunnelStatusUpdate(.disconnected))
        private let counts = Mutex((starts: 0, stops: 0))
        private let startsNever: Bool

        init(startsNever: Bool = false) { self.startsNever = startsNever }

        var starts: Int { counts.withLock { $0.starts } }
        var stops: Int { counts.withLock { $0.stops } }
        var status: TunnelStatusUpdate { updates.current }
        func statusUpdates() -> AsyncStream<TunnelStatusUpdate> { updates.follow() }

        func start(_ request: TunnelStartRequest) async throws(TunnelError) {
            counts.withLock { $0.starts += 1 }
            updates.send(TunnelStatusUpdate(.connecting))
            changes.notify()
            guard startsNever else { return updates.send(TunnelStatusUpdate(.connected)) }
            _ = await changes.wait { stops > 0 }
            updates.send(TunnelStatusUpdate(.disconnected))
            throw TunnelError(.stopped, "the tunnel was stopped while it was starting")
        }

        func stop(_ reason: StopReason) async throws(TunnelError) {
            counts.withLock { $0.stops += 1 }
            updates.send(TunnelStatusUpdate(.disconnected))
            changes.notify()
        }

        func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]? {
            throw TunnelError(.notRunning, "no answer")
        }
    }

    private static let rules = OnDemandRules.wifiOnly(ssids: ["home"])

    private static func profile(isOnDemand: Bool = false) throws -> TunnelProfile {
        var random = SeededGenerator(seed: 41)
        let configuration = WireGuardTunnelConfiguration(
            addresses: [InterfaceAddress(host: .v4(10, 0, 0, 2))],
            peers: [
                try .init(
                    publicKey: PrivateKey(using: &random).publicKey.base64, endpoint: "192.0.2.1:51820",
                    allowedIPs: [.allIPv4])
            ])
        var profile = TunnelProfile(
            name: "Home", provider: "wireguard", serverAddress: "192.0.2.1:51820",
            configuration: try JSONValue(encoding: configuration))
        profile.onDemand = rules
        profile.isOnDemandEnabled = isOnDemand
        return profile
    }

    private func manager(_ store: LockableStore, _ channel: TappedChannel) -> TunnelManager {
        TunnelManager(store: store, secrets: MemorySecretStore()) { _ in channel }
    }

    private func reaches(_ condition: () -> Bool) async -> Bool {
        let changes = Changes()
        return await changes.wait {
            withObservationTracking {
                condition()
            } onChange: {
                changes.notify()
            }
        }
    }

    @Test("A second tap during a start stops the tunnel, without an alert")
    func secondTap() async throws {
        let (profile, channel) = (try Self.profile(), TappedChannel(startsNever: true))
        let model = TunnelModel(manager(LockableStore([profile]), channel))
        await model.load()
        let first = Task { await model.toggle(profile) }
        #expect(await channel.changes.wait { channel.starts == 1 })
        await model.toggle(profile)
        await first.value
        #expect(channel.status.status == .disconnected && channel.stops >= 1 && channel.starts == 1)
        #expect(model.alert == nil && model.busy.isEmpty)
        #expect(await reaches { model.statuses[profile.id]?.status == .disconnected })
    }

    @Test("Two taps that are handled together leave the tunnel down, and a third one brings it up")
    func quickTaps() async throws {
        let (profile, channel) = (try Self.profile(), TappedChannel())
        let model = TunnelModel(manager(LockableStore([profile]), channel))
        await model.load()
        let taps = (0..<2).map { _ in Task { await model.toggle(profile) } }
        for tap in taps { await tap.value }
        #expect(channel.status.status == .disconnected && model.alert == nil && model.busy.isEmpty)
        await model.toggle(profile)
        #expect(channel.status.status == .connected)
    }

    @Test("Switching a tunnel off turns off its start on demand, and keeps its rules")
    func onDemand() async throws {
        let (profile, channel) = (try Self.profile(isOnDemand: true), TappedChannel())
        let store = LockableStore([profile])
        let model = TunnelModel(manager(store, channel))
        await model.load()
        await model.toggle(profile)
        #expect(channel.status.status == .connected && model.profiles.first?.isOnDemandEnabled == true)
        await model.toggle(profile)
        #expect(channel.status.status == .disconnected && model.alert == nil)
        #expect(model.profiles.first?.isOnDemandEnabled == false && model.profiles.first?.onDemand == Self.rules)
        #expect(store.saved.withLock { $0.last }?.isOnDemandEnabled == false)
    }

    @Test(
        "A tunnel that is switched off goes down even if its start on demand cannot be turned off, which an alert says")
    func onDemandFails() async throws {
        let (profile, channel) = (try Self.profile(isOnDemand: true), TappedChannel())
        let store = LockableStore([profile])
        let model = TunnelModel(manager(store, channel))
        await model.load()
        await model.toggle(profile)
        store.setFailsSaves(true)
        await model.toggle(profile)
        #expect(channel.status.status == .disconnected && channel.stops == 1)
        #expect(model.alert?.message.contains("cannot be saved") == true)
    }

    @Test("Keychain items of a removed profile do not prevent the installation of a new one")
    func orphans() async throws {
        let store = LockableStore([])
        store.problems.withLock { $0 = [TunnelError(.storage, "keychain items of a removed profile are left")] }
        let model = TunnelModel(manager(store, TappedChannel()))
        await model.load()
        #expect(model.screen == .welcome && model.alert == nil)
        #expect(store.tidyings.withLock { $0 } == 1)
        let login = LoginModel(manager(store, TappedChannel()))
        await login.load()
        #expect(!login.isUnreadable && login.alert == nil)
    }

    @Test("A profile that cannot be read can be stopped and removed")
    func removeUnreadable() async throws {
        let (profile, channel) = (try Self.profile(), TappedChannel())
        let store = LockableStore([profile])
        store.setLocked(true)
        try await channel.start(TunnelStartRequest(configuration: []))
        let model = TunnelModel(manager(store, channel))
        await model.load()
        let unreadable = try #require(model.unreadable.first)
        #expect(unreadable.name == "Home" && model.alert?.title == "Some tunnels cannot be read")
        await model.stop(unreadable)
        #expect(channel.status.status == .disconnected)
        await model.remove(unreadable)
        #expect(model.unreadable.isEmpty && model.screen == .welcome)
    }

    @Test("The addKey page stops and removes a profile that cannot be read, and then installs another profile")
    func removeUnreadableAddKey() async throws {
        let (profile, channel) = (try Self.profile(), TappedChannel())
        let store = LockableStore([profile])
        store.setLocked(true)
        try await channel.start(TunnelStartRequest(configuration: []))
        let model = AddKeyModel(manager(store, channel))
        await model.load()
        #expect(model.isUnreadable && model.profile == nil && model.alert?.title == "The tunnel cannot be read")
        fill(model)
        await model.install()
        #expect(model.alert?.title == "The tunnel was not installed" && store.saved.withLock { $0.isEmpty })
        model.isAlerting = false

        let unreadable = try #require(model.unreadable.first)
        await model.stop(unreadable)
        #expect(channel.status.status == .disconnected)
        await model.remove(unreadable)
        #expect(!model.isUnreadable && model.unreadable.isEmpty && model.alert == nil)
        fill(model)
        await model.install()
        #expect(model.profile?.serverAddress == "192.0.2.1" && model.alert == nil)
    }

    /// Fills the form with which an addKey page installs a profile.
    private func fill(_ model: AddKeyModel) {
        model.details.serverAddress = "192.0.2.1"
        model.details.commonName = "server401"
        model.details.authority = "-----BEGIN CERTIFICATE-----"
        model.details.token = "token"
    }

    @Test("After the removal of its profile, a page installs no second one while another profile cannot be read")
    func removeReadable() async throws {
        let (profile, channel) = (try Self.profile(), TappedChannel())
        let store = LockableStore([profile])
        let other = UnreadableProfile(id: "other", name: "Other", error: TunnelError(.storage, "the item is damaged"))
        store.setUnreadable(other)
        let model = AddKeyModel(manager(store, channel))
        await model.load()
        #expect(model.profile == profile && !model.isUnreadable)
        #expect(model.alert?.message.contains("the item is damaged") == true)
        model.isAlerting = false
        await model.remove()
        #expect(model.profile == nil && model.isUnreadable && model.unreadable.map(\.name) == ["Other"])
        fill(model)
        await model.install()
        #expect(model.alert?.title == "The tunnel was not installed" && store.saved.withLock { $0.isEmpty })
    }

    @Test("After the removal of its profile, a page installs no second one while a former configuration is not adopted")
    func removeAdopted() async throws {
        let profile = try Self.profile()
        let store = LockableStore([profile])
        store.adoptionErrors.withLock {
            $0 = [TunnelError(.configurationInvalid, "the former configuration is damaged")]
        }
        let model = AddKeyModel(manager(store, TappedChannel()))
        await model.load()
        #expect(model.profile == profile && !model.isUnreadable)
        await model.remove()
        #expect(model.profile == nil && model.isUnreadable)
        fill(model)
        await model.install()
        #expect(model.alert?.title == "The tunnel was not installed" && store.saved.withLock { $0.isEmpty })
    }

    @Test("A page removes a profile that can no longer be read, and then installs another")
    func removeKnown() async throws {
        let profile = try Self.profile()
        let store = LockableStore([profile])
        let model = AddKeyModel(manager(store, TappedChannel()))
        await model.load()
        store.setLocked(true)
        await model.load()
        #expect(model.profile == profile && model.unreadable.map(\.id) == [profile.id] && !model.isUnreadable)
        await model.remove()
        #expect(model.profile == nil && model.unreadable.isEmpty && !model.isUnreadable)
        fill(model)
        await model.install()
        #expect(model.profile?.serverAddress == "192.0.2.1")
    }

    @Test("No page installs a tunnel while a former configuration cannot be adopted")
    func notAdopted() async throws {
        let store = LockableStore([])
        let error = TunnelError(.configurationInvalid, "the former configuration cannot be read")
        store.adoptionErrors.withLock { $0 = [error] }
        let (model, login) = (TunnelModel(manager(store, TappedChannel())), LoginModel(manager(store, TappedChannel())))
        let addKey = AddKeyModel(manager(store, TappedChannel()))
        await model.load()
        await login.load()
        await addKey.load()
        #expect(model.screen == .unreadable && login.isUnreadable && addKey.isUnreadable)
        for alert in [model.alert, login.alert, addKey.alert] {
            #expect(alert?.message.contains("the former configuration cannot be read") == true)
        }
        #expect(store.tidyings.withLock { $0 } == 3, "keychain items of removed profiles are removed all the same")
        func install() async {
            await model.add(wgQuick: Samples.wgQuickFile, name: "Office")
            login.details.server = "192.0.2.1:4000"
            login.details.serverKey = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="
            (login.details.login, login.details.password) = ("kean", "123456")
            login.details.presharedKey = "FpCyhws9cxwWoV4xELtfJvjJN+zQVRPISllRWgeopVE="
            await login.install()
            fill(addKey)
            await addKey.install()
        }
        await install()
        #expect(model.alert?.title == "The tunnel was not added")
        #expect(login.alert?.title == "The tunnel was not installed")
        #expect(addKey.alert?.title == "The tunnel was not installed")
        #expect(store.saved.withLock { $0.isEmpty })

        (model.alert, login.alert, addKey.alert) = (nil, nil, nil)
        store.adoptionErrors.withLock { $0 = [] }
        await model.load()
        await login.load()
        await addKey.load()
        #expect(model.screen == .welcome && !login.isUnreadable && !addKey.isUnreadable)
        await install()
        #expect(model.alert == nil && login.alert == nil && addKey.alert == nil)
        #expect(store.saved.withLock { $0.map(\.provider) } == ["wireguard", "credential", "add-key"])
    }

    @Test("While no profile can be read, the app shows no welcome and adds no profile")
    func unreadable() async throws {
        let store = LockableStore([try Self.profile()])
        store.setLocked(true)
        let model = TunnelModel(manager(store, TappedChannel()))
        await model.load()
        #expect(model.screen == .unreadable && model.alert != nil)
        #expect(await !model.add(wgQuick: "[Interface]", name: "Home"))
        #expect(model.alert?.message.contains("cannot be read") == true)

        let login = LoginModel(manager(store, TappedChannel()))
        await login.load()
        #expect(login.isUnreadable && login.profile == nil)
        let addKey = AddKeyModel(manager(store, TappedChannel()))
        await addKey.load()
        #expect(addKey.isUnreadable && addKey.unreadable.map(\.name) == ["Home"])
        login.details.server = "192.0.2.1:4000"
        login.details.password = "123456"
        await login.install()
        #expect(login.alert?.message.contains("cannot be read") == true)
        #expect(store.saved.withLock { $0.isEmpty })

        store.setLocked(false)
        await model.load()
        await login.load()
        #expect(model.screen == .profiles && !login.isUnreadable && login.profile != nil)
    }

    @Test("A profile that could not be read once is followed again when it can be read")
    func readAgain() async throws {
        let (profile, channel) = (try Self.profile(), TappedChannel())
        let store = LockableStore([profile])
        let (model, login) = (TunnelModel(manager(store, channel)), LoginModel(manager(store, channel)))
        for isLocked in [false, true, false] {
            store.setLocked(isLocked)
            await model.load()
            await login.load()
        }
        #expect(await reaches { model.statuses[profile.id]?.status == .disconnected })
        #expect(await reaches { login.status.status == .disconnected })
        try await channel.start(TunnelStartRequest(configuration: []))
        #expect(await reaches { model.statuses[profile.id]?.status == .connected })
        #expect(await reaches { login.status.status == .connected })
    }

    @Test("A profile that the store's list left out once is followed again when the list has it")
    func listedAgain() async throws {
        let (profile, channel) = (try Self.profile(), TappedChannel())
        let store = LockableStore([profile])
        let managers = [manager(store, channel), manager(store, channel)]
        let (model, login) = (TunnelModel(managers[0]), LoginModel(managers[1]))
        await model.load()
        await login.load()
        store.setListed(false)
        for manager in managers {
            #expect(try await manager.load() == [])
            #expect(await manager.profiles.isEmpty)
        }
        store.setListed(true)
        await model.load()
        await login.load()
        try await channel.start(TunnelStartRequest(configuration: []))
        #expect(await reaches { model.statuses[profile.id]?.status == .connected })
        #expect(await reaches { login.status.status == .connected })
    }

    @Test("The form of a profile keeps the rules of its start on demand when it switches them off and on")
    func formKeepsRules() async throws {
        let profile = try Self.profile(isOnDemand: true)
        let model = TunnelModel(manager(LockableStore([profile]), TappedChannel()))
        await model.load()
        for isOn in [false, true] {
            let saved = try #require(model.profiles.first)
            var form = try #require(model.form(of: saved))
            form.isOnDemand = isOn
            #expect(await model.save(form, of: profile))
            #expect(model.profiles.map(\.onDemand) == [Self.rules])
            #expect(model.profiles.map(\.isOnDemandEnabled) == [isOn])
        }
    }

    @Test("A profile that was saved is reported as saved, even if its tunnel does not apply it")
    func saved() async throws {
        let (profile, channel) = (try Self.profile(), TappedChannel())
        let store = LockableStore([profile])
        let model = TunnelModel(manager(store, channel))
        await model.load()
        await model.toggle(profile)
        var form = try #require(model.form(of: profile))
        form.mtu = "1380"
        #expect(await model.save(form, of: profile))
        #expect(model.alert?.title == "Home was saved, and takes effect at the next start")
        let saved: WireGuardTunnelConfiguration = try #require(model.profiles.first).configuration.decode()
        #expect(saved.mtu == 1380)
    }

    @Test("Secrets do not stay in the form after a save that failed")
    func secrets() async throws {
        let configuration = CredentialTunnelConfiguration(server: "192.0.2.1:4000", serverKey: "", login: "kean")
        let profile = TunnelProfile(
            name: "Login tunnel", provider: "credential", serverAddress: "192.0.2.1:4000",
            configuration: try JSONValue(encoding: configuration))
        let store = LockableStore([profile])
        let model = LoginModel(manager(store, TappedChannel()))
        await model.load()
        model.details.server = "no port"
        (model.details.password, model.details.presharedKey) = ("123456", "abc")
        await model.save()
        #expect(model.alert?.title == "The tunnel was not saved")
        #expect(model.details.password.isEmpty && model.details.presharedKey.isEmpty)
        #expect(model.details.server == "no port", "the rest of the form stays")
        #expect(store.saved.withLock { $0.isEmpty })
    }
}
