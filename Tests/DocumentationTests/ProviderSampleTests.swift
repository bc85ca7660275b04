// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnel
import Testing
import TunnelIO

/// Runs what docs/provider.md shows.
@Suite("Samples of providers", .timeLimit(.minutes(1)))
struct ProviderSampleTests {
    @Test("Packets go to a server in datagrams, and what answers behind it comes back")
    func datagrams() async throws {
        let (client, internet) = try await makeRemote()
        let far = try internet.attach("203.0.113.9")
        let server = MemoryHost { RemoteTunnel(far) }
        let network = VirtualNetwork()
        server.platform.connect(to: network)
        let serverProfile = try TunnelProfile(
            name: "Server", provider: "remote",
            encoding: RemoteTunnel.Configuration(
                server: Endpoint("192.0.2.1:4501"), address: IPAddress("10.0.0.1"), port: 4500))
        let clientProfile = try TunnelProfile(
            name: "Client", provider: "remote",
            encoding: RemoteTunnel.Configuration(
                server: Endpoint("203.0.113.9:4500"), address: IPAddress("10.0.0.2"), port: 4501))
        let serverManager = try await start(server, serverProfile)
        let clientManager = try await start(client, clientProfile)
        client.platform.inject(try PacketBuilder.udp(from: "10.0.0.2:9", to: "198.51.100.1:7", payload: [5]))
        var deliveries = client.platform.deliveries.makeAsyncIterator()
        #expect(
            await deliveries.next()
                == (try PacketBuilder.udp(from: "198.51.100.1:7", to: "10.0.0.2:9", payload: [5])))
        #expect(network.statistics.datagramsEchoed == 1)
        try await clientManager.stop(clientProfile.id)
        try await serverManager.stop(serverProfile.id)
    }

    @Test("An app starts and stops a tunnel of another process over its socket, with secrets from files")
    func service() async throws {
        let name = "remote-\(UInt32.random(in: 0...UInt32.max))"
        let folder = FileManager.default.temporaryDirectory.appending(path: name).path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let socket = folder + "/run/remote0.sock"
        let network = try MemoryInternet().attach("192.0.2.1")
        let host = MemoryHost(secrets: try FileSecretStore(path: folder + "/secrets")) { RemoteTunnel(network) }
        let service = try TunnelService(host: host, path: socket)
        let manager = try await makeManager(folder, socket)
        let profile = try TunnelProfile(
            name: "Remote", provider: "remote",
            encoding: RemoteTunnel.Configuration(
                server: Endpoint("203.0.113.9:4500"), address: IPAddress("10.0.0.2")))
        try await manager.create(profile, secrets: ["key": SecretBytes("a key".utf8)])
        try await manager.start(profile.id)
        #expect(host.status.status == .connected)
        try await manager.stop(profile.id)
        #expect(host.status.status == .disconnected)
        await service.close()
    }

    @Test("The README's tunnel gives every packet back")
    func loop() async throws {
        let host = MemoryHost<LoopTunnel>()
        try await host.start(LoopTunnel.Configuration(address: IPAddress("10.0.0.2")))
        let packet = try PacketBuilder.icmpEcho(from: "10.0.0.2", to: "192.0.2.7", identifier: 1, sequence: 2)
        host.platform.inject(packet)
        var deliveries = host.platform.deliveries.makeAsyncIterator()
        #expect(await deliveries.next() == packet)
        await host.stop(.userInitiated)
    }
}
