// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
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

@Suite("A device at a gateway, from the invitation to its end", .timeLimit(.minutes(2)))
struct EnrolmentFlowTests {
    @Test(
        "A device enrols over pinned TLS, its tunnel carries packets, its key is rotated, and a revocation cuts it off"
    )
    func whole() async throws {
        try await TestFolder.use { folder in
            let scene = try await FlowScene(folder)
            let invitation = try await scene.invitation()
            let (host, configuration, secrets) = try await scene.device(invitation)
            let changes = Changes()
            host.platform.setDeliveryHandler { changes.notify() }
            changes.follow(host.statusUpdates())

            try await host.runner.start(configuration, leakPolicy: .routeBased, profileID: "test")
            #expect(await host.passes(changes))
            await host.stop(.userInitiated)
            var kept = try DeviceEnrolment(try await secrets.read(configuration.secretName, of: "test"))
            #expect(kept.token == nil && kept.grant?.device.name == "laptop" && kept.grant?.presharedKey != nil)

            // An identical request, as after a lost reply, gets the same device. A request with another key is refused.
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

            // Rotate the key, and list the devices.
            let old = kept.privateKey
            let keeper = EnrolmentKeeper(client: client, logger: Logger(label: "test")) {
                (secret) throws(TunnelError) in try await secrets.write(secret, configuration.secretName, of: "test")
            }
            kept = try await keeper.rotated(kept)
            #expect(kept.privateKey != old)
            let devices = try await client.devices(credential: kept.credential)
            #expect(devices.map(\.isCurrent) == [true] && devices[0].publicKey == kept.privateKey.publicKey)
            try await host.runner.start(configuration, leakPolicy: .routeBased, profileID: "test")
            #expect(await host.passes(changes))

            // The user revokes the device elsewhere.
            try await client.revoke(devices[0].id, credential: kept.credential)
            #expect(await changes.wait { host.status.status == .disconnected })
            #expect(host.status.error?.code == .authenticationFailed)
            await host.stop(.userInitiated)
            await scene.stop()
        }
    }

    @Test("The gateway's tunnel has each device as a peer when the device receives the reply to its enrolment")
    func peersAtReply() async throws {
        try await TestFolder.use { folder in
            let scene = try await FlowScene(folder)
            let (servers, token) = try await scene.enrolmentToken(devices: 20)
            let client = EnrolmentClient(servers: servers, transport: PinnedProvisioningTransport())
            var random = SystemRandomNumberGenerator()
            for _ in 0..<20 {
                let device = DeviceEnrolment(token: token, using: &random)
                let key = device.privateKey.publicKey
                _ = try await client.enrol(EnrolmentRequest(publicKey: key, credential: device.credential), with: token)
                #expect(scene.process.runtime?.livePeers[key] != nil)
            }
            await scene.stop()
        }
    }

    @Test("A gateway whose keys are not in the invitation gets no request")
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
