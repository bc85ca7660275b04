// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import HostConformance
import PacketTunnelTesting
import Synchronization
import Testing

@testable import PacketTunnel

/// Stores that fail on request.
final class FailingStore: ProfileStore, SecretStore {
    let profiles = MemoryProfileStore()
    let secrets = MemorySecretStore()
    private let failing = Mutex(false)

    func setFailing(_ fails: Bool) { failing.withLock { $0 = fails } }

    private func check() throws(TunnelError) {
        if failing.withLock({ $0 }) { throw TunnelError(.storage, "the disk is full") }
    }

    func loadAll() async throws(TunnelError) -> LoadedProfiles { try await profiles.loadAll() }
    func save(_ profile: TunnelProfile) async throws(TunnelError) {
        try check()
        try await profiles.save(profile)
    }
    func remove(_ id: String) async throws(TunnelError) {
        try check()
        try await profiles.remove(id)
    }
    func read(_ name: String, of profile: String) async throws(TunnelError) -> SecretBytes {
        try await secrets.read(name, of: profile)
    }
    func write(_ secret: SecretBytes, _ name: String, of profile: String) async throws(TunnelError) {
        try await secrets.write(secret, name, of: profile)
    }
    func remove(_ name: String, of profile: String) async throws(TunnelError) {
        try await secrets.remove(name, of: profile)
    }
    func removeAll(of profile: String) async throws(TunnelError) { try await secrets.removeAll(of: profile) }
    func names(of profile: String) async throws(TunnelError) -> [String] { try await secrets.names(of: profile) }
}

/// A manager with a memory host for each profile.
struct ManagerScene {
    let store: FailingStore
    let manager: TunnelManager
    let hosts = Hosts()

    final class Hosts: Sendable {
        private let hosts = Mutex<[String: (MemoryHost<ScriptedProvider>, Script)]>([:])
        subscript(id: String) -> (host: MemoryHost<ScriptedProvider>, script: Script)? { hosts.withLock { $0[id] } }
        func make(_ profile: TunnelProfile, _ secrets: any SecretStore) -> any Tunnel {
            let script = Script()
            let host = MemoryHost(secrets: secrets) { ScriptedProvider(script) }
            hosts.withLock { $0[profile.id] = (host, script) }
            return host
        }
    }

    init(store: FailingStore = FailingStore(), runsOneAtATime: Bool = true) {
        self.store = store
        manager = TunnelManager(store: store, secrets: store, runsOneAtATime: runsOneAtATime) { [hosts] profile in
            hosts.make(profile, store)
        }
    }

    static func profile(_ name: String, onDemand: OnDemandRules? = nil) -> TunnelProfile {
        TunnelProfile(
            name: name, provider: "script", configuration: .object(["name": .string(name)]),
            onDemand: onDemand ?? OnDemandRules(), isOnDemandEnabled: onDemand != nil)
    }
}

@Suite("The tunnel manager", .timeLimit(.minutes(1)))
struct TunnelManagerTests {
    @Test("A manager creates the first profile, and starts it immediately")
    func first() async throws {
        let scene = ManagerScene()
        #expect(try await scene.manager.load().isEmpty)
        #expect(await scene.manager.profiles.isEmpty)
        let profile = ManagerScene.profile("Home")
        try await scene.manager.create(profile, secrets: ["key": SecretBytes([1, 2])])
        #expect(await scene.manager.profiles == [profile])
        try await scene.manager.start(profile.id)
        #expect(await scene.manager.status(profile.id).status == .connected)
        #expect(try await scene.manager.sendMessage([1], to: profile.id) == [1])
        let context = try #require(scene.hosts[profile.id]?.script.context)
        #expect(try await context.secret("key").bytes == [1, 2])
        await #expect(throws: TunnelError.self) { _ = try await context.secret("other") }
        try await scene.manager.stop(profile.id)
        #expect(await scene.manager.status(profile.id).status == .disconnected)
    }

