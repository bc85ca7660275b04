// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import AppleTunnelExtension
import AppleTunnelModel
import Foundation
import NetworkAddresses
import NetworkExtension
import Observation
import PacketTunnelTesting
import Testing
import WireGuardCore

@testable import CredentialTunnel
@testable import PacketTunnel
@testable import PacketTunnelApple
@testable import TunnelIO

extension OneNetworkTests {
    /// The example's tunnel with a login, from the actions of its app to a server on this machine's loopback interface.
    @Suite("The example's tunnel with a login", .timeLimit(.minutes(5)))
    struct LoginExampleTests {
        private struct OneUser: CredentialStore {
            func verdict(on attempt: LoginAttempt) async -> LoginVerdict {
                guard attempt.login == "kean", attempt.password.bytes == Array("123456".utf8) else {
                    return .refused(Body.Refusal(.credentials, message: "no such user, or another password"))
                }
                return .accepted(
                    Body.Assignment(addresses: [InterfaceAddress(host: .v4(10, 0, 0, 2))], routes: [.allIPv4]))
            }

            func ended(_ session: ClientID, _ reason: EndReason, _: SessionTraffic) async {}
        }

        @Test(
            "A profile is installed, refused, corrected, started in the extension, and removed once that is confirmed")
        @MainActor func wholeWay() async throws {
            var random = SeededGenerator(seed: 23)
            let (key, presharedKey) = (PrivateKey(using: &random), PresharedKey(using: &random))
            let tun = try VirtualNetwork().makeTun(name: "server")
            let server = CredentialServerDevice(
                privateKey: key, presharedKey: presharedKey, store: OneUser(), tun: tun,
                network: SystemDatagramNetwork())
            try server.start()
            let port = try #require(server.port)

            let options = NetworkExtensionManagerOptions(providerBundleIdentifier: "com.example.\(UUID().uuidString)")
            StandInExtensions.install(options.providerBundleIdentifier) { LoginTunnel() }
            let store = NetworkExtensionProfileStore(options)
            let model = LoginModel(
                TunnelManager(store: store, secrets: KeychainSecretStore()) { store.channel(for: $0) })
            await model.load()
            #expect(model.profile == nil && model.alert == nil && model.isLoaded)
            model.details.server = "no port"
            await model.install()
            #expect(model.profile == nil && model.isAlerting && model.alert?.message.contains("server") == true)
            model.isAlerting = false

            model.details.server = "127.0.0.1:\(port)"
            model.details.serverKey = key.publicKey.base64
            model.details.presharedKey = presharedKey.secret.withSpan { span in
                Data(span.indices.map { span[$0] }).base64EncodedString()
            }
            model.details.login = "kean"
            model.details.password = "wrong"
            await model.install()
            let profile = try #require(model.profile)
            // Secrets do not stay in the form.
            #expect(model.alert == nil && model.details.password.isEmpty && model.details.presharedKey.isEmpty)

            let changes = Changes()
            func reaches(_ condition: @MainActor (TunnelStatusUpdate) -> Bool) async -> Bool {
                await changes.wait {
                    condition(
                        withObservationTracking {
                            model.status
                        } onChange: {
                            changes.notify()
                        })
                }
            }
            await model.toggle()
            #expect(await reaches { $0.status == .disconnected && $0.error != nil } || model.alert != nil)
            #expect(model.alert?.title == "That did not work")
            model.alert = nil

            model.details.password = "123456"
            await model.save()
            #expect(model.alert == nil)
            await model.toggle()
            #expect(await reaches { $0.status == .connected })
            #expect(model.statusText == "Connected")
            let channel = try #require(store.channel(for: profile) as? NetworkExtensionChannel)
            let provider = try #require(channel.configuration.session?.standIn.runningProvider)
            let flow = provider.packetFlow.standIn
            flow.setChangeHandler { changes.notify() }
            let (request, reply) = WireGuardScene.ping(1)
            flow.route([Data(request)])
            #expect(await changes.wait { flow.takeWritten().contains { Array($0) == reply } })
            #expect(await model.statistics()?.state == .connected)

            await model.toggle()
            #expect(await reaches { $0.status == .disconnected })
            model.isConfirmingRemoval = true
            await model.remove()
            #expect(model.profile == nil && !model.isConfirmingRemoval && model.alert == nil && !model.isBusy)
            #expect(StandInPreferences.count(of: options.providerBundleIdentifier) == 0)
            await server.stop()
        }
    }
}
