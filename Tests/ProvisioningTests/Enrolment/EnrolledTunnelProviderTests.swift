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

/// A gateway with two servers, and a provider in a memory host whose secret store has an invitation.
final class EnrolledScene: Sendable {
    static let inner = GrantedServer.client
    static let target = IPAddress.v4(203, 0, 113, 7)

    let internet = MemoryInternet()
    let servers: [GrantedServer]
    let gateway: StandInGateway
    let secrets = MemorySecretStore()
    let host: MemoryHost<EnrolledTunnelProvider>
    let configuration: EnrolledTunnelConfiguration
    let changes = Changes()
    let token: BearerSecret

    init(
        connectivity: ConnectivityOptions? = nil, renewAfterSeconds: Int64 = 3600, expiresInSeconds: Int64? = nil
    ) async throws {
        let fixtures = try ContractFixtures()
        var random = SeededGenerator(seed: 41)
        let presharedKey = PresharedKey(using: &random)
        servers = [
            try GrantedServer(
                at: .v4(198, 51, 100, 1), on: internet, key: fixtures.serverKey, presharedKey: presharedKey),
            try GrantedServer(
                at: .v4(198, 51, 100, 2), on: internet, key: PrivateKey(using: &random), presharedKey: presharedKey),
        ]
        var grant = fixtures.grant
        grant.addresses = [Self.inner]
        grant.presharedKey = presharedKey
        grant.renewAfterSeconds = renewAfterSeconds
        grant.device.expiresInSeconds = expiresInSeconds
        grant.servers = servers.map {
            .init(
                publicKey: $0.publicKey,
                endpoints: [try? EndpointAddress("\($0.address):51820")].compactMap(\.self))
        }
        gateway = StandInGateway(grant: grant, serverKey: fixtures.serverKey)
        token = BearerSecret(.invitation, using: &random)
        let (token, known, changes) = (token, servers, changes)
        gateway.change { state in
            state.invitations = [token]
            state.onKey = { key in for server in known { try? server.take(key) } }
            state.onAnswer = { changes.notify() }
        }
        let pins = (1...2).compactMap { ServerKeyPin(bytes: [UInt8](repeating: $0, count: 32)) }
        let invitation = try Invitation(
            host: "vpn.example.com", token: token, expires: Date(timeIntervalSinceNow: 3600), pins: pins)
        try await secrets.write(
            SecretBytes(Array(invitation.exportedText.utf8)), EnrolledTunnelConfiguration.defaultSecretName, of: "test")
        var environment = WireGuardEnvironment()
        environment.network = internet.attach([.v4(192, 0, 2, 10)])
        let (used, transport, start) = (environment, gateway, Date())
        let time = Clocked()
        clocked = time
        host = MemoryHost(secrets: secrets) {
            EnrolledTunnelProvider(
                transport: transport, environment: used,
                now: { start.addingTimeInterval(time.seconds.withLock { $0 }) })
        }
        let host = host
        host.platform.setDeliveryHandler { changes.notify() }
        changes.follow(host.statusUpdates())
        var configuration = EnrolledTunnelConfiguration(invitation, deviceName: "laptop", platform: "linux")
        configuration.connectivity =
            connectivity
            ?? ConnectivityOptions(
                connectivityInterval: 0.1, maxConnectionAttempts: 2, pingAddress: "203.0.113.1", pingInterval: 0.05,
                healingInterval: 0.1)
        configuration.handshakeTimeout = 2
        configuration.gatewayTimeout = 2
        self.configuration = configuration
    }

    final class Clocked: Sendable {
        let seconds = Mutex<Double>(0)
    }

    let clocked: Clocked

    func start() async throws {
        try await host.runner.start(configuration, leakPolicy: .routeBased, profileID: "test")
    }

    func stop() async {
        await host.stop(.userInitiated)
        for server in servers { server.close() }
    }

    func kept() async throws -> DeviceEnrolment {
        try DeviceEnrolment(try await secrets.read(EnrolledTunnelConfiguration.defaultSecretName, of: "test"))
    }