    @Test("The options of a start reach the provider, and other starts have none")
    func startOptions() async throws {
        let scene = ManagerScene()
        let profile = ManagerScene.profile("Home", onDemand: .always)
        try await scene.manager.create(profile)
        let script = try #require(scene.hosts[profile.id]?.script)
        let options: [String: JSONValue] = ["reason": .string("the user's tap"), "attempt": .integer(2)]
        try await scene.manager.start(profile.id, options: options)
        #expect(script.context?.startOptions == options)
        try await scene.manager.stop(profile.id)
        #expect(await scene.manager.followPath(NetworkPath(status: .satisfied)) == [:])
        #expect(await scene.manager.status(profile.id).status == .connected)
        #expect(script.calls.messages.count { $0 == "start" } == 2)
        #expect(try #require(script.context).startOptions == nil)
        try await scene.manager.stop(profile.id)
        try await scene.manager.start(profile.id)
        #expect(try #require(script.context).startOptions == nil)
    }

    @Test("A manager finds stored profiles, and forgets removed ones")
    func load() async throws {
        let store = FailingStore()
        let one = ManagerScene(store: store)
        let profiles = ["b", "a", "c"].map { ManagerScene.profile($0) }
        for profile in profiles { try await one.manager.create(profile) }
        let two = ManagerScene(store: store)
        try await two.manager.load()
        #expect(await two.manager.profiles.map(\.name) == ["a", "b", "c"])
        try await one.manager.remove(profiles[0].id)
        try await two.manager.load()
        #expect(await two.manager.profiles.map(\.name) == ["a", "c"])
        #expect(await two.manager.status(profiles[0].id).status == .invalid)
    }

    @Test("A manager reports every error in a profile, including a name in use")
    func validation() async throws {
        let scene = ManagerScene()
        let profile = ManagerScene.profile("Home")
        try await scene.manager.create(profile)
        var other = ManagerScene.profile("Home")
        other.provider = "a b"
        other.onDemand = .wifiOnly(ssids: [""])
        let wrong = other
        let error = await #expect(throws: TunnelError.self) { try await scene.manager.create(wrong) }
        #expect(error?.problems.map(\.field) == ["provider", "onDemand.rules[0].ssids[0]", "name"])
        await #expect(throws: TunnelError.self) { try await scene.manager.create(profile) }
        for name in ["", "  ", " a", "a\nb", String(repeating: "x", count: 129)] {
            let code = await code { try await scene.manager.create(ManagerScene.profile(name)) }
            #expect(code == .settingsInvalid, "'\(name)'")
        }
        #expect(await scene.manager.profiles == [profile])
    }

    @Test("A manager updates a profile and its secrets, or neither")
    func update() async throws {
        let scene = ManagerScene()
        var profile = ManagerScene.profile("Home")
        let secrets = ["key": SecretBytes([1]), "token": SecretBytes([2])]
        try await scene.manager.create(profile, secrets: secrets)
        profile.name = "Office"
        try await scene.manager.update(profile, secrets: ["key": SecretBytes([3]), "token": nil])
        #expect(try await scene.store.names(of: profile.id) == ["key"])
        #expect(try await scene.store.read("key", of: profile.id).bytes == [3])
        #expect(await scene.manager.profiles == [profile])

        scene.store.setFailing(true)
        var third = profile
        third.name = "Third"
        let changes = ["key": SecretBytes([9]), "new": SecretBytes([9])]
        let update = third
        #expect(await code { try await scene.manager.update(update, secrets: changes) } == .storage)
        #expect(try await scene.store.read("key", of: profile.id).bytes == [3])
        #expect(try await scene.store.names(of: profile.id) == ["key"])
        #expect(try await scene.manager.profile(profile.id) == profile)
        #expect(await code { try await scene.manager.update(ManagerScene.profile("x")) } == .profileNotFound)
    }

