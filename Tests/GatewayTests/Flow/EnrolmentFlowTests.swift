// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import PinnedProvisioning
import Provisioning
import Synchronization
import Testing
import TunnelIO
import TunnelServer
import WireGuardCore
import WireGuardTunnel

@testable import Gateway

/// A network of peers in memory, with others behind it.
private final class MemoryPeerNetwork: PeerNetwork {
    let behind = VirtualNetwork()
    private let clients = Mutex<[ClientChange]>([])

    func start() async throws(TunnelServerError) -> (device: any TunDevice, addresses: [InterfaceAddress]) {
        do {
            let tun = try MemoryFlowDevice(name: "gateway")
            tun.connect(to: behind)
            return (tun, [])
        } catch {
            throw .notRunning
        }
    }

    func apply(_ changes: [ClientChange]) async throws(TunnelServerError) -> [IPPrefix: TunnelServerError] {
        clients.withLock { $0 += changes }
        return [:]
    }

    func stop() async {}

    var condition: NetworkCondition { NetworkCondition() }
}

/// A whole gateway in this process, with its API on a loopback address of its own and WireGuard on a network in memory.
private final class FlowScene: Sendable {
    static let wireGuard = IPAddress.v4(198, 51, 100, 1)

    let process: GatewayProcess
    let internet = MemoryInternet()
    let network = MemoryPeerNetwork()
    private let running: Task<Void, any Error>

    init(_ folder: String) async throws {
        // Nobody else listens there.
        let address = IPAddress.v4(
            127, UInt8.random(in: 1...254), UInt8.random(in: 1...254), UInt8.random(in: 1...254))
        var settings = GatewaySettings()
        settings.label = "Flow"
        settings.host = address.description
        settings.api = .init(addresses: [address], port: 8443)
        settings.admin = .init(addresses: [address], port: 8080)
        settings.socket = "\(folder)/admin.sock"
        settings.addresses = [try InterfaceAddress("10.66.0.1/24")]
        settings.endpoints = [try EndpointAddress("\(Self.wireGuard):51820")]
        settings.routes = [.allIPv4]
        let directory = try GatewayDirectory.make("\(folder)/gateway", settings, backupKey: "\(folder)/backup.key")
        var options = GatewayProcess.Options(network: network, socketUser: 0)
        options.datagrams = internet.attach([Self.wireGuard])
        let process = try GatewayProcess(
            directory, settings: settings, options, logger: Logger(label: "gateway") { _ in SwiftLogNoOpLogHandler() })
        self.process = process
        let (ready, told) = AsyncStream.makeStream(of: Void.self)
        running = Task {
            defer { told.finish() }
            try await process.run { _ in told.finish() }
        }
        for await _ in ready {}
    }

    func stop() async {
        running.cancel()
        _ = await running.result
    }

    /// An invitation for a new user's device.
    func invitation() async throws -> Invitation {
        let user = try await process.service.addUser(UserDraft(login: "anna"), .local(0)).item
        let issued = try await process.service.addInvitation(InvitationDraft(userID: user.id), .local(0))
        let settings = process.service.settings
        let pins = try GatewayDirectory(existing: folderPath(settings)).pins()
        let text = try InvitationPlace(
            host: settings.host, port: settings.api.port, pins: [pins.active, pins.backup], label: settings.label
        ).text(issued.secret, until: issued.item.expiresAt)
        return try Invitation(text)
    }

    private func folderPath(_ settings: GatewaySettings) -> String {
        settings.socket.replacing("/admin.sock", with: "/gateway")
    }

    /// A device's host, whose secret store has the invitation.
    func device(_ invitation: Invitation) async throws -> (
        host: MemoryHost<EnrolledTunnelProvider>, configuration: EnrolledTunnelConfiguration, secrets: MemorySecretStore
    ) {
        let secrets = MemorySecretStore()
        var configuration = EnrolledTunnelConfiguration(invitation, deviceName: "laptop", platform: "linux")
        configuration.connectivity = ConnectivityOptions(
            connectivityInterval: 0.1, maxConnectionAttempts: 2, pingAddress: "203.0.113.1", pingInterval: 0.05,
            healingInterval: 0.1)
        try await secrets.write(
            SecretBytes(Array(invitation.exportedText.utf8)), configuration.secretName, of: "test")
        var environment = WireGuardEnvironment()
        environment.network = internet.attach([.v4(192, 0, 2, 10)])
        let used = environment
        let host = MemoryHost(secrets: secrets) {
            EnrolledTunnelProvider(transport: PinnedProvisioningTransport(), environment: used)
        }
        return (host, configuration, secrets)
    }
}

