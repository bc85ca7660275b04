// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import AppleTunnelExtension
import AppleTunnelModel
import CredentialTunnel
import Foundation
import NetworkAddresses
import NetworkExtension
import Observation
import PacketTunnelTesting
import Testing
import TunnelIO
import WireGuardCore

@testable import PacketTunnel
@testable import PacketTunnelApple

extension OneNetworkTests {
    /// The example's tunnel with a login, from the actions of its app to a server on this machine's loopback interface.
    @Suite("The example's tunnel with a login", .timeLimit(.minutes(5)))
    @MainActor struct LoginExampleTests {
        private let server: MemoryLoginServer
        private let store: NetworkExtensionProfileStore
        private let model: LoginModel
        private let bundle = "com.example.\(UUID().uuidString)"
        private let changes = Changes()

        init() throws {
            server = try MemoryLoginServer(users: ["kean": "123456"])
            StandInExtensions.install(bundle) { LoginTunnel() }
            let store = NetworkExtensionProfileStore(NetworkExtensionManagerOptions(providerBundleIdentifier: bundle))
            self.store = store
            model = LoginModel(TunnelManager(store: store, secrets: KeychainSecretStore()) { store.channel(for: $0) })
        }

        /// Fills the form, and installs the profile.
        private func install(password: String) async throws {
            let configuration = try server.configuration(login: "kean")
            model.details.server = configuration.server
            model.details.serverKey = configuration.serverKey
            model.details.presharedKey = server.presharedKey.exportedBase64
            model.details.login = "kean"
            model.details.password = password
            await model.install()
        }

        private func reaches(_ condition: @MainActor (LoginModel) -> Bool) async -> Bool {
            await changes.wait {
                withObservationTracking {
                    condition(model)
                } onChange: { [changes] in
                    changes.notify()
                }
            }
        }

        private func channel() throws -> NetworkExtensionChannel {
            let profile = try #require(model.profile)
            return try #require(store.channel(for: profile) as? NetworkExtensionChannel)
        }

        /// Whether a ping through the tunnel is answered.
        private func passes() async throws -> Bool {
            let session = try #require(try channel().configuration.session)
            let provider = try #require(session.standIn.runningProvider)
            let flow = provider.packetFlow.standIn
            flow.setChangeHandler { [changes] in changes.notify() }
            let request = PacketBuilder.icmpEcho(
                from: .v4(10, 77, 0, 2), to: MemoryLoginServer.address, identifier: 1, sequence: 1, payload: [1])
            let reply = ICMPResponder().reply(to: request)
            flow.route([Data(request)])
            return await changes.wait { flow.takeWritten().contains { Array($0) == reply } }
        }

        @Test(
            "A profile is installed, refused, corrected, started in the extension, and removed once that is confirmed")
        func wholeWay() async throws {
            await model.load()
            #expect(model.profile == nil && model.alert == nil && model.isLoaded && !LoginModel.welcome.isEmpty)
            model.details.server = "no port"
            await model.install()
            #expect(model.profile == nil && model.isAlerting && model.alert?.message.contains("server") == true)
            model.isAlerting = false

            try await install(password: "wrong")
            #expect(model.profile != nil)
            // Secrets do not stay in the form.
            #expect(model.alert == nil && model.details.password.isEmpty && model.details.presharedKey.isEmpty)
            await model.toggle()
            #expect(await reaches { $0.status.status == .disconnected && $0.status.error != nil } || model.alert != nil)
            #expect(model.alert?.title == "That did not work")
            model.alert = nil

            model.details.password = "123456"
            await model.save()
            #expect(model.alert == nil)
            await model.toggle()
            #expect(await reaches { $0.status.status == .connected })
            #expect(model.statusText == "Connected")
            #expect(try await passes())
            #expect(await model.statistics()?.state == .connected)

            await model.toggle()
            #expect(await reaches { $0.status.status == .disconnected })
            #expect(model.alert == nil, "the user stopped it")
            model.isConfirmingRemoval = true
            await model.remove()
            #expect(model.profile == nil && !model.isConfirmingRemoval && model.alert == nil && !model.isBusy)
            #expect(StandInPreferences.count(of: bundle) == 0)
            await server.stop()
        }

