// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing
import WireGuardCore

@testable import WireGuardTunnel

@Suite("The provider in virtual time", .timeLimit(.minutes(5)))
struct VirtualTimeTests {

    @Test("f1.8: a tunnel idle for twelve hours is never reported as dead")
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

    @Test(
        """
        An idle tunnel without an address to ping sends no datagram in an hour and wakes once a minute, with and without \
        traffic before
        """
    )
    func silent() async throws {
        let scene = VirtualScene { $0.connectivity.pingAddress = nil }
        try await scene.start()
        let key = scene.configuration.peers[0].publicKey
        for hasTraffic in [false, true] {
            if hasTraffic {
                scene.plane.exchange(with: key)
                await scene.look()
            }
            let before = scene.plane.state.withLock { ($0.handshakes, $0.pings, $0.rebinds, $0.peers.map(\.sentBytes)) }
            let begun = scene.clock.now.offset
            var wakes = 0
            while scene.clock.now.offset - begun < .seconds(3600) {
                await scene.look()
                wakes += 1
            }
            #expect(wakes <= 70, "\(wakes) wake-ups")
            let after = scene.plane.state.withLock { ($0.handshakes, $0.pings, $0.rebinds, $0.peers.map(\.sentBytes)) }
            #expect(before == after)
            print("idle for an hour: \(after.0 - before.0) handshakes, \(after.1 - before.1) pings")
        }
        #expect(scene.host.status.status == .connected)
        // Packets sent after this are checked as usual.
        scene.plane.setReachable(false)
        let sent = scene.clock.now.offset
        scene.plane.exchange(with: key)
        #expect(await scene.changes.wait { scene.clock.nextDeadline?.offset == sent + .seconds(10) })
        while scene.host.status.status == .connected, scene.clock.now.offset - sent < .seconds(600) {
            await scene.look()
        }
        #expect(scene.host.status.status == .reasserting)
        #expect(scene.clock.now.offset - sent <= scene.configuration.connectivity.timeToNotice)
        await scene.host.stop(.userInitiated)
    }

    @Test("A tunnel with keepalives is checked as usual while it is idle")
    func neverRests() async throws {
        let scene = VirtualScene {
            $0.connectivity.pingAddress = nil
            $0.peers[0].persistentKeepalive = 25
        }
        try await scene.start()
        for _ in 0..<10 { await scene.look() }
        let begun = scene.clock.now.offset
        for _ in 0..<6 { await scene.look() }
        #expect(scene.clock.now.offset - begun == .seconds(60))
        await scene.host.stop(.userInitiated)
    }

    @Test("If a tunnel only waits for other peers to connect, checks become rarer")
    func listensWithPatience() async throws {
        let scene = VirtualScene { $0.peers[0].endpoint = nil }
        try await scene.host.runner.start(scene.configuration, profileID: "test")
        await scene.clock.waitForSleepers()
        for _ in 0..<20 { await scene.look() }
        let begun = scene.clock.now.offset
        for _ in 0..<10 { await scene.look() }
        #expect(scene.clock.now.offset - begun == .seconds(50))
        await scene.host.stop(.userInitiated)
    }

    @Test(
        "With a dead server a tunnel keeps its settings and keeps trying, with any routes, until it works again",
        arguments: [["0.0.0.0/0", "::/0"], ["0.0.0.0/1", "128.0.0.0/1"], ["10.0.0.0/8"]])
    func goesOnTrying(_ routes: [String]) async throws {
        let prefixes = try routes.map { try IPPrefix($0) }
        let scene = VirtualScene { $0.peers[0].allowedIPs = prefixes }
        try await scene.start()
        let last = scene.clock.now.offset
        scene.plane.setReachable(false)
        while scene.clock.now.offset - last < .seconds(1200), scene.host.status.status != .disconnected {
            await scene.look()
        }
        #expect(scene.host.status.status == .reasserting)
        #expect(scene.host.platform.settings?.includedRoutes == prefixes)
        #expect(scene.plane.state.withLock { $0.rebinds } >= 4, "it goes on trying")
        let back = scene.clock.now.offset
        scene.plane.setReachable(true)
        while scene.host.status.status != .connected, scene.clock.now.offset - back < .seconds(3600) {
            await scene.look()
        }
        #expect(scene.clock.now.offset - back <= scene.configuration.connectivity.timeToHeal)
        await scene.host.stop(.userInitiated)
    }