    @Test("A profile that cannot be stored does not exist, and neither do its secrets")
    func failedCreate() async throws {
        let scene = ManagerScene()
        scene.store.setFailing(true)
        let profile = ManagerScene.profile("Home")
        #expect(await code { try await scene.manager.create(profile, secrets: ["key": SecretBytes([1])]) } == .storage)
        #expect(await scene.manager.profiles.isEmpty)
        #expect(try await scene.store.names(of: profile.id) == [])
        scene.store.setFailing(false)
        try await scene.manager.create(profile)
    }

    @Test("Removing stops the tunnel, forgets the secrets, and ends the status")
    func remove() async throws {
        let scene = ManagerScene()
        let profile = ManagerScene.profile("Home")
        try await scene.manager.create(profile, secrets: ["key": SecretBytes([1])])
        let updates = await scene.manager.statusUpdates(profile.id)
        try await scene.manager.start(profile.id)
        try await scene.manager.remove(profile.id)
        var seen: [TunnelStatus] = []
        for await update in updates { seen.append(update.status) }
        #expect(seen == [.disconnected, .connecting, .connected, .disconnecting, .disconnected, .invalid])
        #expect(try await scene.store.names(of: profile.id) == [])
        #expect(scene.hosts[profile.id]?.script.calls.messages.contains("stop configurationRemoved") == true)
        #expect(await code { try await scene.manager.start(profile.id) } == .profileNotFound)
        #expect(await code { try await scene.manager.remove(profile.id) } == .profileNotFound)
        var after: [TunnelStatus] = []
        for await update in await scene.manager.statusUpdates(profile.id) { after.append(update.status) }
        #expect(after == [.invalid])
    }

    @Test("A profile that cannot be removed stays")
    func failedRemove() async throws {
        let scene = ManagerScene()
        let profile = ManagerScene.profile("Home")
        try await scene.manager.create(profile)
        scene.store.setFailing(true)
        #expect(await code { try await scene.manager.remove(profile.id) } == .storage)
        try await scene.manager.start(profile.id)
        try await scene.manager.stop(profile.id)
    }

    @Test("Starting a tunnel stops the other one, where only one may run", arguments: [true, false])
    func oneAtATime(_ runsOneAtATime: Bool) async throws {
        let scene = ManagerScene(runsOneAtATime: runsOneAtATime)
        let (one, two) = (ManagerScene.profile("One"), ManagerScene.profile("Two"))
        try await scene.manager.create(one)
        try await scene.manager.create(two)
        try await scene.manager.start(one.id)
        try await scene.manager.start(two.id)
        #expect(await scene.manager.status(one.id).status == (runsOneAtATime ? .disconnected : .connected))
        #expect(await scene.manager.status(two.id).status == .connected)
        let calls = scene.hosts[one.id]?.script.calls.messages ?? []
        #expect(calls.contains("stop superseded") == runsOneAtATime)
        try await scene.manager.stop(one.id)
        try await scene.manager.stop(two.id)
    }

    @Test("A disabled profile does not start, and errors of the start come through")
    func disabled() async throws {
        let scene = ManagerScene()
        var profile = ManagerScene.profile("Home")
        profile.isEnabled = false
        try await scene.manager.create(profile)
        let id = profile.id
        #expect(await code { try await scene.manager.start(id) } == .profileDisabled)
        profile.isEnabled = true
        try await scene.manager.update(profile)
        scene.hosts[id]?.script.plan.start = .fail(TunnelError(.authenticationFailed, "wrong password"))
        #expect(await code { try await scene.manager.start(id) } == .authenticationFailed)
        #expect(await code { _ = try await scene.manager.sendMessage([1], to: id) } == .notRunning)
    }

