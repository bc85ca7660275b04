// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing
import TunnelIO
import WireGuardCore
import WireGuardDevice
import WireGuardTunnel

@testable import Provisioning

/// A stand-in of one of PIA's servers, made from what it is documented to answer: an API that registers keys, and a WireGuard
/// device with a network behind it.
final class StandInServer: Sendable {
    let name: String
    let address: IPAddress
    let behind = VirtualNetwork()
    private let key: PrivateKey
    private let device: WireGuardDevice
    private let keys = Mutex<[String]>([])

    init(_ name: String, at address: IPAddress, on internet: MemoryInternet, seed: UInt64) throws {
        (self.name, self.address) = (name, address)
        var random = SeededGenerator(seed: seed)
        key = PrivateKey(using: &random)
        let tun = try MemoryFlowDevice(name: name)
        tun.connect(to: behind)
        device = try WireGuardDevice(tun: tun, network: internet.attach([address]))
        var update = UAPIDeviceUpdate()
        update.privateKey = .set(key)
        update.listenPort = 1337
        try device.apply(update)
        try device.start()
    }

    /// The keys that were registered.
    var registered: [String] { keys.withLock { $0 } }

    func close() { device.close() }

    func addKey(_ text: String) throws -> ProvisioningReply {
        let client = try #require(PublicKey(base64: text))
        keys.withLock { $0.append(text) }
        var update = UAPIDeviceUpdate()
        var peer = UAPIPeerUpdate(publicKey: client)
        peer.allowedIPs = [.add(IPPrefix(host: AddKeyScene.inner))]
        update.peers = [peer]
        try device.apply(update)
        let body = """
            {"status":"OK","server_key":"\(Identity(key).publicKey.base64)","server_port":1337,\
            "server_ip":"\(address)","server_vip":"10.9.0.1","peer_ip":"\(AddKeyScene.inner)/16",\
            "peer_pubkey":"\(text)","dns_servers":["10.9.0.53"]}
            """
        return ProvisioningReply(status: 200, body: Array(body.utf8))
    }
}

/// A provider in a memory host, and two servers.
final class AddKeyScene: Sendable {
    static let inner = IPAddress.v4(10, 9, 3, 7)
    static let target = IPAddress.v4(203, 0, 113, 7)
    static let token = "to+ken/=="

    let internet = MemoryInternet()
    let servers: [StandInServer]
    let transport: ScriptedTransport
    let host: MemoryHost<AddKeyTunnelProvider>
    let configuration: AddKeyConfiguration
    let changes = Changes()