    @Test(
        "With an end configured, a dead server is detected and the tunnel ended within the documented bounds",
        arguments: [ConnectivityOptions.EndWhenDead.afterHealing, .atOnce])
    func dead(_ endWhenDead: ConnectivityOptions.EndWhenDead) async throws {
        let scene = VirtualScene { $0.connectivity.endWhenDead = endWhenDead }
        try await scene.start()
        for _ in 0..<7 { await scene.look() }
        let last = scene.clock.now.offset
        scene.plane.setReachable(false)
        var noticed: Duration?
        while scene.host.status.status == .connected || scene.host.status.status == .reasserting {
            if noticed == nil, scene.host.status.status == .reasserting { noticed = scene.clock.now.offset }
            scene.clock.advanceToNextDeadline()
            #expect(
                await scene.changes.wait {
                    scene.clock.sleeperCount > 0
                        || (scene.host.status.status != .connected && scene.host.status.status != .reasserting)
                })
        }
        let options = scene.configuration.connectivity
        #expect((noticed ?? scene.clock.now.offset) - last <= options.timeToNotice)
        #expect((noticed == nil) == (endWhenDead == .atOnce))
        #expect(scene.clock.now.offset - last <= (try #require(options.timeToGiveUp)))
        #expect(await scene.changes.wait { scene.host.status.status == .disconnected })
        #expect(scene.host.status.error?.code == .connectivityLost)
        #expect(scene.plane.state.withLock { $0.isClosed })
    }

    @Test("Sleep and no network switch keepalives and probes off, and back on")
    func quiet() async throws {
        let scene = VirtualScene { $0.peers[0].persistentKeepalive = 25 }
        try await scene.start()
        let key = scene.configuration.peers[0].publicKey
        for round in 0..<4 {
            if round % 2 == 0 { await scene.host.sleep() } else { scene.host.pathChanged(.unsatisfied) }
            #expect(await scene.changes.wait { scene.plane.state.withLock { $0.keepalives[key] } == 0 })
            #expect(await scene.changes.wait { scene.clock.sleeperCount == 0 }, "nothing is planned")
            scene.clock.advance(by: .seconds(8 * 3600))
            let rebinds = scene.plane.state.withLock { $0.rebinds }
            if round % 2 == 0 { scene.host.wake() } else { scene.host.pathChanged(NetworkPath()) }
            #expect(await scene.changes.wait { scene.plane.state.withLock { $0.keepalives[key] } == 25 })
            #expect(scene.plane.state.withLock { $0.rebinds } == rebinds + 1)
            await scene.clock.waitForSleepers()
            while scene.host.status.status != .connected { await scene.look() }
        }
        await scene.host.stop(.userInitiated)
    }

    @Test("After sleep without a network, reasserting ends with proof on a new one")
    func sleepsOffline() async throws {
        let scene = VirtualScene()
        try await scene.start()
        scene.host.pathChanged(.unsatisfied)
        #expect(await scene.changes.wait { scene.host.status.status == .reasserting })
        await scene.host.sleep()
        scene.host.pathChanged(NetworkPath())
        scene.host.wake()
        #expect(await scene.changes.wait { scene.plane.state.withLock { $0.rebinds } == 1 })
        for _ in 0..<4 {
            await scene.clock.waitForSleepers()
            scene.clock.advanceToNextDeadline()
        }
        #expect(await scene.changes.wait { scene.host.status.status == .connected })
        await scene.host.stop(.userInitiated)
    }

    /// A tunnel with another peer, which has no default route.
    /// - Returns: The tunnel, and the key of the other peer.
    func sceneOfTwoPeers(
        endpoint: EndpointAddress, _ adjust: (inout WireGuardTunnelConfiguration) -> Void = { _ in }
    ) throws -> (VirtualScene, PublicKey) {
        var random = SeededGenerator(seed: 12)
        let other = PrivateKey(using: &random).publicKey
        let prefix = try IPPrefix("10.1.0.0/16")
        let scene = VirtualScene {
            $0.peers.append(.init(publicKey: other, allowedIPs: [prefix], endpoint: endpoint))
            adjust(&$0)
        }
        return (scene, other)
    }

    @Test("A dead server with a default route is detected, although other peers live")
    func deadGateway() async throws {
        let (scene, other) = try sceneOfTwoPeers(endpoint: "198.51.100.2:51820") {
            // The other peer answers pings.
            $0.connectivity.pingAddress = nil
        }
        try await scene.start(leakPolicy: .enforcedRoutes)
        let gateway = scene.configuration.peers[0].publicKey
        scene.plane.setSilent(gateway, true)
        let last = scene.clock.now.offset
        while scene.host.status.status == .connected, scene.clock.now.offset - last < .seconds(600) {
            scene.plane.exchange(with: other)
            scene.plane.exchange(with: gateway)
            await scene.look()
        }
        #expect(scene.host.status.status == .reasserting)
        #expect(scene.clock.now.offset - last <= scene.configuration.connectivity.timeToNotice)
        let peers = try await scene.status().peers
        #expect(peers.map(\.isSilent) == [true, false])
        scene.plane.setSilent(gateway, false)
        for _ in 0..<200 where scene.host.status.status != .connected {
            scene.plane.exchange(with: gateway)
            await scene.look()
        }
        #expect(scene.host.status.status == .connected)
        await scene.host.stop(.userInitiated)
    }

    @Test("A tunnel that only peers can start does not end after a pause, and waits for a peer")
    func responder() async throws {
        let scene = VirtualScene { $0.peers[0].endpoint = nil }
        try await scene.host.runner.start(scene.configuration, profileID: "test")
        let key = scene.configuration.peers[0].publicKey
        #expect(scene.host.status.status == .reasserting)
        for _ in 0..<2 {
            await scene.look()
            #expect(scene.host.status.status == .reasserting)
        }
        // An initiation that may be a replay.
        scene.plane.exchange(with: key)
        await scene.look()
        #expect(scene.host.status.status == .reasserting)
        scene.plane.requestHandshake(with: key)
        scene.clock.advanceToNextDeadline()
        #expect(await scene.changes.wait { scene.host.status.status == .connected })
        scene.host.pathChanged(.unsatisfied)
        #expect(await scene.changes.wait { scene.host.status.status == .reasserting })
        scene.plane.setReachable(false)
        scene.host.pathChanged(NetworkPath())
        for _ in 0..<1_000 { await scene.look() }
        #expect(scene.host.status.status == .reasserting)
        scene.plane.setReachable(true)
        scene.plane.exchange(with: key)
        scene.clock.advanceToNextDeadline()
        #expect(await scene.changes.wait { scene.host.status.status == .connected })
        await scene.host.stop(.userInitiated)
    }
}
