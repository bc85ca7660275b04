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

/// The endpoints of peers: names, roaming, and routes to servers.
extension VirtualTimeTests {
    /// A tunnel into which networks with possible servers are routed, and whose socket has a mark.
    private func sceneOfRoutedServers(_ adjust: (inout WireGuardTunnelConfiguration) -> Void) throws -> VirtualScene {
        let routes = try ["200.0.0.0/5", "10.0.0.0/8"].map { try IPPrefix($0) }
        let scene = VirtualScene {
            $0.peers[0].allowedIPs = routes
            adjust(&$0)
        }
        scene.host.platform.setSocketMark(51_820)
        return scene
    }

    @Test(
        "The host of an idle tunnel learns within ten seconds of a peer that roams into a routed network"
    )
    func roamsWhileIdle() async throws {
        let scene = try sceneOfRoutedServers { $0.connectivity.pingAddress = nil }
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

    @Test(
        "The host learns of a server in a network that is routed into the tunnel: by name, and by roaming"
    )
    func serverInside() async throws {
        let scene = try sceneOfRoutedServers { $0.peers[0].endpoint = "vpn.example:51820" }
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

    @Test("A silent peer without a default route is resolved separately, and the tunnel stays connected")
    func silentPeer() async throws {
        let (scene, other) = try sceneOfTwoPeers(endpoint: "lab.example:51820")
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
}
