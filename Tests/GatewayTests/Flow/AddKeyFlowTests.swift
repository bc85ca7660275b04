// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import PinnedProvisioning
import Provisioning
import Testing
import TunnelIO
import WireGuardCore
import WireGuardTunnel

@testable import Gateway

@Suite("A tunnel that a gateway assigns by addKey", .timeLimit(.minutes(2)))
struct AddKeyFlowTests {
    private let admin = Caller.local(0)

    @Test(
        "A provider with PIA's configuration registers at a gateway over TLS, and its packets pass, until a revocation")
    func whole() async throws {
        try await TestFolder.use { folder in
            let scene = try await FlowScene(folder) { settings in
                settings.addKey.isEnabled = true
                settings.addKey.listener = .init(
                    addresses: settings.api.addresses, port: AddKeyConfiguration.defaultPort)
            }
            let service = scene.process.service
            let user = try await service.addUser(UserDraft(login: "anna"), admin).item
            let issued = try await service.addToken(TokenDraft(scope: .addKey, userID: user.id, name: "pia"), admin)
            let authority = try GatewayDirectory(existing: "\(folder)/gateway").addKeyCertificate().authority
            let host = service.settings.host
            let values: [String: Any] = [
                "token": issued.secret.exportedText, "use_ip": true, "cn": host, "ping": "10.66.0.1",
                "customDNSServers": [String](), "packetSize": 1280,
            ]
            let (configuration, token) = try AddKeyConfiguration.fromProviderConfiguration(
                values, serverAddress: host, trust: .authorities(authority))
            let secrets = MemorySecretStore()
            try await secrets.write(token, configuration.tokenName, of: "test")
            var environment = WireGuardEnvironment()
            environment.network = scene.internet.attach([.v4(192, 0, 2, 10)])
            let used = environment
            let device = MemoryHost(secrets: secrets) {
                AddKeyTunnelProvider(transport: PinnedProvisioningTransport(), environment: used)
            }
            let changes = Changes()
            device.platform.setDeliveryHandler { changes.notify() }
            changes.follow(device.statusUpdates())

            var keys: [String] = []
            for round in 1...2 {
                try await device.runner.start(configuration, leakPolicy: .routeBased, profileID: "test")
                #expect(await device.passes(changes), "start \(round)")
                // The packet has crossed the gateway: the network behind it has answered.
                #expect(scene.network.behind.statistics.pingsAnswered >= round)
                let settings = try #require(device.platform.settings)
                #expect(settings.addresses.map(\.prefixLength) == [32] && settings.mtu == 1280)
                #expect(try IPPrefix("10.66.0.0/24").contains(settings.addresses[0].address))
                let registration = try await MessageClient(channel: device).send(AddKeyStatusRequest())
                #expect(registration.innerAddress == .v4(10, 66, 0, 1) && registration.server == host)
                #expect(registration.endpoint == "\(FlowScene.wireGuard):51820")
                // The second key replaces the first, in the one device of the token.
                let devices = try await service.devices(PageRequest(), admin).items
                #expect(scene.process.runtime.map { Array($0.livePeers.keys) } == devices.compactMap(\.publicKey))
                keys += devices.compactMap { $0.publicKey?.base64 }
                if round == 1 { await device.stop(.userInitiated) }
            }
            #expect(keys.count == 2 && Set(keys).count == 2, "a fresh key for each start")

            _ = try await service.revokeToken(issued.item.id, admin)
            #expect(await scene.waits(forPeers: 0))
            await device.stop(.userInitiated)
            let error = await #expect(throws: TunnelError.self) {
                try await device.runner.start(configuration, leakPolicy: .routeBased, profileID: "test")
            }
            #expect(error?.code == .authenticationFailed)
            await device.stop(.userInitiated)
            await scene.stop()
        }
    }
}
