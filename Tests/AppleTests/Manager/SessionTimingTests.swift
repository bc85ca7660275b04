// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import NetworkExtension
import PacketTunnelTesting
import Testing

@testable import PacketTunnel
@testable import PacketTunnelApple

@Suite("Starts, stops and messages while the system takes its time", .timeLimit(.minutes(5)))
struct SessionTimingTests {
    /// The calls of the app to a session, in order.
    private func calls(to session: StandInSession) -> (log: Eavesdropper<String>, changes: Changes) {
        let (log, changes) = (Eavesdropper<String>(), Changes())
        session.setCallHandler {
            log.observe($0)
            changes.notify()
        }
        return (log, changes)
    }

    /// A start that the system has not begun, on a clock that the test moves.
    private struct HeldStart {
        let scene: ManagerScene
        let clock: VirtualClock
        let profile: TunnelProfile
        let session: StandInSession
        let starting: Task<Void, any Error>
        /// The app's calls to the session.
        let log: Eavesdropper<String>
        /// The statuses of the profile's channel since the start.
        let statuses = Eavesdropper<TunnelStatus>()
        /// The changes of both.
        let changes: Changes
    }

    private func heldStart() async throws -> HeldStart {
        let clock = VirtualClock()
        let scene = ManagerScene { $0.clock = clock }
        let profile = scene.profile()
        try await scene.manager.create(profile)
        let session = try scene.session(profile)
        let (log, changes) = calls(to: session)
        session.holdStarts()
        let starting = Task { try await scene.manager.start(profile.id) }
        try #require(await changes.wait { log.messages.contains("start") })
        let held = HeldStart(
            scene: scene, clock: clock, profile: profile, session: session, starting: starting, log: log,
            changes: changes)
        let (statuses, updates) = (held.statuses, scene.store.channel(for: profile).statusUpdates())
        Task {
            for await update in updates {
                statuses.observe(update.status)
                changes.notify()
            }
        }
        try #require(await changes.wait { statuses.messages.first == .disconnected })
        return held
    }

