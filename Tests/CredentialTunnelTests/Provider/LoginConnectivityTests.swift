// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Testing
import TunnelIO
import WireGuardCore

@testable import CredentialTunnel

@Suite("A login tunnel without data", .timeLimit(.minutes(3)))
struct LoginConnectivityTests {
    /// Advances the clock second by second until the condition holds.
    private func pass(_ clock: VirtualClock, _ scene: ProviderScene, until condition: () async -> Bool) async -> Bool {
        for _ in 0..<300 {
            if await condition() { return true }
            _ = await scene.changes.wait(within: .milliseconds(20)) { await condition() }
            clock.advance(by: .seconds(1))
        }
        return false
    }

    @Test("A tunnel whose server answers nothing is reconnecting, and logs in to a server that sends no notices")
    func silence() async throws {
        let scene = try ProviderScene(doubtAfter: .milliseconds(200))
        try await scene.start()
        #expect(await scene.passes())
        scene.internet.setFilter { $0.source != LoginServer.address }
        #expect(await scene.passes(2, within: 2) == false)
        #expect(await scene.reaches(.reasserting))
        #expect(try await scene.status().state == .reconnecting)
        try await scene.server.restart(scene.internet)
        scene.internet.setFilter { $0.bytes.first != PacketCode.error.rawValue }
        #expect(await scene.passes(3))
        #expect(scene.logins >= 2)
        #expect(await scene.reaches(.connected))
        await scene.stop()
    }

    @Test("Pings pass through a tunnel without data, and the system does not receive their replies")
    func ping() async throws {
        let clock = VirtualClock()
        let scene = try ProviderScene(clock: clock) {
            $0.connectivity.pingAddress = LoginClient.target.description
        }
        try await scene.start()
        let before = scene.server.behind.statistics.packetsReceived
        #expect(await pass(clock, scene) { scene.server.behind.statistics.packetsReceived > before })
        // Replies to pings would arrive before the reply to this packet.
        let request = PacketBuilder.icmpEcho(
            from: ProviderScene.inner, to: LoginClient.target, identifier: 99, sequence: 9, payload: [1, 2, 3])
        let reply = VirtualNetwork().receive(request)
        var delivered: [[UInt8]] = []
        scene.host.platform.inject(request)
        #expect(
            await scene.changes.wait {
                delivered += scene.host.platform.takeDelivered()
                return delivered.contains { $0 == reply }
            })
        #expect(delivered.allSatisfy { $0 == reply })
        #expect(scene.host.status.status == .connected)
        await scene.stop()
    }

    @Test("A dead tunnel ends with an error if the configuration specifies it", arguments: [true, false])
    func dead(_ ends: Bool) async throws {
        let clock = VirtualClock()
        let scene = try ProviderScene(clock: clock) {
            $0.connectivity.endWhenDead = .atOnce
            $0.connectivity.isEnabled = ends
        }
        try await scene.start()
        #expect(await scene.passes())
        scene.internet.setFilter { $0.source != LoginServer.address }
        #expect(await scene.passes(2, within: 1) == false)
        if ends {
            #expect(await pass(clock, scene) { scene.host.status.status == .disconnected })
            #expect(scene.host.status.error?.code == .connectivityLost)
        } else {
            clock.advance(by: .seconds(300))
            #expect(scene.host.status.status != .disconnected)
        }
        await scene.stop()
    }

    @Test("A profile's MTU limits the server's, and never below the minimum of IPv6")
    func mtu() throws {
        var configuration = CredentialTunnelConfiguration(
            server: "vpn.example:4500", serverKey: FixedKeys.privateKey().publicKey.base64, login: "kean")
        var assignment = World.assignment
        #expect(configuration.settings(for: assignment).mtu == 1420)
        configuration.maximumMTU = 1200
        #expect(configuration.settings(for: assignment).mtu == 1200)
        assignment.addresses.append(InterfaceAddress(host: .v6(0xfd00 << 48, 2)))
        #expect(configuration.settings(for: assignment).mtu == 1280)
        configuration.maximumMTU = 9000
        #expect(configuration.settings(for: assignment).mtu == 1420)
        configuration.maximumMTU = 500
        #expect(configuration.validate().map(\.field) == ["maximumMTU"])
    }
}
