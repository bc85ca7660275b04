// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing
import WireGuardCore

@testable import WireGuardTunnel

/// Changes by `wg set` combined with the provider's own changes.
@Suite("A WireGuard tunnel that other tools also configure")
struct OutsideChangesTests {
    private func change(_ plane: VirtualPlane, _ key: PublicKey, _ adjust: (inout UAPIPeerUpdate) -> Void) throws {
        var update = UAPIDeviceUpdate()
        var peer = UAPIPeerUpdate(publicKey: key)
        adjust(&peer)
        update.peers = [peer]
        try plane.apply(update)
    }

    @Test("A reload keeps changes by other tools, unless the file has changed the same setting")
    func reload() async throws {
        let scene = VirtualScene { $0.peers[0].persistentKeepalive = 25 }
        try await scene.start()
        let key = scene.configuration.peers[0].publicKey
        var random = SeededGenerator(seed: 3)
        let added = PrivateKey(using: &random).publicKey
        var update = UAPIDeviceUpdate()
        update.listenPort = 7
        try scene.plane.apply(update)
        try change(scene.plane, key) { $0.persistentKeepalive = 10 }
        try change(scene.plane, added) { $0.allowedIPs = [] }
        let keys = scene.plane.state.withLock { $0.privateKeys }

        var configuration = scene.configuration
        configuration.mtu = 1300
        _ = try await scene.send(ReconfigureRequest(configuration: configuration))
        #expect(scene.host.platform.settings?.mtu == 1300)
        #expect(scene.plane.listenPort == 7)
        #expect(scene.plane.state.withLock { $0.keepalives[key] } == 10)
        #expect(scene.plane.state.withLock { $0.privateKeys } == keys, "the key stays as others have set it")
        #expect(scene.plane.peers().map(\.publicKey) == [key, added])

        (configuration.listenPort, configuration.peers[0].persistentKeepalive) = (9, 30)
        _ = try await scene.send(ReconfigureRequest(configuration: configuration))
        #expect(scene.plane.listenPort == 9)
        #expect(scene.plane.state.withLock { $0.keepalives[key] } == 30)
        #expect(scene.plane.peers().map(\.publicKey) == [key, added])
        await scene.host.stop(.userInitiated)
    }

    @Test("A peer that another tool removed is not restored by a pause, nor by a reload without a new entry for it")
    func removedPeer() async throws {
        let scene = VirtualScene { $0.peers[0].persistentKeepalive = 25 }
        try await scene.start()
        let key = scene.configuration.peers[0].publicKey
        try change(scene.plane, key) { $0.remove = true }
        await scene.host.sleep()
        scene.host.wake()
        #expect(await scene.changes.wait { scene.plane.state.withLock { $0.rebinds } == 1 })
        var configuration = scene.configuration
        configuration.mtu = 1300
        _ = try await scene.send(ReconfigureRequest(configuration: configuration))
        #expect(scene.plane.peers().isEmpty)
        configuration.peers[0].persistentKeepalive = 20
        _ = try await scene.send(ReconfigureRequest(configuration: configuration))
        #expect(scene.plane.peers().map(\.publicKey) == [key])
        await scene.host.stop(.userInitiated)
    }

    @Test("A removed peer without a keepalive stays removed after a reload that does not change it")
    func removedPeerWithoutKeepalive() async throws {
        let scene = VirtualScene()
        try await scene.start()
        try change(scene.plane, scene.configuration.peers[0].publicKey) { $0.remove = true }
        _ = try await scene.send(ReconfigureRequest(configuration: scene.configuration))
        #expect(scene.plane.peers().isEmpty)
        await scene.host.stop(.userInitiated)
    }

    @Test("The host's mark replaces the mark of the configuration, at a start and at a reload")
    func hostMark() async throws {
        let scene = VirtualScene { $0.fwMark = 0x20 }
        scene.host.platform.setSocketMark(7)
        try await scene.start()
        #expect(scene.plane.state.withLock { $0.fwMark } == 7)
        scene.plane.state.withLock { $0.fwMark = nil }
        _ = try await scene.send(ReconfigureRequest(configuration: scene.configuration))
        #expect(scene.plane.state.withLock { $0.fwMark } == 7)
        await scene.host.stop(.userInitiated)
    }

    @Test("A pause restores the keepalives that another tool set")
    func keepalives() async throws {
        let scene = VirtualScene { $0.peers[0].persistentKeepalive = 25 }
        try await scene.start()
        let key = scene.configuration.peers[0].publicKey
        try change(scene.plane, key) { $0.persistentKeepalive = 10 }
        await scene.host.sleep()
        #expect(await scene.changes.wait { scene.plane.state.withLock { $0.keepalives[key] } == 0 })
        scene.host.wake()
        #expect(await scene.changes.wait { scene.plane.state.withLock { $0.keepalives[key] } == 10 })
        await scene.host.stop(.userInitiated)
    }
}
