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

    @Test(
        "The host of an idle tunnel learns within ten seconds of a peer that roams into a routed network"
    )
    func roamsWhileIdle() async throws {
        let routes = try ["200.0.0.0/5", "10.0.0.0/8"].map { try IPPrefix($0) }
        let scene = VirtualScene {
            $0.connectivity.pingAddress = nil
            $0.peers[0].allowedIPs = routes
        }
        scene.host.platform.setSocketMark(51_820)
        try await scene.start()
        for _ in 0..<10 { await scene.look() }
        let begun = scene.clock.now.offset
        await scene.look()
        #expect(scene.clock.now.offset - begun == .seconds(60), "the tunnel rests")
        let roamed = scene.clock.now.offset
        scene.plane.roam(to: .v4(203, 0, 113, 7))
        #expect(await scene.changes.wait { scene.clock.nextDeadline?.offset == roamed + .seconds(10) })
        await scene.look()
        #expect(
            await scene.changes.wait {
                scene.host.platform.settings?.serverAddresses.contains(.v4(203, 0, 113, 7)) == true
            })
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
        "The host learns of a server in a network that is routed into the tunnel: by name, and by roaming"
    )
    func serverInside() async throws {
        let routes = try ["200.0.0.0/5", "10.0.0.0/8"].map { try IPPrefix($0) }
        let scene = VirtualScene {
            $0.peers[0].endpoint = "vpn.example:51820"
            $0.peers[0].allowedIPs = routes
        }
        scene.host.platform.setSocketMark(51_820)
        scene.resolver.set("vpn.example", .addresses([.v4(192, 0, 2, 1)]))
        try await scene.start()
        func servers() -> [IPAddress] { scene.host.platform.settings?.serverAddresses ?? [] }
        #expect(servers() == [.v4(192, 0, 2, 1)])
        // A roaming peer, which the device follows by itself.
        let key = scene.configuration.peers[0].publicKey
        func roam(to address: IPAddress) async {
            scene.plane.state.withLock { $0.peers[0].endpoint = Endpoint(address: address, port: 51_820) }
            scene.plane.exchange(with: key)
            await scene.look()
        }
        await roam(to: .v4(192, 0, 2, 2))
        #expect(scene.host.platform.history.count == 1, "nothing is routed there")
        await roam(to: .v4(203, 0, 113, 7))
        #expect(await scene.changes.wait { servers().contains(.v4(203, 0, 113, 7)) })
        await roam(to: .v4(203, 0, 113, 8))
        #expect(scene.host.platform.history.count == 2, "the network is known already")
        // A name that resolves there, before the peer moves.
        scene.resolver.set("vpn.example", .addresses([.v4(10, 1, 2, 3)]))
        scene.host.pathChanged(NetworkPath(interfaces: [.init(name: "eth1", kind: .ethernet)]))
        #expect(await scene.changes.wait { scene.plane.peers().first?.endpoint?.address == .v4(10, 1, 2, 3) })
        #expect(servers().contains(.v4(10, 1, 2, 3)))
        await scene.host.stop(.userInitiated)
    }

    @Test("Without a default route, a route to the server counts")
    func attachedNetworks() async throws {
        let (inside, outside) = (try IPPrefix("198.51.100.0/24"), try IPPrefix("172.17.0.0/16"))
        func path(_ network: IPPrefix) -> NetworkPath {
            var path = NetworkPath.unsatisfied
            path.attachedNetworks = [network]
            return path
        }
        let scene = VirtualScene()
        try await scene.start()
        scene.host.pathChanged(path(outside))
        #expect(await scene.changes.wait { scene.host.status.status == .reasserting })
        #expect(try await scene.status().state == .paused)
        scene.host.pathChanged(path(inside))
        while scene.host.status.status != .connected { await scene.look() }
        #expect(try await scene.status().state == .connected)
        // Another local address is another way for packets.
        let rebinds = scene.plane.state.withLock { $0.rebinds }
        var other = path(inside)
        other.endsOfWay = [.v4(198, 51, 100, 9)]
        scene.host.pathChanged(other)
        #expect(await scene.changes.wait { scene.plane.state.withLock { $0.rebinds } == rebinds + 1 })
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

    @Test("A dead server with a default route is detected, although other peers live")
    func deadGateway() async throws {
        var random = SeededGenerator(seed: 12)
        let other = PrivateKey(using: &random).publicKey
        let prefix = try IPPrefix("10.1.0.0/16")
        let scene = VirtualScene {
            $0.peers.append(
                .init(
                    publicKey: other, allowedIPs: [prefix], endpoint: "198.51.100.2:51820"))
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

    @Test("A silent peer without a default route is resolved separately, and the tunnel stays connected")
    func silentPeer() async throws {
        var random = SeededGenerator(seed: 12)
        let other = PrivateKey(using: &random).publicKey
        let prefix = try IPPrefix("10.1.0.0/16")
        let scene = VirtualScene {
            $0.peers.append(
                .init(
                    publicKey: other, allowedIPs: [prefix], endpoint: "lab.example:51820"))
        }
        scene.resolver.set("lab.example", .addresses([.v4(198, 51, 100, 2), .v4(198, 51, 100, 3)]))
        try await scene.start()
        let gateway = scene.configuration.peers[0].publicKey
        scene.plane.setSilent(other, true)
        let asked = scene.resolver.asked.count
        while scene.resolver.asked.count == asked, scene.clock.now.offset < .seconds(600) {
            scene.plane.exchange(with: other)
            scene.plane.exchange(with: gateway)
            await scene.look()
        }
        #expect(scene.resolver.asked.count > asked)
        #expect(
            await scene.changes.wait {
                scene.plane.peers().first { $0.publicKey == other }?.endpoint?.address
                    == IPAddress.v4(0xc633_6403)
            }, "its next address is tried")
        #expect(scene.host.status.status == .connected)
        #expect(try await scene.status().peers.map(\.isSilent) == [false, true])
        #expect(scene.plane.state.withLock { $0.rebinds } == 0)
        await scene.host.stop(.userInitiated)
    }

    @Test("Failed lookups on a new network are repeated soon")
    func repeatsLookups() async throws {
        let scene = VirtualScene { $0.peers[0].endpoint = "vpn.example:51820" }
        scene.resolver.set("vpn.example", .addresses([.v4(198, 51, 100, 1)]))
        try await scene.start(leakPolicy: .enforcedRoutes)
        scene.resolver.set("vpn.example", .failure)
        scene.plane.setReachable(false)
        let asked = scene.resolver.asked.count
        scene.host.pathChanged(NetworkPath(interfaces: [.init(name: "pdp0", kind: .cellular)]))
        #expect(await scene.changes.wait { scene.resolver.asked.count == asked + 1 })
        scene.resolver.set("vpn.example", .addresses([.v4(198, 51, 100, 9)]))
        // The name is resolved again after a second, and a few more times; healing would resolve it after 40 s.
        var isFound = false
        for _ in 0..<30 where !isFound {
            scene.clock.advance(by: .seconds(1))
            isFound = await scene.changes.wait(within: .milliseconds(400)) {
                scene.plane.peers().first?.endpoint?.address == IPAddress.v4(0xc633_6409)
            }
        }
        #expect(isFound)
        await scene.host.stop(.userInitiated)
    }

    @Test(
        "Another configuration while it is paused is taken on without lookups, and it stays quiet",
        arguments: [true, false])
    func reconfiguresPaused(offline: Bool) async throws {
        let scene = VirtualScene {
            $0.peers[0].endpoint = "vpn.example:51820"
            $0.peers[0].persistentKeepalive = 25
        }
        scene.resolver.set("vpn.example", .addresses([.v4(198, 51, 100, 1)]))
        try await scene.start()
        let key = scene.configuration.peers[0].publicKey
        if offline {
            scene.host.pathChanged(.unsatisfied)
            #expect(await scene.changes.wait { scene.host.status.status == .reasserting })
            scene.resolver.set("vpn.example", .failure)
        } else {
            await scene.host.sleep()
        }
        var configuration = scene.configuration
        configuration.mtu = 1300
        _ = try await scene.send(ReconfigureRequest(configuration: configuration))
        #expect(scene.host.platform.settings?.mtu == 1300)
        #expect(scene.plane.state.withLock { $0.keepalives[key] } == 0)
        #expect(await scene.changes.wait { scene.clock.sleeperCount == 0 })
        scene.resolver.set("vpn.example", .addresses([.v4(198, 51, 100, 7)]))
        if offline { scene.host.pathChanged(NetworkPath()) } else { scene.host.wake() }
        #expect(await scene.changes.wait { scene.plane.peers().first?.endpoint?.address == IPAddress.v4(0xc633_6407) })
        #expect(scene.plane.state.withLock { $0.keepalives[key] } == 25)
        for _ in 0..<20 where scene.host.status.status != .connected { await scene.look() }
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

    @Test(
        "Without a known address, the server's name is resolved again without end, even without a monitor")
    func asksForEver() async throws {
        let scene = VirtualScene {
            $0.peers[0].endpoint = "vpn.example:51820"
            $0.waitsForHandshake = false
            $0.connectivity.isEnabled = false
            // Pings are answered here without an endpoint.
            $0.connectivity.pingAddress = nil
        }
        scene.plane.setReachable(false)
        try await scene.host.runner.start(scene.configuration, profileID: "test")
        #expect(scene.host.status.status == .reasserting)
        let begun = scene.clock.now.offset
        while scene.clock.now.offset - begun < .seconds(1800) {
            scene.clock.advanceToNextDeadline()
            // The monitor and the resolving task.
            await scene.clock.waitForSleepers(2)
        }
        let asked = scene.resolver.asked.count
        #expect(asked > 30, "at least every minute")
        #expect(scene.host.status.status == .reasserting)
        scene.resolver.set("vpn.example", .addresses([.v4(198, 51, 100, 1)]))
        scene.plane.setReachable(true)
        let back = scene.clock.now.offset
        while scene.host.status.status != .connected, scene.clock.now.offset - back < .seconds(300) {
            scene.clock.advanceToNextDeadline()
            // The resolving task ends once the tunnel is connected.
            _ = await scene.changes.wait {
                scene.clock.sleeperCount > 0 || scene.host.status.status == .connected
            }
        }
        #expect(scene.host.status.status == .connected)
        #expect(scene.plane.peers().first?.endpoint?.address == IPAddress.v4(198, 51, 100, 1))
        await scene.host.stop(.userInitiated)
    }

    @Test("A start tries every address of the server's name")
    func startTriesAll() async throws {
        let scene = VirtualScene { $0.peers[0].endpoint = "vpn.example:51820" }
        scene.resolver.set("vpn.example", .addresses([.v4(198, 51, 100, 1), .v4(198, 51, 100, 2)]))
        scene.plane.setReachable(false)
        let starting = Task { try await scene.host.runner.start(scene.configuration, profileID: "test") }
        // The lookup is over; the start's deadline and the wait for proof sleep on the clock.
        #expect(
            await scene.changes.wait { scene.plane.peers().first?.endpoint != nil && scene.clock.sleeperCount == 2 })
        while scene.plane.peers().first?.endpoint?.address != IPAddress.v4(0xc633_6402) {
            guard scene.clock.now.offset < .seconds(25) else { break }
            await scene.clock.waitForSleepers(2)
            scene.clock.advance(by: .milliseconds(20))
        }
        scene.plane.setReachable(true)
        scene.plane.requestHandshake(with: scene.configuration.peers[0].publicKey)
        while scene.host.status.status != .connected {
            try #require(
                await scene.changes.wait {
                    scene.clock.sleeperCount >= 2 || scene.host.status.status == .connected
                })
            scene.clock.advance(by: .milliseconds(20))
        }
        try await starting.value
        #expect(scene.plane.peers().first?.endpoint?.address == IPAddress.v4(0xc633_6402))
        await scene.host.stop(.userInitiated)
    }

    @Test("After a move to a broken network, the name is resolved again in the first round of healing")
    func healsByName() async throws {
        let scene = VirtualScene { $0.peers[0].endpoint = "vpn.example:51820" }
        scene.resolver.set("vpn.example", .addresses([.v4(198, 51, 100, 1), .v4(198, 51, 100, 2)]))
        try await scene.start(leakPolicy: .enforcedRoutes)
        scene.plane.setReachable(false)
        scene.host.pathChanged(NetworkPath(interfaces: [.init(name: "pdp0", kind: .cellular)]))
        #expect(await scene.changes.wait { scene.resolver.asked.count == 2 })
        let begun = scene.clock.now.offset
        while scene.plane.peers().first?.endpoint?.address != IPAddress.v4(0xc633_6402),
            scene.clock.now.offset - begun < .seconds(50)
        {
            await scene.look()
            _ = await scene.changes.wait(within: .milliseconds(400)) { scene.clock.sleeperCount == 1 }
        }
        #expect(scene.resolver.asked.count >= 3)
        #expect(await scene.changes.wait { scene.plane.peers().first?.endpoint?.address == IPAddress.v4(0xc633_6402) })
        await scene.host.stop(.userInitiated)
    }

    @Test("A repeated notification of one path changes nothing")
    func samePath() async throws {
        let scene = VirtualScene { $0.peers[0].endpoint = "vpn.example:51820" }
        scene.resolver.set("vpn.example", .addresses([.v4(198, 51, 100, 1)]))
        try await scene.start()
        let asked = scene.resolver.asked.count
        for _ in 0..<10 {
            var path = NetworkPath()
            // A change that does not affect routing.
            path.isExpensive.toggle()
            scene.host.pathChanged(path)
        }
        // Sleep is handled after the paths, and the test waits for it.
        await scene.host.sleep()
        #expect(scene.plane.state.withLock { $0.rebinds } == 0)
        #expect(scene.resolver.asked.count == asked, "no name is resolved again")
        #expect(scene.host.status.status == .connected)
        await scene.host.stop(.userInitiated)
    }

    /// Starts a reconfiguration whose settings hang, and cancels it.
    private func cancelReconfiguration(_ scene: VirtualScene, then behaviour: MemoryPlatform.Behaviour) async throws {
        var configuration = scene.configuration
        configuration.mtu = 1300
        let changed = configuration
        let provider = try await scene.host.runner.withProvider { $0 }
        scene.host.platform.setApply(.hangForever)
        let changing = Task { try await provider.reconfigure(changed) }
        #expect(await scene.changes.wait { scene.host.platform.hangingCount == 1 })
        changing.cancel()
        scene.host.platform.setApply(behaviour)
        scene.host.platform.releaseAll()
        let error = await #expect(throws: TunnelError.self) { try await changing.value }
        #expect(error?.code == .closed)
    }

    @Test("A reconfiguration that is cancelled while its settings are applied restores the former settings")
    func reconfigurationCancelled() async throws {
        let scene = VirtualScene()
        try await scene.start()
        let settings = try #require(scene.host.platform.settings)
        try await cancelReconfiguration(scene, then: .succeed)
        #expect(scene.host.platform.history == [settings, settings])
        for _ in 0..<20 where scene.host.status.status != .connected { await scene.look() }
        #expect(scene.host.status.status == .connected)
        await scene.host.stop(.userInitiated)
    }

    @Test("A tunnel ends if its former settings cannot be restored")
    func settingsNotRestored() async throws {
        let scene = VirtualScene()
        try await scene.start()
        try await cancelReconfiguration(scene, then: .fail(TunnelError(.settingsFailed, "no route")))
        #expect(await scene.changes.wait { scene.host.status.status == .disconnected })
        #expect(scene.host.status.error?.code == .settingsFailed)
    }

    @Test("A reconfiguration is refused before the first handshake")
    func reconfiguresTooEarly() async throws {
        let scene = VirtualScene()
        scene.plane.setReachable(false)
        let starting = Task { try await scene.host.runner.start(scene.configuration, profileID: "test") }
        #expect(await scene.changes.wait { scene.plane.state.withLock { $0.handshakes } > 0 })
        await #expect(throws: MessageError.self) {
            _ = try await scene.send(ReconfigureRequest(configuration: scene.configuration))
        }
        #expect(scene.host.platform.history.count == 1)
        await scene.host.stop(.userInitiated)
        await #expect(throws: TunnelError.self) { try await starting.value }
    }
}
