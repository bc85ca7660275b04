// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Provisioning
import Synchronization
import Testing
import TunnelIO
import WireGuardCore
import WireGuardTunnel

@testable import Gateway

@Suite("A gateway whose interface was down", .timeLimit(.minutes(2)))
struct InterfaceDownTests {
    @Test("When the interface comes up again, the gateway starts a handshake with a device that had a session")
    func resumes() async throws {
        try await TestFolder.use { folder in
            let scene = try await FlowScene(folder)
            let invitation = try await scene.invitation()
            var (host, configuration, _) = try await scene.device(invitation)
            // The device does not notice the loss during the test.
            configuration.connectivity = ConnectivityOptions()
            try await host.runner.start(configuration, leakPolicy: .routeBased, profileID: "test")
            let runtime = try #require(scene.process.runtime)
            func waits(forSession isThere: Bool) async -> Bool {
                await waitUntil(timeout: .seconds(60), pollEvery: .milliseconds(10)) {
                    runtime.livePeers.values.map(\.hasSession) == [isThere]
                }
            }
            #expect(await waits(forSession: true))
            // Only the gateway can start a handshake.
            scene.internet.setFilter { $0.destination != FlowScene.wireGuard || $0.bytes.first != 1 }
            let tun = try #require(scene.network.tun.withLock { $0 })
            try tun.setUp(false)
            #expect(await waits(forSession: false))
            try tun.setUp(true)
            #expect(await waits(forSession: true))
            await host.stop(.userInitiated)
            await scene.stop()
        }
    }
}