    @Test("A manager follows the network path by the rules")
    func onDemand() async throws {
        let scene = ManagerScene()
        let home = ManagerScene.profile("Home", onDemand: .except(ssids: ["home"]))
        let other = ManagerScene.profile("Other", onDemand: .always)
        let manual = ManagerScene.profile("A manual one")
        for profile in [home, other, manual] { try await scene.manager.create(profile) }
        let (wifi, mobile) = (
            OnDemandRulesTests.path(.wifi, ssid: "home"), OnDemandRulesTests.path(.cellular)
        )
        func up() async -> [String] {
            var names: [String] = []
            for profile in [home, other, manual] where await scene.manager.status(profile.id).status == .connected {
                names.append(profile.name)
            }
            return names
        }
        #expect(await scene.manager.followPath(mobile).isEmpty)
        #expect(await up() == ["Home"])
        await scene.manager.followPath(.unsatisfied)
        #expect(await up() == ["Home"])
        await scene.manager.followPath(wifi)
        #expect(await up() == ["Other"])
        // It agrees with this network as well, so it stays.
        await scene.manager.followPath(mobile)
        #expect(await up() == ["Other"])
        try await scene.manager.stop(other.id)
        scene.hosts[home.id]?.script.plan.start = .fail(TunnelError(.serverUnreachable, "no answer"))
        #expect(await scene.manager.followPath(mobile).mapValues(\.code) == [home.id: .serverUnreachable])
        #expect(await up() == ["Other"])
        try await scene.manager.stop(other.id)
    }

    @Test("A blocked tunnel tries again on another network, and another profile does not take its guard away")
    func onDemandBlocked() async throws {
        let scene = ManagerScene()
        let blocked = ManagerScene.profile("B", onDemand: .always)
        let other = ManagerScene.profile("A", onDemand: .always)
        try await scene.manager.create(blocked)
        let script = try #require(scene.hosts[blocked.id]?.script)
        script.plan.settings?.leakPolicy = .everything
        await scene.manager.followPath(OnDemandRulesTests.path(.wifi))
        let updates = await scene.manager.statusUpdates(blocked.id)
        script.context?.cancel(TunnelError(.connectivityLost, "nothing comes back"))
        for await update in updates where update.status == .blocked { break }
        try await scene.manager.create(other)
        await scene.manager.followPath(OnDemandRulesTests.path(.cellular))
        #expect(await scene.manager.status(blocked.id).status == .connected)
        #expect(await scene.manager.status(other.id).status == .disconnected)
        try await scene.manager.stop(blocked.id)
    }

    @Test("Lists of profiles are followed, and end with the manager")
    func followers() async throws {
        var scene: ManagerScene? = ManagerScene()
        let lists = await scene?.manager.profileUpdates()
        try await scene?.manager.create(ManagerScene.profile("One"))
        try await scene?.manager.create(ManagerScene.profile("Two"))
        scene = nil
        var seen: [[String]] = []
        for await list in try #require(lists) { seen.append(list.map(\.name)) }
        #expect(seen == [[], ["One"], ["One", "Two"]])
    }

    @Test("A stored profile contains no secret")
    func noSecretInProfile() async throws {
        let scratch = try StoreDirectory()
        let secrets = try FileSecretStore(path: scratch.path + "/secrets")
        let store = try FileProfileStore(path: scratch.path + "/profiles")
        let manager = TunnelManager(store: store, secrets: secrets) { _ in
            MemoryHost<ScriptedProvider>()
        }
        let secret = Array("correct horse battery staple".utf8)
        let profile = ManagerScene.profile("Home")
        try await manager.create(profile, secrets: ["password": SecretBytes(secret)])
        let files = FileManager.default
        for name in try files.subpathsOfDirectory(atPath: scratch.path + "/profiles") {
            let bytes = try #require(files.contents(atPath: "\(scratch.path)/profiles/\(name)"))
            #expect(bytes.firstRange(of: secret) == nil)
        }
        #expect(try scratch.everything().firstRange(of: secret) != nil)
        try await manager.remove(profile.id)
        #expect(try scratch.everything().isEmpty)
    }
}
