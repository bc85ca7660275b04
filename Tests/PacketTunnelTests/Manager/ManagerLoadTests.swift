// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import PacketTunnelTesting
import Synchronization
import Testing
import TunnelSystem

@testable import PacketTunnel

/// A store whose loads read immediately and return when the test releases them.
private final class HeldStore: ProfileStore {
    let profiles = MemoryProfileStore()
    let changes = Changes()
    private let state = Mutex<(isHolding: Bool, waiting: [OneShot<Void>], unreadable: [UnreadableProfile])>(
        (false, [], []))

    /// The number of loads that have read and wait.
    var waitingCount: Int { state.withLock { $0.waiting.count } }

    func hold() { state.withLock { $0.isHolding = true } }

    func release() {
        let waiting = state.withLock { state in
            state.isHolding = false
            defer { state.waiting = [] }
            return state.waiting
        }
        for load in waiting { load.finish(()) }
    }

    func releaseLast() { state.withLock { $0.waiting.popLast() }?.finish(()) }

    func setUnreadable(_ unreadable: [UnreadableProfile]) { state.withLock { $0.unreadable = unreadable } }

    func loadAll() async throws(TunnelError) -> LoadedProfiles {
        var loaded = try await profiles.loadAll()
        let turn = OneShot<Void>()
        let isHeld = state.withLock { state in
            let ids = state.unreadable.map(\.id)
            loaded.profiles.removeAll { ids.contains($0.id) }
            loaded.unreadable = state.unreadable
            loaded.errors = state.unreadable.map(\.error)
            if state.isHolding { state.waiting.append(turn) }
            return state.isHolding
        }
        changes.notify()
        if isHeld { await turn.value }
        return loaded
    }

    func save(_ profile: TunnelProfile) async throws(TunnelError) { try await profiles.save(profile) }
    func remove(_ id: String) async throws(TunnelError) { try await profiles.remove(id) }
}

/// A tunnel that starts immediately, and whose stops return when the test releases them.
private final class HeldChannel: Tunnel {
    private let changes: Changes
    private let updates = Broadcast(TunnelStatusUpdate(.disconnected))
    private let state = Mutex<(isHolding: Bool, stops: [OneShot<Void>])>((false, []))

    /// - Parameter changes: tells of each stop that is held.
    init(_ changes: Changes) { self.changes = changes }

    func hold() { state.withLock { $0.isHolding = true } }

    /// The number of stops that are held or were released.
    var stopCount: Int { state.withLock { $0.stops.count } }

    func releaseStop(_ index: Int) { state.withLock { $0.stops[index] }.finish(()) }

    var status: TunnelStatusUpdate { updates.current }
    func statusUpdates() -> AsyncStream<TunnelStatusUpdate> { updates.follow() }
    func start(_ request: TunnelStartRequest) async throws(TunnelError) { updates.send(TunnelStatusUpdate(.connected)) }
    func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]? { nil }

    func stop(_ reason: StopReason) async throws(TunnelError) {
        let turn = state.withLock { state -> OneShot<Void>? in
            guard state.isHolding else { return nil }
            state.stops.append(OneShot())
            return state.stops.last
        }
        if let turn {
            updates.send(TunnelStatusUpdate(.disconnecting))
            changes.notify()
            await turn.value
        }
        updates.send(TunnelStatusUpdate(.disconnected))
    }
}

@Suite("Loads of the tunnel manager", .timeLimit(.minutes(1)))
struct ManagerLoadTests {
    private func manager(_ store: HeldStore) -> TunnelManager {
        let secrets = MemorySecretStore()
        return TunnelManager(store: store, secrets: secrets) { _ in
            MemoryHost(secrets: secrets) { ScriptedProvider() }
        }
    }

    /// Does something after a load has read and before it returns.
    private func during(_ store: HeldStore, _ manager: TunnelManager, _ body: () async throws -> Void) async throws {
        store.hold()
        let loading = Task { try await manager.load() }
        #expect(await store.changes.wait { store.waitingCount == 1 })
        try await body()
        store.release()
        #expect(try await loading.value.isEmpty)
    }

    @Test("A load does not undo a creation, a change or a removal that happens while it runs")
    func changes() async throws {
        let store = HeldStore()
        let manager = manager(store)
        var profile = ManagerScene.profile("Home")
        let created = profile
        try await during(store, manager) { try await manager.create(created) }
        #expect(await manager.profiles == [created])
        profile.name = "Work"
        let changed = profile
        try await during(store, manager) { try await manager.update(changed) }
        #expect(await manager.profiles == [changed])
        try await during(store, manager) { try await manager.remove(changed.id) }
        #expect(await manager.profiles.isEmpty)
    }

