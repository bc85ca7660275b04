// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import Logging
    import NetworkAddresses
    import PacketTunnel
    import PinnedProvisioning
    import Provisioning
    import TunnelIO
    import WireGuardCore
    import WireGuardDevice

    /// One device, as an app has it: asks the gateway over pinned TLS, and has a WireGuard of its own.
    struct DemoDevice {
        let key: PrivateKey
        let credential: BearerSecret
        /// Asks the gateway.
        let client: EnrolmentClient

        /// What goes wrong is shown by the steps.
        static let logger = Logger(label: "demo") { _ in SwiftLogNoOpLogHandler() }
        static let transport: any ProvisioningTransport = PinnedProvisioningTransport(logger: logger)

        /// A device of the gateway that an invitation leads to.
        init(_ invitation: Invitation) {
            var random = SystemRandomNumberGenerator()
            key = PrivateKey(using: &random)
            credential = BearerSecret(.device, using: &random)
            client = EnrolmentClient(
                servers: Self.servers(invitation), transport: Self.transport, deadline: .seconds(10),
                logger: Self.logger)
        }

        /// Who an invitation leads to, and the keys that are believed.
        static func servers(_ invitation: Invitation) -> [ProvisioningServer] {
            EnrolledTunnelConfiguration(invitation).gateways
        }

        /// Becomes a device by an invitation.
        func enrol(_ invitation: Invitation) async throws(ProvisioningError) -> EnrolmentGrant {
            try await client.enrol(
                EnrolmentRequest(publicKey: key.publicKey, credential: credential, name: "demo", platform: "linux"),
                with: invitation.token)
        }

        // MARK: - The tunnel

        /// A running WireGuard as a grant says, on an interface in memory.
        func tunnel(_ grant: EnrolmentGrant, _ host: DemoHost) throws(DemoFailure) -> WireGuardDevice {
            guard let server = grant.servers.first, let place = server.endpoints.first,
                let address = try? IPAddress(place.host)
            else { throw DemoFailure("the grant names no server by its address") }
            do throws(WireGuardDeviceError) {
                let device = try WireGuardDevice(tun: host.tun, network: SystemDatagramNetwork())
                try device.start()
                var peer = UAPIPeerUpdate(publicKey: server.publicKey)
                peer.presharedKey = grant.presharedKey.map { .set($0) } ?? .clear
                peer.endpoint = Endpoint(address: address, port: place.port)
                peer.replaceAllowedIPs = true
                peer.allowedIPs = grant.routes.map { .add($0) }
                var update = UAPIDeviceUpdate()
                update.privateKey = .set(key)
                update.peers = [peer]
                try device.apply(update)
                return device
            } catch {
                throw DemoFailure("\(error)")
            }
        }
    }
#endif