    /// Makes a server unreachable.
    func kill(_ index: Int) {
        let dead = servers[index].address
        internet.setFilter { $0.source != dead && $0.destination != dead }
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

@Suite("A tunnel whose gateway assigns its settings", .timeLimit(.minutes(2)))
struct EnrolledTunnelProviderTests {
    @Test("The first start enrols with the invitation, and later ones use the stored device")
    func start() async throws {
        let scene = try await EnrolledScene()
        try await scene.start()
        #expect(await scene.passes())
        let settings = try #require(scene.host.platform.settings)
        #expect(settings.addresses.map(\.description) == ["10.66.0.2/32"])
        #expect(settings.dns?.servers == [.v4(10, 66, 0, 1)] && settings.dns?.searchDomains == ["corp.example"])
        #expect(settings.mtu == 1420 && settings.includedRoutes == [.allIPv4, .allIPv6])
        let kept = try await scene.kept()
        #expect(kept.token == nil && kept.grant?.device.name == "laptop")
        await scene.host.stop(.userInitiated)
        try await scene.start()
        #expect(await scene.passes())
        #expect(scene.gateway.asked == ["POST /v1/enrolments", "GET /v1/device"])
        #expect(try await scene.kept().privateKey == kept.privateKey, "a device keeps its key")
        await scene.stop()
    }

    @Test("A start whose reply is lost and one that is killed before result in the same device")
    func lostReplies() async throws {
        let scene = try await EnrolledScene()
        scene.gateway.change { $0.losesRepliesOf = EnrolmentPath.enrolments }
        let error = await #expect(throws: TunnelError.self) { try await scene.start() }
        #expect(error?.code == .serverUnreachable)
        let kept = try await scene.kept()
        #expect(kept.token == scene.token && kept.grant == nil)
        scene.gateway.change { $0.losesRepliesOf = nil }
        try await scene.start()
        #expect(await scene.passes())
        #expect(scene.gateway.state.withLock { $0.devices.count } == 1)
        #expect(try await scene.kept().privateKey == kept.privateKey)
        await scene.stop()
    }

    @Test("If the gateway is unreachable, its last grant is used until it expires")
    func outage() async throws {
        let scene = try await EnrolledScene(expiresInSeconds: 600)
        try await scene.start()
        await scene.host.stop(.userInitiated)
        scene.gateway.change { $0.isDown = true }
        try await scene.start()
        #expect(await scene.passes())
        await scene.host.stop(.userInitiated)
        scene.clocked.seconds.withLock { $0 = 700 }
        let error = await #expect(throws: TunnelError.self) { try await scene.start() }
        #expect(error?.code == .serverUnreachable)
        await scene.stop()
    }

    @Test("A revoked device does not start, and the error names the reason")
    func revoked() async throws {
        let scene = try await EnrolledScene()
        try await scene.start()
        await scene.host.stop(.userInitiated)
        scene.gateway.change { $0.devices = [] }
        let error = await #expect(throws: TunnelError.self) { try await scene.start() }
        #expect(error?.code == .authenticationFailed && error?.fix.contains("revoked") == true)
        await scene.stop()
    }

    @Test("An invitation that another device has used ends the start")
    func usedInvitation() async throws {
        let scene = try await EnrolledScene()
        let (token, gateway) = (scene.token, scene.gateway)
        let fixtures = try ContractFixtures(seed: 99)
        let thief = EnrolmentClient(servers: scene.configuration.gateways, transport: gateway)
        _ = try await thief.enrol(
            EnrolmentRequest(publicKey: fixtures.key.publicKey, credential: fixtures.credential), with: token)
        let error = await #expect(throws: TunnelError.self) { try await scene.start() }
        #expect(error?.code == .authenticationFailed && error?.message.contains("invitationUsed") == true)
        #expect(scene.host.platform.settings == nil)
        await scene.stop()
    }

    @Test("A start with a silent first server uses the next one")
    func silentServer() async throws {
        let scene = try await EnrolledScene()
        scene.kill(0)
        try await scene.start()
        #expect(await scene.passes())
        #expect(scene.servers[1].behind.statistics.pingsAnswered > 0)
        await scene.stop()
    }

    @Test("When no data arrives any more, the tunnel moves to the next server without going down")
    func failover() async throws {
        let scene = try await EnrolledScene()
        try await scene.start()
        #expect(await scene.passes())
        let statuses = Mutex<Set<TunnelStatus>>([])
        let updates = scene.host.statusUpdates()
        let watching = Task { for await update in updates { _ = statuses.withLock { $0.insert(update.status) } } }
        scene.kill(0)
        #expect(await scene.passes())
        #expect(scene.servers[1].behind.statistics.pingsAnswered > 0)
        #expect(await scene.changes.wait { scene.host.status.status == .connected })
        // The tunnel moves back, and requests the grant once for each round.
        scene.kill(1)
        #expect(await scene.passes())
        #expect(await scene.changes.wait { scene.host.status.status == .connected })
        watching.cancel()
        #expect(!statuses.withLock { $0.contains(.disconnected) })
        await scene.stop()
    }

    @Test("A tunnel that carries no packets requests the servers from the gateway and tries the next one")
    func inquiry() async throws {
        let scene = try await EnrolledScene()
        try await scene.start()
        #expect(await scene.passes())
        // Both servers are silent until the gateway answers. By then the tunnel has moved to the second one.
        let (internet, changes, next) = (scene.internet, scene.changes, scene.servers[0].behind)
        let before = Eavesdropper<Int>()
        scene.gateway.change { state in
            state.onAnswer = {
                before.observe(next.statistics.pingsAnswered)
                internet.setFilter { _ in true }
                changes.notify()
            }
        }
        let asked = scene.gateway.asked.count
        internet.setFilter { _ in false }
        #expect(await changes.wait { before.count > 0 })
        #expect(scene.gateway.asked.dropFirst(asked).first == "GET /v1/device")
        let answered = try #require(before.messages.first)
        let isNextInUse = await changes.wait { await scene.passes() && next.statistics.pingsAnswered > answered }
        #expect(isNextInUse)
        #expect(await scene.changes.wait { scene.host.status.status == .connected })
        await scene.stop()
    }

    @Test("A device that is revoked while its tunnel is up gets the reason when the tunnel dies")
    func revokedMeanwhile() async throws {
        let scene = try await EnrolledScene()
        try await scene.start()
        scene.gateway.change { $0.devices = [] }
        scene.internet.setFilter { _ in false }
        #expect(await scene.changes.wait { scene.host.status.status == .disconnected })
        #expect(scene.host.status.error?.code == .authenticationFailed)
        await scene.stop()
    }

    @Test("A device renews in time, and applies the new grant")
    func renewal() async throws {
        let scene = try await EnrolledScene(renewAfterSeconds: 1)
        try await scene.start()
        #expect(await scene.passes())
        // The gateway removes its first server.
        scene.gateway.change { $0.templateGrant.servers.removeFirst() }
        #expect(await scene.changes.wait { scene.gateway.asked.contains("POST /v1/device/renew") })
        scene.kill(0)
        #expect(await scene.passes())
        #expect(scene.servers[1].behind.statistics.pingsAnswered > 0)
        #expect(try await scene.kept().grant?.servers.count == 1)
        await scene.stop()
    }

    @Test("A running tunnel does not store its old key again after its secret was removed")
    func replacedMeanwhile() async throws {
        let scene = try await EnrolledScene(renewAfterSeconds: 1)
        try await scene.start()
        #expect(await scene.passes())
        let name = EnrolledTunnelConfiguration.defaultSecretName
        try await scene.secrets.remove(name, of: "test")
        // When the second renewal is sent, the first one has ended.
        let before = scene.gateway.asked.count
        #expect(
            await scene.changes.wait {
                scene.gateway.asked.dropFirst(before).count { $0 == "POST /v1/device/renew" } >= 2
            })
        #expect(try await scene.secrets.names(of: "test") == [])
        await scene.stop()
        #expect(try await scene.secrets.names(of: "test") == [])
    }

    @Test("Errors are reported field by field, and without a transport nothing starts")
    func validation() async throws {
        var configuration = EnrolledTunnelConfiguration(gateways: [])
        #expect(configuration.validate().map(\.field) == ["gateways"])
        configuration.gateways = [ProvisioningServer(name: "vpn.example.com", port: 0)]
        configuration.handshakeTimeout = 0
        #expect(
            configuration.validate().map(\.field) == ["gateways[0].port", "gateways[0].trust", "handshakeTimeout"])
        let host = MemoryHost<EnrolledTunnelProvider>(secrets: MemorySecretStore())
        let scene = try await EnrolledScene()
        let error = await #expect(throws: TunnelError.self) {
            try await host.runner.start(scene.configuration, leakPolicy: .routeBased, profileID: "test")
        }
        #expect(error?.code == .secretUnavailable)
        await host.stop(.userInitiated)
        let json = try JSONEncoder().encode(scene.configuration)
        #expect(try JSONDecoder().decode(EnrolledTunnelConfiguration.self, from: json) == scene.configuration)
        #expect(!String(decoding: json, as: UTF8.self).contains(scene.token.exportedText))
        await scene.stop()
    }

    @Test("Trust has one of three forms, and unknown data never becomes trust")
    func trust() throws {
        let pins = (1...2).compactMap { ServerKeyPin(bytes: [UInt8](repeating: $0, count: 32)) }
        for trust in [
            ServerTrust.system, .pins(pins), .authorities("PEM"), .authorities("PEM", acceptsCommonName: true),
        ] {
            #expect(try JSONDecoder().decode(ServerTrust.self, from: try JSONEncoder().encode(trust)) == trust)
        }
        for text in [
            "{}", #"{"pin":[]}"#, #"{"system":false}"#, #"{"system":true,"acceptsCommonName":true}"#, #"{"pins":[]}"#,
            #"{"authorities":"x","system":true}"#, "null", #""system""#,
        ] {
            #expect(throws: (any Error).self) { try JSONDecoder().decode(ServerTrust.self, from: Data(text.utf8)) }
        }
    }
}