    @Test("An earlier load that ends later does not replace newer values")
    func order() async throws {
        let store = HeldStore()
        let manager = manager(store)
        let profile = ManagerScene.profile("Home")
        try await during(store, manager) {
            // Another process saves it.
            try await store.save(profile)
            let second = Task { try await manager.load() }
            #expect(await store.changes.wait { store.waitingCount == 2 })
            store.releaseLast()
            #expect(try await second.value.isEmpty)
        }
        #expect(await manager.profiles == [profile])
    }

    @Test(
        "A profile that cannot be read keeps its last value and its tunnel; one never read can be stopped and removed")
    func unreadable() async throws {
        let store = HeldStore()
        let one = manager(store)
        let profile = ManagerScene.profile("Home")
        try await one.create(profile)
        try await one.start(profile.id)
        let error = TunnelError(.storage, "the item cannot be read")
        store.setUnreadable([UnreadableProfile(id: profile.id, name: "Home", error: error)])
        #expect(try await one.load() == [error])
        #expect(await one.profiles == [profile])
        #expect(await one.status(profile.id).status == .connected)
        #expect(await one.unreadableProfiles.map(\.error) == [error])
        try await one.stop(profile.id)

        let two = manager(store)
        #expect(try await two.load() == [error])
        #expect(await two.profiles.isEmpty)
        #expect(await two.status(profile.id).status == .disconnected)
        await #expect(throws: error) { _ = try await two.profile(profile.id) }
        await #expect(throws: error) { try await two.start(profile.id) }
        try await two.stop(profile.id)
        store.setUnreadable([])
        try await two.load()
        #expect(await two.profiles == [profile])
        store.setUnreadable([UnreadableProfile(id: profile.id, name: "Home", error: error)])
        let three = manager(store)
        try await three.load()
        try await three.remove(profile.id)
        #expect(await three.unreadableProfiles.isEmpty)
        #expect(try await store.profiles.loadAll().profiles.isEmpty)
    }

    @Test("A stop while a start still takes another tunnel down keeps the first one from starting")
    func stopBeforeStart() async throws {
        let scene = ManagerScene()
        let (one, two) = (ManagerScene.profile("One"), ManagerScene.profile("Two"))
        try await scene.manager.create(one)
        try await scene.manager.create(two)
        try await scene.manager.start(one.id)
        let script = try #require(scene.hosts[one.id]?.script)
        script.plan.stopWaits = true
        let starting = Task { try await scene.manager.start(two.id) }
        await script.noted("stop superseded")
        try await scene.manager.stop(two.id)
        script.release()
        await #expect {
            try await starting.value
        } throws: {
            ($0 as? TunnelError)?.code == .stopped
        }
        #expect(scene.hosts[two.id]?.script.calls.messages.contains("start") == false)
        #expect(await scene.manager.status(two.id).status == .disconnected)
    }

    @Test(
        "Of two starts that wait for the same tunnel to go down, only the later one brings its tunnel up, in either order",
        arguments: [0, 1])
    func twoStarts(_ first: Int) async throws {
        // Ids are random, and with them the order in which a start stops the other tunnels.
        for _ in 0..<20 {
            let changes = Changes()
            let profiles = ["One", "Two", "Three"].map { ManagerScene.profile($0) }
            let channels = Dictionary(uniqueKeysWithValues: profiles.map { ($0.id, HeldChannel(changes)) })
            let manager = TunnelManager(store: MemoryProfileStore(), secrets: MemorySecretStore()) {
                (profile) throws(TunnelError) in
                guard let channel = channels[profile.id] else { throw .noProfile(profile.id) }
                return channel
            }
            for profile in profiles { try await manager.create(profile) }
            try await manager.start(profiles[0].id)
            let one = try #require(channels[profiles[0].id])
            one.hold()
            var starts: [Task<Void, any Error>] = []
            for profile in profiles.dropFirst() {
                starts.append(Task { try await manager.start(profile.id) })
                try #require(await changes.wait { one.stopCount == starts.count })
            }
            one.releaseStop(first)
            _ = await starts[first].result
            one.releaseStop(1 - first)
            let error = await #expect(throws: TunnelError.self) { try await starts[0].value }
            #expect(error?.code == .stopped)
            await #expect(throws: Never.self) { try await starts[1].value }
            var statuses: [TunnelStatus] = []
            for profile in profiles { statuses.append(await manager.status(profile.id).status) }
            #expect(statuses == [.disconnected, .disconnected, .connected])
        }
    }
}