@Suite("A device at a gateway, from the invitation to its end", .timeLimit(.minutes(2)))
struct EnrolmentFlowTests {
    /// Whether a ping through the tunnel comes back.
    private func passes(_ host: MemoryHost<EnrolledTunnelProvider>, _ changes: Changes) async -> Bool {
        guard let inner = host.platform.settings?.addresses.first?.address else { return false }
        let request = PacketBuilder.icmpEcho(
            from: inner, to: .v4(203, 0, 113, 7), identifier: 99, sequence: 1, payload: [1, 2, 3])
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
        "It enrols over pinned TLS, its tunnel carries packets, its key is rotated, and revoked it is cut off and told so"
    )
    func whole() async throws {
        try await TestFolder.use { folder in
            let scene = try await FlowScene(folder)
            let invitation = try await scene.invitation()
            let (host, configuration, secrets) = try await scene.device(invitation)
            let changes = Changes()
            host.platform.setDeliveryHandler { changes.tell() }
            changes.follow(host.statusUpdates())

            try await host.runner.start(configuration, leakPolicy: .routeBased, profileID: "test")
            #expect(await passes(host, changes))
            await host.stop(.userInitiated)
            var kept = try DeviceEnrolment(try await secrets.read(configuration.secretName, of: "test"))
            #expect(kept.token == nil && kept.grant?.device.name == "laptop" && kept.grant?.presharedKey != nil)

            // The identical request, as after a lost reply, is the same device; another key is refused.
            let client = EnrolmentClient(servers: configuration.gateways, transport: PinnedProvisioningTransport())
            let request = EnrolmentRequest(
                publicKey: kept.privateKey.publicKey, credential: kept.credential, name: "laptop", platform: "linux")
            #expect(try await client.enrol(request, with: invitation.token).device.id == kept.grant?.device.id)
            var random = SystemRandomNumberGenerator()
            let thief = DeviceEnrolment(token: invitation.token, using: &random)
            let misuse = await #expect(throws: ProvisioningError.self) {
                try await client.enrol(
                    EnrolmentRequest(publicKey: thief.privateKey.publicKey, credential: thief.credential),
                    with: invitation.token)
            }
            guard case .problem(let problem) = misuse else {
                Issue.record("\(String(describing: misuse))")
                return
            }
            #expect(problem.code == .invitationUsed)

            // Another key, and the device's list.
            let old = kept.privateKey
            let keeper = EnrolmentKeeper(client: client, logger: Logger(label: "test")) {
                (secret) throws(TunnelError) in try await secrets.write(secret, configuration.secretName, of: "test")
            }
            kept = try await keeper.rotated(kept)
            #expect(kept.privateKey != old)
            let devices = try await client.devices(credential: kept.credential)
            #expect(devices.map(\.isCurrent) == [true] && devices[0].publicKey == kept.privateKey.publicKey)
            try await host.runner.start(configuration, leakPolicy: .routeBased, profileID: "test")
            #expect(await passes(host, changes))

            // Revoked by the user, from somewhere else.
            try await client.revoke(devices[0].id, credential: kept.credential)
            #expect(await changes.wait { host.status.status == .disconnected })
            #expect(host.status.error?.code == .authenticationFailed)
            await host.stop(.userInitiated)
            await scene.stop()
        }
    }

    @Test("A gateway with other keys than the invitation's gets nothing")
    func otherKeys() async throws {
        try await TestFolder.use { folder in
            let scene = try await FlowScene(folder)
            let invitation = try await scene.invitation()
            var (host, configuration, secrets) = try await scene.device(invitation)
            let others = (1...2).compactMap { ServerKeyPin(bytes: [UInt8](repeating: $0, count: 32)) }
            configuration.gateways[0].trust = .pins(others)
            configuration.gatewayTimeout = 2
            let wrong = configuration
            let error = await #expect(throws: TunnelError.self) {
                try await host.runner.start(wrong, leakPolicy: .routeBased, profileID: "test")
            }
            #expect(error?.code == .serverUnreachable && error?.message.contains("not the server") == true)
            let kept = try DeviceEnrolment(try await secrets.read(configuration.secretName, of: "test"))
            #expect(kept.token == invitation.token && kept.grant == nil)
            await host.stop(.userInitiated)
            await scene.stop()
        }
    }
}
