// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NIOHTTP1
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import PinnedProvisioning
import Provisioning
import Synchronization
import Testing
import TrustPinningNIOTesting
import TrustPinningTesting
import TunnelIO
import WireGuardCore
import WireGuardDevice
import WireGuardTunnel

/// A stand-in for one of PIA's servers, built from their documentation: addKey over TLS, with a certificate of PIA's own
/// authority that has only a common name, and WireGuard with a network behind it.
private final class PIAServer: Sendable {
    static let inner = IPAddress.v4(10, 9, 3, 7)
    static let token = "to+ken/=="

    let name: String
    let behind = VirtualNetwork()
    let api: LoopbackServer
    private let device: WireGuardDevice
    private let keys: Keys

    final class Keys: Sendable {
        let list = Mutex<[String]>([])
    }

    init(
        _ name: String, at address: IPAddress, on internet: MemoryInternet, authority: TestAuthority, seed: UInt64
    ) async throws {
        self.name = name
        var random = SeededGenerator(seed: seed)
        let key = PrivateKey(using: &random)
        let tun = try behind.makeTun(name: name)
        let device = try WireGuardDevice(tun: tun, network: internet.attach([address]))
        var update = UAPIDeviceUpdate()
        update.privateKey = .set(key)
        update.listenPort = 1337
        try device.apply(update)
        try device.start()
        let (keys, serverKey) = (Keys(), key.publicKey.base64)
        let leaf = try authority.issue(
            CertificateTemplate(subject: name, dnsNames: []).with { $0.notAfter = TestDate(2120, 1, 1) },
            key: TestKey(.p256, name))
        api = try await LoopbackServer.start(
            chain: [leaf.der, authority.intermediate.der], key: leaf.key, onHead: { _ in [] }
        ) { request in
            [.send(Self.answer(request.head, device, keys, serverKey, address))]
        }
        (self.device, self.keys) = (device, keys)
    }

    var registered: [String] { keys.list.withLock { $0 } }

    func close() { device.close() }

