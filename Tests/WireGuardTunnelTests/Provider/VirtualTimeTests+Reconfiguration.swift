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

/// Changes of the configuration while the tunnel runs.
extension VirtualTimeTests {
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
