// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Testing
import TunnelIO

@testable import WireGuardTunnel

@Suite("Loss of connectivity", .timeLimit(.minutes(5)))
struct ConnectivityLossTests {
    @Test(
        "f1.2: if configured, a dead server ends the tunnel with an error and a separate reason, though packets are sent",
        arguments: [ConnectivityOptions.EndWhenDead.afterHealing, .atOnce])
    func deadServer(_ endWhenDead: ConnectivityOptions.EndWhenDead) async throws {
        let scene = try TunnelScene {
            $0.connectivity = .fast
            $0.connectivity.endWhenDead = endWhenDead
        }
        try await scene.start()
        #expect(await scene.passes())
        scene.internet.setFilter { _ in false }
        #expect(await scene.reaches(.disconnected))
        #expect(scene.host.status.error?.code == .connectivityLost)
        #expect(scene.host.status.error?.stopReason == .connectivityLost)
        #expect(scene.host.platform.settings == nil)
        await scene.stop()
    }

    @Test(
        "Under every policy a tunnel with a dead server stays up, reasserting, and keeps trying",
        arguments: LeakPolicy.allCases)
    func strict(policy: LeakPolicy) async throws {
        let scene = try TunnelScene { $0.connectivity = .fast }
        try await scene.start(leakPolicy: policy)
        scene.internet.setFilter { _ in false }
        #expect(await scene.reaches(.reasserting))
        // The state is unchanged after several rounds of healing.
        let asked = scene.resolver.asked.count
        #expect(await scene.changes.wait { scene.resolver.asked.count >= asked + 3 })
        #expect(scene.host.status.status == .reasserting)
        #expect(scene.host.platform.settings?.includedRoutes == [.allIPv4, .allIPv6], "nothing goes out beside it")
        #expect(scene.host.platform.guardPolicy == (policy == .routeBased ? nil : policy))
        #expect(scene.host.runner.leakState?.phase == .reasserting)
        #expect(try await scene.status().state == .healing)
        scene.internet.setFilter(nil)
        #expect(await scene.reaches(.connected))
        #expect(await scene.passes())
        scene.internet.setFilter { _ in false }
        #expect(await scene.reaches(.reasserting))
        await scene.stop()
        #expect(scene.host.status.status == .disconnected)
        #expect(scene.host.platform.guardPolicy == nil, "the user ended it")
    }

    @Test(
        "A tunnel with `atOnce` ends blocked under a blocking policy",
        arguments: [LeakPolicy.enforcedRoutes, .everything])
    func endsBlocked(policy: LeakPolicy) async throws {
        let scene = try TunnelScene {
            $0.connectivity = .fast
            $0.connectivity.endWhenDead = .atOnce
        }
        try await scene.start(leakPolicy: policy)
        scene.internet.setFilter { _ in false }
        #expect(await scene.reaches(.blocked))
        #expect(scene.host.status.error?.code == .connectivityLost)
        #expect(scene.host.platform.guardPolicy == policy)
        await scene.stop()
        #expect(scene.host.platform.guardPolicy == nil)
    }

    @Test("A server that starts again is healed by a new handshake")
    func restartedServer() async throws {
        let scene = try TunnelScene { $0.connectivity = .fast }
        try await scene.start(leakPolicy: .enforcedRoutes)
        #expect(await scene.passes())
        try scene.server.restart()
        #expect(await scene.passes(2))
        #expect(await scene.reaches(.connected))
        await scene.stop()
    }

    @Test("f1.3, f1.4, f1.6: pings go through the tunnel, one after the other, and only their replies count")
    func pings() async throws {
        let scene = try TunnelScene {
            $0.connectivity.connectivityInterval = 3
            $0.connectivity.maxConnectionAttempts = 1
        }
        try await scene.start()
        #expect(try await scene.changes.wait { try await scene.status().pingReplies >= 1 })
        #expect(scene.server.behind.statistics.pingsAnswered >= 1, "they came out of the tunnel at its other end")
        #expect(scene.host.platform.takeDelivered().isEmpty, "replies to the provider's pings are its own")
        #expect(scene.host.status.status == .connected)
        await scene.stop()
    }

    @Test("f1.8: an idle tunnel stays connected without an address to ping, by handshakes and answers of the peer")
    func withoutTarget() async throws {
        // A handshake is possible only every 5 s, so the constants differ from those of other tests.
        let scene = try TunnelScene {
            $0.connectivity = ConnectivityOptions(
                connectivityInterval: 1, maxConnectionAttempts: 1, pingInterval: 0.5, healingInterval: 20)
        }
        try await scene.start()
        // No host behind the server answers this packet.
        scene.host.platform.inject(
            PacketBuilder.icmpEcho(
                from: TunnelScene.inner, to: TunnelScene.target, identifier: 1, sequence: 1, isReply: true))
        let first = try await scene.status().receivedBytes
        #expect(try await scene.changes.wait { try await scene.status().receivedBytes > first })
        #expect(await scene.reaches(.connected))
        await scene.stop()
    }

    @Test("f1.7: frequent status requests of an app change nothing")
    func polling() async throws {
        let scene = try TunnelScene()
        try await scene.start()
        for _ in 0..<200 {
            let state = try await scene.status().state
            #expect(state == .connected || state == .probing)
        }
        #expect(scene.host.status.status == .connected)
        await scene.stop()
    }
}
