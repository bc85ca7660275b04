// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import PacketTunnelTesting
import Testing
import WireGuardCore
import WireGuardTunnel

/// The small apps of `docs/migrating-from-wireguardkit.md` and `docs/migrating-from-tunnelmonitorkit.md`, as their users test
/// them: in memory, with public interfaces only.
@Suite("The apps of the migration guides", .timeLimit(.minutes(5)))
struct MigratedAppTests {
    /// The wg-quick files of a server and of its client, which sends its datagrams to 192.0.2.1.
    private static func files() -> (server: String, client: String, otherPeer: String) {
        var random = SeededGenerator(seed: 36)
        let (server, client, other) = (
            PrivateKey(using: &random), PrivateKey(using: &random), PrivateKey(using: &random)
        )
        let serverText = """
            [Interface]
            PrivateKey = \(server.exportedBase64)
            Address = 10.0.0.1/24
            ListenPort = 51820
            [Peer]
            PublicKey = \(client.publicKey.base64)
            AllowedIPs = 10.0.0.2/32
            """
        let clientText = """
            [Interface]
            PrivateKey = \(client.exportedBase64)
            Address = 10.0.0.2/32
            [Peer]
            PublicKey = \(server.publicKey.base64)
            Endpoint = 192.0.2.1:51820
            AllowedIPs = 0.0.0.0/0
            """
        let otherPeer = "[Peer]\nPublicKey = \(other.publicKey.base64)\nAllowedIPs = 10.9.0.0/16\n"
        return (serverText, clientText, otherPeer)
    }

    @Test("A tunnel from WireGuardKit connects to a server in memory, and changes while it runs")
    func wireGuardKit() async throws {
        let (serverText, clientText, otherPeer) = Self.files()
        let (manager, server) = try await WireGuardKitMigration.connect(to: serverText)
        let profile = try await WireGuardKitMigration.add(clientText, to: manager)
        try await WireGuardKitMigration.use(manager, profile.id)
        #expect(await manager.status(profile.id).status == .disconnected)
        try await manager.start(profile.id)
        #expect(try await manager.send(StatusRequest(), to: profile.id).peers.count == 1)
        try await WireGuardKitMigration.change(profile, to: clientText + "\n" + otherPeer, manager)
        #expect(try await manager.send(StatusRequest(), to: profile.id).peers.count == 2)
        #expect(try await manager.profile(profile.id).isOnDemandEnabled)
        try await manager.stop(profile.id)
        await server.stop(.userInitiated)
    }

    @Test("A tunnel from TunnelMonitorKit gets its configuration at each load, and answers with its state")
    func tunnelMonitorKit() async throws {
        let manager = TunnelMonitorKitMigration.Tunnels.makeManager(isSimulator: true)
        for server in ["tokyo.example", "paris.example"] {
            let user = TunnelMonitorKitMigration.UserConfiguration(server: server, token: "secret")
            let profile = try await TunnelMonitorKitMigration.Tunnels.load(manager, user)
            try await TunnelMonitorKitMigration.use(manager, profile.id)
            let answer = try await manager.send(TunnelMonitorKitMigration.StatusQuery(), to: profile.id)
            #expect(answer.server == server)
            try await manager.stop(profile.id)
        }
        #expect(await manager.profiles.count == 1)
    }
}