    private static func answer(
        _ head: HTTPRequestHead, _ device: WireGuardDevice, _ keys: Keys, _ serverKey: String, _ address: IPAddress
    ) -> String {
        guard head.method == .GET, let parts = URLComponents(string: "https://x" + head.uri), parts.path == "/addKey",
            let items = parts.queryItems, items.map(\.name) == ["pubkey", "pt"], let text = items[0].value,
            let client = PublicKey(base64: text)
        else { return LoopbackServer.answer("404 Not Found") }
        guard items[1].value == token else {
            return LoopbackServer.ok(#"{"status":"ERROR","message":"Login failed!"}"#)
        }
        var update = UAPIDeviceUpdate()
        var peer = UAPIPeerUpdate(publicKey: client)
        peer.allowedIPs = [.add(IPPrefix(host: inner))]
        update.peers = [peer]
        do { try device.apply(update) } catch { return LoopbackServer.answer("500 Internal Server Error") }
        keys.list.withLock { $0.append(text) }
        return LoopbackServer.ok(
            """
            {"status":"OK","server_key":"\(serverKey)","server_port":1337,"server_ip":"\(address)",            "server_vip":"10.9.0.1","peer_ip":"\(inner)","peer_pubkey":"\(text)",            "dns_servers":["10.0.0.243","10.0.0.242"]}
            """)
    }
}

@Suite("PIA's flow over TLS", .timeLimit(.minutes(2)))
struct PIAFlowTests {
    @Test("A key is registered over TLS with PIA's certificates, the tunnel comes up, and moves when its server dies")
    func flow() async throws {
        let (internet, changes) = (MemoryInternet(), Changes())
        let authority = try TestAuthority("Private Internet Access")
        let servers = [
            try await PIAServer(
                "server401", at: .v4(198, 51, 100, 1), on: internet, authority: authority, seed: 61),
            try await PIAServer(
                "server402", at: .v4(198, 51, 100, 2), on: internet, authority: authority, seed: 62),
        ]
        let secrets = MemorySecretStore()
        // PIA's app passes this to its extension.
        var (configuration, token) = try AddKeyConfiguration.fromProviderConfiguration(
            [
                "token": .string(PIAServer.token), "use_ip": .bool(true), "cn": .string("server401"),
                "ping": .string("203.0.113.1"), "packetSize": .integer(1280),
            ], serverAddress: "127.0.0.1", trust: .authorities(authority.root.pem, acceptsCommonName: true))
        configuration.servers = servers.map { server in
            var place = configuration.servers[0]
            (place.name, place.port) = (server.name, UInt16(server.api.port))
            return place
        }
        configuration.connectivity = ConnectivityOptions(
            // The second server gets two seconds, so that a busy machine does not lose it too.
            connectivityInterval: 0.5, maxConnectionAttempts: 4, pingAddress: "203.0.113.1", pingInterval: 0.05,
            endWhenDead: .atOnce)
        try await secrets.write(token, configuration.tokenName, of: "pia")
        var environment = WireGuardEnvironment()
        environment.network = internet.attach([.v4(192, 0, 2, 10)])
        let (used, lines) = (environment, LogLines())
        let host = MemoryHost(secrets: secrets) {
            AddKeyTunnelProvider(
                transport: PinnedProvisioningTransport(logger: lines.logger, now: { TestDate.today.date }),
                environment: used)
        }
        host.platform.setDeliveryHandler { changes.notify() }
        changes.follow(host.statusUpdates())

        try await host.runner.start(configuration, leakPolicy: .routeBased, profileID: "pia")
        #expect(await passes(host, changes))
        #expect(servers[0].registered.count == 1 && servers[1].registered.isEmpty)
        #expect(host.platform.settings?.dns?.servers == [.v4(10, 0, 0, 243), .v4(10, 0, 0, 242)])
        #expect(lines.all.contains { $0.contains("common name") })
        let asked = try #require(servers[0].api.figures.requests.first)
        #expect(asked.head.headers["host"] == ["server401:\(servers[0].api.port)"])
        #expect(asked.head.uri.hasSuffix("&pt=to%2Bken%2F%3D%3D"))

        internet.setFilter { $0.source != .v4(198, 51, 100, 1) && $0.destination != .v4(198, 51, 100, 1) }
        #expect(await passes(host, changes))
        #expect(servers[1].registered.count == 1 && servers[1].registered != servers[0].registered)
        await host.stop(.userInitiated)
        for server in servers { server.close() }
    }

    private func passes(_ host: MemoryHost<AddKeyTunnelProvider>, _ changes: Changes) async -> Bool {
        let request = PacketBuilder.icmpEcho(
            from: PIAServer.inner, to: .v4(203, 0, 113, 7), identifier: 99, sequence: 1, payload: [1, 2, 3])
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

    @Test(
        "A refused token ends the start with the server's reason, and a wrong name is refused before a request is sent"
    )
    func refused() async throws {
        let internet = MemoryInternet()
        let authority = try TestAuthority("Private Internet Access")
        let server = try await PIAServer(
            "server401", at: .v4(198, 51, 100, 1), on: internet, authority: authority, seed: 63)
        let trust = ServerTrust.authorities(authority.root.pem, acceptsCommonName: true)
        for (name, token, code, limit) in [
            ("server401", "another", TunnelError.Code.authenticationFailed, Duration.seconds(60)),
            ("server999", PIAServer.token, .startTimedOut, .seconds(2)),
        ] {
            let secrets = MemorySecretStore()
            try await secrets.write(SecretBytes(Array(token.utf8)), "token", of: "pia")
            let host = MemoryHost(secrets: secrets, deadlines: TunnelDeadlines(start: limit)) {
                AddKeyTunnelProvider(
                    transport: PinnedProvisioningTransport(
                        logger: LogLines().logger, now: { TestDate.today.date }))
            }
            let configuration = AddKeyConfiguration(
                servers: [.init(name: name, address: .v4(127, 0, 0, 1), port: UInt16(server.api.port), trust: trust)])
            let error = await #expect(throws: TunnelError.self) {
                try await host.runner.start(configuration, leakPolicy: .routeBased, profileID: "pia")
            }
            #expect(error?.code == code, "\(String(describing: error))")
            await host.stop(.userInitiated)
        }
        #expect(server.registered.isEmpty && server.api.figures.requests.count == 1)
        server.close()
    }
}