    init(token: String = AddKeyScene.token) async throws {
        servers = [
            try StandInServer("one.example", at: .v4(198, 51, 100, 1), on: internet, seed: 21),
            try StandInServer("two.example", at: .v4(198, 51, 100, 2), on: internet, seed: 22),
        ]
        let known = servers
        transport = ScriptedTransport { request throws(ProvisioningTransportError) in
            guard let server = known.first(where: { $0.name == request.server.name }),
                let query = URLComponents(string: "https://x" + request.target)?.queryItems,
                query.map(\.name) == ["pubkey", "pt"], let key = query[0].value
            else { throw .unreachable("no such server") }
            guard query[1].value == Self.token else {
                return ProvisioningReply(
                    status: 401, body: Array(#"{"status":"ERROR","message":"Login failed!"}"#.utf8))
            }
            do { return try server.addKey(key) } catch { throw .unreachable("\(error)") }
        }
        var environment = WireGuardEnvironment()
        environment.network = internet.attach([.v4(192, 0, 2, 10)])
        let (used, transport) = (environment, transport)
        let secrets = MemorySecretStore()
        try await secrets.write(SecretBytes(Array(token.utf8)), "token", of: "test")
        host = MemoryHost(secrets: secrets) { AddKeyTunnelProvider(transport: transport, environment: used) }
        let (host, changes) = (host, changes)
        host.platform.setDeliveryHandler { changes.tell() }
        changes.follow(host.statusUpdates())
        configuration = AddKeyConfiguration(
            servers: servers.map { ProvisioningServer(name: $0.name, port: AddKeyConfiguration.defaultPort) },
            connectivity: ConnectivityOptions(
                connectivityInterval: 0.1, maxConnectionAttempts: 2, pingAddress: "203.0.113.1", pingInterval: 0.05,
                healingInterval: 0.1, endWhenDead: .atOnce))
    }

    func start() async throws {
        try await host.runner.start(configuration, leakPolicy: .routeBased, profileID: "test")
    }

    func stop() async {
        await host.stop(.userInitiated)
        for server in servers { server.close() }
    }

    /// Whether a ping through the tunnel comes back.
    func passes() async -> Bool {
        let request = PacketBuilder.icmpEcho(
            from: Self.inner, to: Self.target, identifier: 99, sequence: 1, payload: [1, 2, 3])
        let reply = VirtualNetwork().receive(request)
        for _ in 0..<600 {
            host.platform.inject(request)
            let isThere = await changes.wait(within: .milliseconds(100)) {
                host.platform.takeDelivered().contains { $0 == reply }
            }
            if isThere { return true }
        }
        return false
    }
}

@Suite("A tunnel that registers its key first", .timeLimit(.minutes(2)))
struct AddKeyTunnelProviderTests {
    @Test("A start registers a fresh key, and the reply is the tunnel")
    func start() async throws {
        let scene = try await AddKeyScene()
        try await scene.start()
        #expect(await scene.passes())
        let settings = try #require(scene.host.platform.settings)
        #expect(settings.addresses.map(\.description) == ["10.9.3.7/16"])
        #expect(settings.dns?.servers == [.v4(10, 9, 0, 53)])
        #expect(settings.mtu == 1280)
        #expect(settings.includedRoutes == [.allIPv4, .allIPv6])
        await scene.host.stop(.userInitiated)
        try await scene.start()
        #expect(await scene.passes())
        let keys = scene.servers[0].registered
        #expect(keys.count == 2 && keys[0] != keys[1], "a fresh key for each start")
        #expect(scene.servers[1].registered.isEmpty)
        await scene.stop()
    }

    @Test("A refused token ends the start with the server's reason")
    func refused() async throws {
        let scene = try await AddKeyScene(token: "another")
        let error = await #expect(throws: TunnelError.self) { try await scene.start() }
        #expect(error?.code == .authenticationFailed && error?.message.contains("Login failed!") == true)
        #expect(error?.description.contains("another") == false)
        #expect(scene.host.platform.settings == nil)
        await scene.stop()
    }

    @Test("When nothing comes through any more, the tunnel moves to the next server without going down")
    func failover() async throws {
        let scene = try await AddKeyScene()
        try await scene.start()
        #expect(await scene.passes())
        let dead = scene.servers[0].address
        let statuses = Mutex<Set<TunnelStatus>>([])
        let updates = scene.host.statusUpdates()
        let watching = Task { for await update in updates { _ = statuses.withLock { $0.insert(update.status) } } }
        scene.internet.setFilter { $0.source != dead && $0.destination != dead }
        #expect(await scene.changes.wait { scene.servers[1].registered.count == 1 })
        #expect(await scene.passes())
        #expect(await scene.changes.wait { scene.host.status.status == .connected })
        #expect(scene.servers[1].registered != scene.servers[0].registered, "a fresh key for each server")
        #expect(scene.servers[1].behind.statistics.pingsAnswered > 0)
        watching.cancel()
        #expect(!statuses.withLock { $0.contains(.disconnected) })
        await scene.stop()
    }

    @Test("Without a transport, or a token, the start says what to do")
    func missing() async throws {
        let host = MemoryHost<AddKeyTunnelProvider>(secrets: MemorySecretStore())
        let configuration = AddKeyConfiguration(servers: [.init(name: "one.example", port: 1337)])
        let error = await #expect(throws: TunnelError.self) {
            try await host.runner.start(configuration, leakPolicy: .routeBased, profileID: "test")
        }
        #expect(error?.code == .secretUnavailable)
        await host.stop(.userInitiated)
    }
}
