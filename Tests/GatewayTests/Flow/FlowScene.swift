// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
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

/// A network of peers in memory, with other hosts behind it.
final class MemoryPeerNetwork: PeerNetwork {
    let behind = VirtualNetwork()
    /// The gateway's interface, after its start.
    let tun = Mutex<MemoryTun?>(nil)

    func start() async throws(TunnelServerError) -> PeerNetworkDevices {
        do {
            let tun = try behind.makeTun(name: "gateway")
            self.tun.withLock { $0 = tun }
            return PeerNetworkDevices(tun, addresses: [])
        } catch {
            throw .notRunning
        }
    }

    func apply(
        _: [IPPrefix: ClientAccess?], isComplete _: Bool, released _: Set<IPPrefix>
    ) async throws(TunnelServerError) -> [IPPrefix: TunnelServerError] { [:] }

    func check(subnets _: [IPPrefix]) async throws(TunnelServerError) {}

    func stop() async {}

    var condition: NetworkState { NetworkState() }
}

/// A whole gateway in this process, with its API on a separate loopback address and WireGuard on a network in memory.
final class FlowScene: Sendable {
    static let wireGuard = IPAddress.v4(198, 51, 100, 1)

    let process: GatewayProcess
    let internet = MemoryInternet()
    let network = MemoryPeerNetwork()
    private let running: Task<Void, any Error>

    /// - Parameters:
    ///   - logger: The gateway's log.
    ///   - stopLimit: The time to wait at the end, in each of three steps, for a database that does not answer.
    ///   - change: Changes the usual settings.
    convenience init(
        _ folder: String, logger: Logger = Logger(label: "gateway") { _ in SwiftLogNoOpLogHandler() },
        stopLimit: Duration = .seconds(6), change: (inout GatewaySettings) throws -> Void = { _ in }
    ) async throws {
        // No other test listens on this address.
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
        try change(&settings)
        try await self.init(
            GatewayDirectory.make("\(folder)/gateway", settings, backupKey: "\(folder)/backup.key"), logger: logger,
            stopLimit: stopLimit)
    }

    /// Starts the gateway of a folder, for example again.
    init(
        _ directory: GatewayDirectory, logger: Logger = Logger(label: "gateway") { _ in SwiftLogNoOpLogHandler() },
        stopLimit: Duration = .seconds(6)
    ) async throws {
        var options = GatewayProcess.Options(network: network, socketUser: geteuid())
        options.datagrams = internet.attach([Self.wireGuard])
        options.stopLimit = stopLimit
        let process = try GatewayProcess(directory, settings: directory.settings(), options, logger: logger)
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

    /// An invitation for a device of a user, whom the first call adds.
    func invitation(deviceLimit: Int? = nil) async throws -> Invitation {
        let present = try await process.service.users(PageRequest(), .local(0)).items.first
        let user =
            if let present {
                present
            } else {
                try await process.service.addUser(UserDraft(login: "anna", deviceLimit: deviceLimit), .local(0)).item
            }
        let issued = try await process.service.addInvitation(InvitationDraft(userID: user.id), .local(0))
        let settings = process.service.settings
        let pins = try GatewayDirectory(existing: folderPath(settings)).pins()
        let text = try InvitationTemplate(
            host: settings.host, port: settings.api.port, pins: [pins.active, pins.backup], label: settings.label
        ).text(issued.secret, until: issued.item.expiresAt)
        return try Invitation(text)
    }

    /// A token with which one user may enrol this number of devices, and the servers that accept it.
    func enrolmentToken(devices: Int) async throws -> (servers: [ProvisioningServer], token: BearerSecret) {
        let invitation = try await invitation(deviceLimit: devices)
        let user = try await process.service.users(PageRequest(), .local(0)).items[0]
        let issued = try await process.service.addToken(
            TokenDraft(scope: .enrol, userID: user.id, name: "crowd"), .local(0))
        let servers = EnrolledTunnelConfiguration(invitation, deviceName: "crowd", platform: "linux").gateways
        return (servers, issued.secret)
    }

    /// Waits until the tunnel serves this number of peers.
    func waits(forPeers count: Int) async -> Bool {
        await waitUntil(timeout: .seconds(60), pollEvery: .milliseconds(20)) {
            process.runtime?.figures.peers == count
        }
    }

    private func folderPath(_ settings: GatewaySettings) -> String {
        settings.socket.replacing("/admin.sock", with: "/gateway")
    }

    /// Makes a device's host, whose secret store contains the invitation.
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

extension MemoryHost {
    /// Whether a ping through the tunnel, to a host behind the gateway, is answered.
    /// - Parameter changes: Notified of the packets that the tunnel delivers.
    func passes(_ changes: Changes) async -> Bool {
        guard let inner = platform.settings?.addresses.first?.address else { return false }
        let request = PacketBuilder.icmpEcho(
            from: inner, to: .v4(203, 0, 113, 7), identifier: 99, sequence: 1, payload: [1, 2, 3])
        let reply = VirtualNetwork().receive(request)
        for _ in 0..<600 {
            platform.inject(request)
            let isThere = await changes.wait(within: .milliseconds(100)) {
                platform.takeDelivered().contains { $0 == reply }
            }
            if isThere { return true }
        }
        return false
    }
}
