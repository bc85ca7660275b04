// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import DemoSupport
import Gateway
import Logging
import NetworkAddresses
import PacketTunnel
import PinnedProvisioning
import Provisioning
import TunnelIO
import TunnelSystem
import WireGuardCore
import WireGuardDevice

/// A gateway in this process, with an interface in memory.
struct DemoGateway {
    let settings: GatewaySettings
    let directory: GatewayDirectory
    let process: GatewayProcess
    let host: DemoHost
    let pins: [ServerKeyPin]

    /// The steps show the errors.
    static let logger = Logger(label: "demo") { _ in SwiftLogNoOpLogHandler() }

    init(_ folder: String) throws {
        var settings = GatewaySettings()
        settings.label = "demo"
        settings.host = "127.0.0.1"
        settings.addresses = [try InterfaceAddress("10.66.0.1/16"), try InterfaceAddress("fd66::1/64")]
        settings.dns = [try IPAddress("10.66.0.1")]
        settings.socket = folder + "/run/admin.sock"
        settings.api = .init(addresses: [.v4(127, 0, 0, 1)], port: try freePort(1))
        settings.admin = .init(addresses: [.v4(127, 0, 0, 1)], port: try freePort(1))
        settings.addKey.isEnabled = true
        settings.addKey.listener = .init(addresses: [.v4(127, 0, 0, 1)], port: try freePort(1))
        settings.wireGuardPort = try freePort(2)
        directory = try GatewayDirectory.make(folder + "/gateway", settings, backupKey: folder + "/backup.key")
        let pins = try directory.pins()
        self.pins = [pins.active, pins.backup]
        host = try DemoHost(name: "gateway", addresses: settings.addresses.map(\.address), mtu: settings.mtu)
        var options = GatewayProcess.Options(
            network: MemoryPeerNetwork(host.tun, addresses: settings.addresses), socketUser: geteuid())
        options.version = programVersion
        process = try GatewayProcess(directory, settings: settings, options, logger: Self.logger)
        self.settings = settings
    }

    /// Runs `body` while the gateway runs.
    func serve(_ body: () async throws -> Void) async throws {
        let (ready, process) = (OneShot<(any Error)?>(), process)
        let running = Task {
            do { try await process.run { _ in ready.finish(nil) } } catch {
                ready.finish(error)
                throw error
            }
        }
        if let error = await ready.value { throw error }
        let result: Result<Void, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        running.cancel()
        try await running.value
        try result.get()
    }
}

/// A device, as an app is one: asks the gateway over pinned TLS, and has its own WireGuard.
struct DemoDevice {
    let key: PrivateKey
    let credential: BearerSecret
    let client: EnrolmentClient

    static let transport: any ProvisioningTransport = PinnedProvisioningTransport(logger: DemoGateway.logger)

    /// A device of the gateway of an invitation.
    init(_ invitation: Invitation) {
        var random = SystemRandomNumberGenerator()
        key = PrivateKey(using: &random)
        credential = BearerSecret(.device, using: &random)
        client = EnrolmentClient(
            servers: Self.servers(invitation), transport: Self.transport, deadline: .seconds(10),
            logger: DemoGateway.logger)
    }

    /// The servers of an invitation, with the pins of their keys.
    static func servers(_ invitation: Invitation) -> [ProvisioningServer] {
        EnrolledTunnelConfiguration(invitation).gateways
    }

    /// Becomes a device by an invitation.
    func enrol(_ invitation: Invitation) async throws(ProvisioningError) -> EnrolmentGrant {
        try await client.enrol(
            EnrolmentRequest(publicKey: key.publicKey, credential: credential, name: "demo", platform: "linux"),
            with: invitation.token)
    }

    /// Starts a WireGuard with the settings of a grant, on the host's interface.
    func tunnel(_ grant: EnrolmentGrant, _ host: DemoHost) throws(DemoFailure) -> WireGuardDevice {
        guard let server = grant.servers.first, let place = server.endpoints.first,
            let address = try? IPAddress(place.host)
        else { throw DemoFailure("the grant names no server by its address") }
        do throws(WireGuardDeviceError) {
            let device = try WireGuardDevice(tun: host.tun, network: SystemDatagramNetwork())
            try device.start()
            var update = UAPIDeviceUpdate()
            update.privateKey = .set(key)
            update.peers = [
                DemoHost.peer(
                    server.publicKey, grant.presharedKey, at: Endpoint(address: address, port: place.port),
                    allowedIPs: grant.routes)
            ]
            try device.apply(update)
            return device
        } catch {
            throw DemoFailure("\(error)")
        }
    }
}
