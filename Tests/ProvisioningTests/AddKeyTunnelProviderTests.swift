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

/// A stand-in for one of PIA's servers, built from their documentation: an API that registers keys, and a WireGuard device
/// with a network behind it.
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
        let tun = try behind.makeTun(name: name)
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
        return .addKey(serverKey: Identity(key).publicKey, at: address, for: text)
    }
}

extension ProvisioningReply {
    /// A server's reply to `addKey`, which gives a client ``AddKeyScene/inner``.
    static func addKey(serverKey: PublicKey, at address: IPAddress, for client: String) -> ProvisioningReply {
        let body = """
            {"status":"OK","server_key":"\(serverKey.base64)","server_port":1337,\
            "server_ip":"\(address)","server_vip":"10.9.0.1","peer_ip":"\(AddKeyScene.inner)/16",\
            "peer_pubkey":"\(client)","dns_servers":["10.9.0.53"]}
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
        host.platform.setDeliveryHandler { changes.notify() }
        changes.follow(host.statusUpdates())
        configuration = AddKeyConfiguration(
            servers: servers.map { ProvisioningServer(name: $0.name, port: AddKeyConfiguration.defaultPort) },
            connectivity: .plainStop(pingAddress: "203.0.113.1"))
    }

    func start() async throws {
        try await host.runner.start(configuration, leakPolicy: .routeBased, profileID: "test")
    }

    func stop() async {
        await host.stop(.userInitiated)
        for server in servers { server.close() }
    }

    /// Whether a ping through the tunnel is answered.
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
    @Test("A start registers a fresh key, and the tunnel has the settings of the reply")
    func start() async throws {
        let scene = try await AddKeyScene()
        try await scene.start()
        #expect(await scene.passes())
        let settings = try #require(scene.host.platform.settings)
        #expect(settings.addresses.map(\.description) == ["10.9.3.7/16"])
        #expect(settings.dns?.servers == [.v4(10, 9, 0, 53)])
        #expect(settings.mtu == 1280)
        #expect(settings.includedRoutes == [.allIPv4, .allIPv6])
        // The app gets the registration, with the server's address inside the tunnel.
        let status = try await MessageClient(channel: scene.host).send(AddKeyStatusRequest())
        #expect(status.server == "one.example" && status.endpoint == "198.51.100.1:1337")
        #expect(status.address.description == "10.9.3.7/16" && status.innerAddress == .v4(10, 9, 0, 1))
        #expect(status.nameServers == [.v4(10, 9, 0, 53)] && PublicKey(base64: status.serverKey) != nil)
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

    @Test("A tunnel whose server falls silent moves to the next server and back without going down")
    func failover() async throws {
        let scene = try await VirtualServersScene([.carrying, .carrying])
        try await scene.start()
        #expect(await scene.carries())
        let statuses = Mutex<Set<TunnelStatus>>([])
        let updates = scene.host.statusUpdates()
        let watching = Task { for await update in updates { _ = statuses.withLock { $0.insert(update.status) } } }
        scene.servers[0] = .silent
        #expect(await scene.advance { scene.servers.registrations == [1, 1] })
        #expect(await scene.carries())
        #expect(Set(scene.servers.keys).count == 2, "a fresh key for each server")
        #expect(try await scene.reports("1.example"))
        // The second server has delivered packets, so the first is a candidate again.
        scene.servers[0] = .carrying
        scene.servers[1] = .silent
        #expect(await scene.advance { scene.servers.registrations == [2, 1] })
        #expect(await scene.carries())
        watching.cancel()
        #expect(!statuses.withLock { $0.contains(.disconnected) })
        await scene.host.stop(.userInitiated)
    }

    @Test("A lone server that falls silent ends the tunnel in time, without another registration")
    func loneServer() async throws {
        let scene = try await VirtualServersScene([.carrying])
        try await scene.start()
        #expect(await scene.carries())
        let last = scene.clock.now.offset
        scene.servers[0] = .silent
        #expect(await scene.advance { scene.host.status.status == .disconnected })
        #expect(scene.host.status.error?.code == .connectivityLost)
        let limit = try #require(scene.configuration.connectivity.timeToGiveUp)
        #expect(scene.clock.now.offset - last <= limit)
        #expect(scene.servers.registrations == [1])
    }

    @Test(
        "Three servers that carry nothing get one registration each, and the tunnel ends, even if they answer handshakes",
        arguments: [VirtualServers.Behaviour.silent, .shakingHands])
    func silentServers(_ behaviour: VirtualServers.Behaviour) async throws {
        let scene = try await VirtualServersScene([.carrying, behaviour, behaviour])
        try await scene.start()
        #expect(await scene.carries())
        scene.servers[0] = behaviour
        #expect(await scene.advance { scene.host.status.status == .disconnected })
        #expect(scene.host.status.error?.code == .connectivityLost)
        #expect(scene.servers.registrations == [1, 1, 1])
    }

    @Test(
        "If the first server carries nothing at the start, the second one carries packets",
        arguments: [VirtualServers.Behaviour.silent, .shakingHands])
    func silentAtStart(_ behaviour: VirtualServers.Behaviour) async throws {
        let scene = try await VirtualServersScene([behaviour, .carrying])
        try await scene.start()
        #expect(await scene.carries())
        #expect(scene.servers.registrations == [1, 1])
        await scene.host.stop(.userInitiated)
    }

    @Test("If all servers are silent at the start, it fails after one registration at each")
    func allSilentAtStart() async throws {
        let scene = try await VirtualServersScene([.silent, .silent, .silent])
        let error = await #expect(throws: TunnelError.self) { try await scene.start() }
        #expect(error?.code == .serverUnreachable)
        #expect(scene.servers.registrations == [1, 1, 1])
        await scene.host.stop(.userInitiated)
    }

    @Test(
        "A start does not register at a silent server again if the last server is down, and throws the silent one's error"
    )
    func silentAndDown() async throws {
        let scene = try await VirtualServersScene([.silent, .silent, .down])
        let error = await #expect(throws: TunnelError.self) { try await scene.start() }
        #expect(error?.code == .serverUnreachable && error?.message.contains("no answer from") == true)
        #expect(scene.servers.registrations == [1, 1, 0])
        #expect(scene.servers.refusals > 0)
        await scene.host.stop(.userInitiated)
    }

    @Test("Without a transport or a token, the error of the start contains the remedy")
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