    @Test("A stop right after a start leaves the tunnel down, and the start fails")
    func stopAfterStart() async throws {
        let held = try await heldStart()
        let (scene, session, profile) = (held.scene, held.session, held.profile)
        let (log, changes) = (held.log, held.changes)
        // The system has not begun yet: it ignores this stop.
        let stopping = Task { try await scene.manager.stop(profile.id) }
        #expect(await changes.wait { log.messages.contains("stop") })
        session.releaseStarts()
        try await stopping.value(within: .seconds(60))
        await #expect {
            try await held.starting.value(within: .seconds(60))
        } throws: {
            ($0 as? TunnelError)?.code == .stopped
        }
        #expect(await scene.manager.status(profile.id).status == .disconnected)
        #expect(session.runningProvider == nil)
    }

    @Test("A start that is cancelled while the configuration is being saved leaves the tunnel down")
    func cancelledWhileSaving() async throws {
        let scene = ManagerScene()
        let profile = scene.profile()
        try await scene.manager.create(profile)
        let saves = Changes()
        let count = Eavesdropper<String>()
        StandInPreferences.holdSaves(of: scene.bundle) {
            count.observe("save")
            saves.notify()
        }
        let starting = Task { try await scene.manager.start(profile.id) }
        #expect(await saves.wait { count.count == 1 })
        starting.cancel()
        await #expect(throws: TunnelError.self) { try await starting.value }
        StandInPreferences.releaseSaves(of: scene.bundle)
        // The next start begins once the first one has ended. The provider was started once.
        try await scene.manager.start(profile.id)
        #expect(scene.script.calls.messages.filter { $0 == "start" }.count == 1)
        try await scene.manager.stop(profile.id)
    }

    @Test("A start that times out while the configuration is being saved leaves the tunnel down")
    func timedOutWhileSaving() async throws {
        let clock = VirtualClock()
        let scene = ManagerScene { $0.clock = clock }
        let profile = scene.profile()
        try await scene.manager.create(profile)
        let saves = Changes()
        let count = Eavesdropper<String>()
        func hold() {
            StandInPreferences.holdSaves(of: scene.bundle) {
                count.observe("save")
                saves.notify()
            }
        }
        hold()
        let starting = Task { try await scene.manager.start(profile.id) }
        #expect(await saves.wait { count.count == 1 })
        await clock.waitForSleepers()
        clock.advance(by: scene.options.startTimeout)
        await #expect {
            try await starting.value
        } throws: {
            ($0 as? TunnelError)?.code == .startTimedOut
        }
        let second = Task { try await scene.manager.start(profile.id) }
        StandInPreferences.releaseSaves(of: scene.bundle)
        try await second.value
        #expect(scene.script.calls.messages.filter { $0 == "start" }.count == 1)
        try await scene.manager.stop(profile.id)
        #expect(await scene.manager.status(profile.id).status == .disconnected)
    }

    @Test("A disconnected status that the system repeats does not end a start")
    func repeated() async throws {
        let held = try await heldStart()
        let manager = held.scene.manager
        held.session.repeatStatus()
        #expect(await held.changes.wait { held.statuses.count >= 2 })
        #expect(held.statuses.messages.prefix(2) == [.disconnected, .disconnected])
        // One sleeper is the start's deadline, the other one looks for a cancellation.
        #expect(await held.clock.hasSleepers(2))
        held.session.releaseStarts()
        try await held.starting.value(within: .seconds(60))
        #expect(await manager.status(held.profile.id).status == .connected)
        try await manager.stop(held.profile.id)
    }

    @Test("A start that the system begins only after the start's deadline is stopped immediately")
    func neverBegun() async throws {
        let held = try await heldStart()
        let (clock, session, log, statuses) = (held.clock, held.session, held.log, held.statuses)
        session.repeatStatus()
        try #require(await clock.hasSleepers(2))
        clock.advance(by: .seconds(3))
        // It looked for a cancellation, and waits on.
        try #require(await clock.hasSleepers(2))
        clock.advance(by: held.scene.options.startTimeout)
        await #expect {
            try await held.starting.value(within: .seconds(60))
        } throws: {
            ($0 as? TunnelError)?.code == .startTimedOut
        }
        let ignored = log.messages.filter { $0 == "stop" }.count
        #expect(ignored > 0 && session.runningProvider == nil)
        session.releaseStarts()
        let isDown = await held.changes.wait {
            statuses.messages.contains(.connecting) && statuses.messages.last == .disconnected
        }
        #expect(isDown)
        #expect(await held.changes.wait { log.messages.filter { $0 == "stop" }.count > ignored })
        #expect(session.runningProvider == nil)
    }

    @Test("A message that is not answered ends with the tunnel, not at its own deadline")
    func messageAtEnd() async throws {
        let scene = ManagerScene()
        let profile = scene.profile()
        try await scene.manager.create(profile)
        try await scene.manager.start(profile.id)
        let session = try scene.session(profile)
        let (log, changes) = calls(to: session)
        session.hang()
        // Its deadline is on a clock that stands still.
        let client = scene.manager.client(for: profile.id, clock: VirtualClock())
        let asking = Task { try await client.send(EchoMessage()) }
        #expect(await changes.wait { log.messages.contains("message") })
        session.endHung()
        await #expect(throws: MessageError.closed) { try await asking.value(within: .seconds(60)) }
    }

    @Test("A stop does not wait for a hung extension to report that it blocks")
    func stopHung() async throws {
        // The inquiry's deadline is on a clock that stands still.
        let clock = VirtualClock()
        let scene = ManagerScene { $0.clock = clock }
        let profile = scene.profile()
        try await scene.manager.create(profile)
        try await scene.manager.start(profile.id)
        let session = try scene.session(profile)
        let (log, changes) = calls(to: session)
        session.hang()
        scene.script.context?.setReasserting(true)
        #expect(await changes.wait { log.messages.contains("message") })
        let stopping = Task { try await scene.manager.stop(profile.id) }
        #expect(await changes.wait { log.messages.contains("stop") })
        // The system's next status ends the inquiry, before the extension ends.
        changes.follow(scene.store.channel(for: profile).statusUpdates())
        try #require(await changes.wait { await scene.manager.status(profile.id).status == .disconnecting })
        session.endHung()
        try await stopping.value(within: .seconds(60))
        #expect(await scene.manager.status(profile.id).status == .disconnected)
    }
}

/// A message that no provider answers here.
private struct EchoMessage: TunnelMessage {
    struct Reply: Codable, Sendable {}
    static let name = "example.echo"
}
