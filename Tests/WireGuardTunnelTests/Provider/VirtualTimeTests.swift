// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing
import WireGuardCore

@testable import WireGuardTunnel

@Suite("The provider in virtual time", .timeLimit(.minutes(5)))
struct VirtualTimeTests {
    @Test("f1.8: idle for twelve hours, and never called dead")
    func idle() async throws {
        let scene = VirtualScene()
        try await scene.start()
        let statuses = scene.host.statusUpdates()
        while scene.clock.now.offset < .seconds(12 * 3600) { await scene.look() }
        #expect(scene.host.status.status == .connected)
        #expect(scene.plane.state.withLock { $0.pings } >= 1000)
        #expect(scene.plane.state.withLock { $0.rebinds } == 0)
        await scene.host.stop(.userInitiated)
        var seen: [TunnelStatus] = []
        for await update in statuses {
            seen.append(update.status)
            if update.status == .disconnected { break }
        }
        #expect(seen == [.connected, .disconnecting, .disconnected])
    }

    @Test("a dead server is noticed and given up within the documented bounds, by the standard constants")
    func dead() async throws {
        let scene = VirtualScene()
        try await scene.start()
        for _ in 0..<7 { await scene.look() }
        let last = scene.clock.now.offset
        scene.plane.setReachable(false)
        var noticed: Duration?
        while scene.host.status.status == .connected || scene.host.status.status == .reasserting {
            if noticed == nil, scene.host.status.status == .reasserting { noticed = scene.clock.now.offset }
            scene.clock.advanceToNextDeadline()
            #expect(
                await eventually {
                    scene.clock.sleeperCount > 0
                        || (scene.host.status.status != .connected && scene.host.status.status != .reasserting)
                })
        }
        let options = scene.configuration.connectivity
        #expect(try #require(noticed) - last <= options.timeToNotice)
        #expect(scene.clock.now.offset - last <= options.timeToGiveUp)
        #expect(await eventually { scene.host.status.status == .disconnected })
        #expect(scene.host.status.error?.code == .connectivityLost)
        #expect(scene.plane.state.withLock { $0.isClosed })
    }

    @Test("sleep and no network switch keepalives and probes off, and back on")
    func quiet() async throws {
        let scene = VirtualScene { $0.peers[0].persistentKeepalive = 25 }
        try await scene.start()
        let key = try #require(PublicKey(base64: scene.configuration.peers[0].publicKey))
        for round in 0..<4 {
            if round % 2 == 0 { await scene.host.sleep() } else { scene.host.pathChanged(.unsatisfied) }
            #expect(await eventually { scene.plane.state.withLock { $0.keepalives[key] } == 0 })
            #expect(await eventually { scene.clock.sleeperCount == 0 }, "nothing is planned")
            scene.clock.advance(by: .seconds(8 * 3600))
            let rebinds = scene.plane.state.withLock { $0.rebinds }
            if round % 2 == 0 { scene.host.wake() } else { scene.host.pathChanged(NetworkPath()) }
            #expect(await eventually { scene.plane.state.withLock { $0.keepalives[key] } == 25 })
            #expect(scene.plane.state.withLock { $0.rebinds } == rebinds + 1)
            await scene.clock.waitForSleepers()
            while scene.host.status.status != .connected { await scene.look() }
        }
        await scene.host.stop(.userInitiated)
    }
}