        @Test("The system's preferences have the user's name, and the new one after a change")
        func userName() async throws {
            await model.load()
            try await install(password: "123456")
            let manager = try channel().configuration.manager
            #expect(manager.protocolConfiguration?.username == "kean")
            model.details.login = "ada"
            await model.save()
            #expect(model.alert == nil && manager.protocolConfiguration?.username == "ada")
            await model.remove()
            await server.stop()
        }

        @Test("Saved changes take effect on a running tunnel, which reconnects, and a save without changes does not")
        func savedWhileRunning() async throws {
            await model.load()
            try await install(password: "123456")
            await model.toggle()
            #expect(await reaches { $0.status.status == .connected })
            await model.save()
            #expect(server.acceptedLogins == 1)
            server.setPassword("654321", of: "ada")
            model.details.login = "ada"
            model.details.password = "654321"
            await model.save()
            #expect(model.alert == nil)
            #expect(await reaches { $0.status.status == .connected })
            #expect(server.sessions.map(\.login) == ["ada"] && server.acceptedLogins == 2)
            await model.remove()
            await server.stop()
        }

        @Test("A tunnel that the server ends raises an alert, and starts when the new password is saved")
        func changedPassword() async throws {
            await model.load()
            try await install(password: "123456")
            await model.toggle()
            #expect(await reaches { $0.status.status == .connected })
            server.setPassword("654321", of: "kean")
            #expect(await reaches { $0.alert != nil })
            #expect(model.alert?.title == "The tunnel has ended")
            #expect(model.alert?.message.contains("password was changed") == true)
            model.isAlerting = false
            #expect(await reaches { $0.status.status == .disconnected })

            model.details.password = "654321"
            await model.save()
            #expect(model.alert == nil)
            #expect(await reaches { $0.status.status == .connected })
            #expect(server.acceptedLogins == 2)
            await model.remove()
            await server.stop()
        }

        @Test("After a tap of the switch, a new password does not start a tunnel that the server ended")
        func tappedBeforePassword() async throws {
            await model.load()
            try await install(password: "123456")
            await model.toggle()
            #expect(await reaches { $0.status.status == .connected })
            server.setPassword("654321", of: "kean")
            #expect(await reaches { $0.alert?.title == "The tunnel has ended" })
            #expect(await reaches { $0.status.status == .disconnected })
            model.isAlerting = false
            // It starts with the old password, which the server refuses.
            await model.toggle()
            #expect(model.alert?.title == "That did not work")
            model.isAlerting = false
            #expect(await reaches { $0.status.status == .disconnected })

            model.details.password = "654321"
            await model.save()
            #expect(model.alert == nil && model.status.status == .disconnected)
            #expect(server.acceptedLogins == 1)
            await model.toggle()
            #expect(await reaches { $0.status.status == .connected })
            #expect(server.acceptedLogins == 2)
            await model.remove()
            await server.stop()
        }

        @Test("A disabled tunnel is stopped and cannot be started until it is enabled")
        func enabling() async throws {
            await model.load()
            try await install(password: "123456")
            #expect(model.isEnabled)
            await model.toggle()
            #expect(await reaches { $0.status.status == .connected })
            await model.setEnabled(false)
            #expect(!model.isEnabled && model.alert == nil)
            #expect(await reaches { $0.status.status == .disconnected })
            #expect(try channel().configuration.manager.isEnabled == false)
            await model.toggle()
            #expect(model.alert?.message.contains("is disabled") == true)
            model.alert = nil
            await model.setEnabled(true)
            await model.toggle()
            #expect(await reaches { $0.status.status == .connected })
            #expect(model.isEnabled && model.alert == nil)
            await model.remove()
            await server.stop()
        }
    }
}
