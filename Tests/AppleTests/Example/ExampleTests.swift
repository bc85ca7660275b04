// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import AppleTunnelExtension
import Foundation
import NetworkAddresses
import NetworkExtension
import Observation
import PacketTunnelTesting
import ProvisioningApple
import Testing
import WireGuardCore
import WireGuardDevice
import WireGuardTunnel

@testable import AppleTunnelModel
@testable import PacketTunnel
@testable import PacketTunnelApple
@testable import TunnelIO

extension OneNetworkTests {
    /// The example, from the actions of its app to a WireGuard server on this machine's loopback interface.
    @Suite("The example for Apple's platforms", .timeLimit(.minutes(5)))
    struct ExampleTests {
        private static func key(_ key: PrivateKey) -> String {
            key.secret.withSpan { span in Data(span.indices.map { span[$0] }) }.base64EncodedString()
        }

        /// A server with a network behind it that answers ping.
        private static func makeServer(_ key: PrivateKey, client: PublicKey) throws -> WireGuardDevice {
            let tun = try VirtualNetwork().makeTun(name: "server")
            let device = try WireGuardDevice(tun: tun, network: SystemDatagramNetwork())
            var update = UAPIDeviceUpdate()
            update.privateKey = .set(key)
            var peer = UAPIPeerUpdate(publicKey: client)
            peer.allowedIPs.append(.add(try IPPrefix("10.0.0.2/32")))
            update.peers = [peer]
            try device.apply(update)
            try device.start()
            return device
        }

        @Test(
            "Its property lists are readable, and contain what the system needs to find the extension",
            arguments: [
                "App/Info.plist", "App/AppleTunnel.entitlements", "Extension/Info.plist", "Extension/LoginInfo.plist",
                "Extension/AddKeyInfo.plist", "Extension/AppleTunnelExtension.entitlements",
            ])
        func propertyLists(_ path: String) throws {
            let file = Samples.root.appendingPathComponent("Examples/AppleTunnel").appendingPathComponent(path)
            let list = try #require(
                try unsafe PropertyListSerialization.propertyList(from: Data(contentsOf: file), format: nil)
                    as? [String: Any])
            if path.hasSuffix("entitlements") {
                let kinds = list["com.apple.developer.networking.networkextension"] as? [String]
                #expect(kinds == ["packet-tunnel-provider"])
                #expect((list["keychain-access-groups"] as? [String])?.count == 1)
                #expect(list["com.apple.security.application-groups"] as? [String] == ["$(APP_GROUP)"])
            } else {
                #expect(list["CulvertKeychainGroup"] is String)
                #expect(list["CulvertAppGroup"] as? String == "$(APP_GROUP)")
            }
            if path.hasPrefix("Extension"), path.hasSuffix("Info.plist") {
                let entry = try #require(list["NSExtension"] as? [String: String])
                #expect(entry["NSExtensionPointIdentifier"] == "com.apple.networkextension.packet-tunnel")
                let name =
                    switch path {
                    case "Extension/LoginInfo.plist": "$(PRODUCT_MODULE_NAME).\(LoginTunnel.self)"
                    // The library's class, with the name of its module.
                    case "Extension/AddKeyInfo.plist": String(reflecting: AddKeyTunnelHost.self)
                    default: "$(PRODUCT_MODULE_NAME).\(Tunnel.self)"
                    }
                #expect(entry["NSExtensionPrincipalClass"] == name)
                // Connections to addresses are for the tunnel whose servers have addresses, and for no other.
                let isByAddress =
                    (list["NSAppTransportSecurity"] as? [String: Bool]) == ["NSAllowsLocalNetworking": true]
                #expect(isByAddress == path.hasSuffix("AddKeyInfo.plist"))
            }
        }

        /// A model over a separate extension, and a server for its tunnel.
        @MainActor private struct Scene {
            let model: TunnelModel
            let manager: TunnelManager
            let store: NetworkExtensionProfileStore
            let server: WireGuardDevice
            let file: String
            let options: NetworkExtensionManagerOptions
            let changes = Changes()

            init() throws {
                var random = SeededGenerator(seed: 21)
                let (clientKey, serverKey) = (PrivateKey(using: &random), PrivateKey(using: &random))
                server = try ExampleTests.makeServer(serverKey, client: clientKey.publicKey)
                file = """
                    [Interface]
                    PrivateKey = \(ExampleTests.key(clientKey))
                    Address = 10.0.0.2/32
                    [Peer]
                    PublicKey = \(serverKey.publicKey.base64)
                    Endpoint = 127.0.0.1:\(try #require(server.listenPort))
                    AllowedIPs = 0.0.0.0/0
                    """
                options = NetworkExtensionManagerOptions(providerBundleIdentifier: "com.example.\(UUID().uuidString)")
                StandInExtensions.install(options.providerBundleIdentifier) { Tunnel() }
                let store = NetworkExtensionProfileStore(options)
                self.store = store
                manager = TunnelManager(store: store, secrets: KeychainSecretStore()) { store.channel(for: $0) }
                model = TunnelModel(manager, interval: .milliseconds(50))
            }

            /// A profile that is installed.
            func install(_ name: String = "Home") async throws -> TunnelProfile {
                await model.load()
                #expect(await model.add(wgQuick: file, name: name))
                return try #require(model.profiles.first)
            }

            func reaches(_ condition: @MainActor () -> Bool) async -> Bool {
                await changes.wait {
                    // It tells right before, on this actor.
                    withObservationTracking {
                        condition()
                    } onChange: {
                        changes.notify()
                    }
                }
            }

            func reaches(_ status: TunnelStatus, _ profile: TunnelProfile) async -> Bool {
                await reaches { model.statuses[profile.id]?.status == status }
            }
        }

        @Test("A file is imported, its tunnel started in the extension, packets go through, statistics come back")
        @MainActor func wholeWay() async throws {
            let scene = try Scene()
            defer { scene.server.close() }
            let model = scene.model
            #expect(model.screen == .loading)
            await model.load()
            #expect(model.screen == .welcome && model.alert == nil)
            #expect(await !model.add(wgQuick: "[Interface]\nPrivateKey = nonsense", name: "Wrong"))
            #expect(model.alert?.title == "The tunnel was not added" && model.screen == .welcome)
            model.isAlerting = false
            #expect(model.alert == nil)

            let profile = try await scene.install()
            #expect(model.screen == .profiles && model.alert == nil && !model.isInstalling)
            let spins = Event()
            withObservationTracking {
                _ = model.busy
            } onChange: {
                spins.signal()
            }
            await model.toggle(profile)
            // It was busy, and no longer is.
            #expect(await spins.wait(timeout: .seconds(60)))
            #expect(model.alert == nil && model.busy.isEmpty)
            #expect(await scene.reaches(.connected, profile))

            let watching = Task { await model.watch(profile) }
            let channel = try #require(scene.store.channel(for: profile) as? NetworkExtensionChannel)
            let provider = try #require(channel.configuration.session?.standIn.runningProvider)
            let flow = provider.packetFlow.standIn
            let changes = scene.changes
            flow.setChangeHandler { changes.notify() }
            let (request, reply) = WireGuardScene.ping(1)
            flow.route([Data(request)])
            #expect(await changes.wait { flow.takeWritten().contains { Array($0) == reply } })
            let statistics = try #require(await model.statistics(of: profile))
            #expect(statistics.receivedBytes > 0)
            // And live.
            #expect(
                await scene.reaches {
                    guard let traffic = model.traffic[profile.id] else { return false }
                    return traffic.received >= statistics.receivedBytes && traffic.sent > 0
                        && traffic.handshakeAge != nil && traffic.state == "connected"
                })

            await model.toggle(profile)
            #expect(await scene.reaches(.disconnected, profile))
            #expect(await scene.reaches { model.traffic[profile.id] == nil })
            #expect(await model.statistics(of: profile) == nil)
            watching.cancel()
            await watching.value

            // Nothing is removed before the user has confirmed it.
            model.removal = profile
            model.isConfirmingRemoval = false
            await model.remove()
            #expect(model.profiles == [profile])
            model.removal = profile
            await model.remove()
            #expect(model.screen == .welcome && model.alert == nil && !model.isConfirmingRemoval)
            #expect(StandInPreferences.count(of: scene.options.providerBundleIdentifier) == 0)
        }

        @Test(
            "A profile is edited, with ping settings; a running tunnel applies it; mistakes are reported and not saved"
        )
        @MainActor func editing() async throws {
            let scene = try Scene()
            defer { scene.server.close() }
            let model = scene.model
            let profile = try await scene.install()
            await model.toggle(profile)
            #expect(await scene.reaches(.connected, profile))

            var form = try #require(model.form(of: profile))
            #expect(form.name == "Home" && form.allowedIPs == "0.0.0.0/0" && form.privateKey.isEmpty)
            #expect(form.ping == PingSettings())
            form.name = "Work"
            form.nameServers = "10.0.0.1, fd00::1"
            form.mtu = "1380"
            form.keepalive = "25"
            form.isOnDemand = true
            form.ping.address = "10.0.0.1"
            form.ping.interval = "5"
            form.ping.attempts = "4"
            form.ping.pingInterval = "0.5"
            form.ping.stopsWhenDead = true
            #expect(await model.save(form, of: profile))
            #expect(model.alert == nil && model.busy.isEmpty)
            let saved = try #require(model.profiles.first)
            #expect(saved.name == "Work" && saved.isOnDemandEnabled && saved.onDemand == .always)
            let configuration: WireGuardTunnelConfiguration = try saved.configuration.decode()
            #expect(
                configuration.connectivity
                    == ConnectivityOptions(
                        connectivityInterval: 5, maxConnectionAttempts: 4, pingAddress: "10.0.0.1", pingInterval: 0.5,
                        endWhenDead: .atOnce))
            #expect(configuration.mtu == 1380 && configuration.peers.first?.persistentKeepalive == 25)
            #expect(configuration.dns?.servers.count == 2)
            form.wasOnDemand = true
            #expect(model.form(of: saved) == form)
            // The tunnel was not taken down for it.
            let channel = try #require(scene.store.channel(for: saved) as? NetworkExtensionChannel)
            let provider = try #require(channel.configuration.session?.standIn.runningProvider)
            #expect(await scene.changes.wait { provider.standIn.settings?.mtu?.intValue == 1380 })
            #expect(await scene.reaches(.connected, saved))

            for (wrong, word) in [
                ({ $0.endpoint = "no port" }, "endpoint"), ({ $0.allowedIPs = "everything" }, "everything"),
                ({ $0.ping.interval = "often" }, "often"), ({ $0.ping.pingInterval = "0" }, "pingInterval"),
                ({ $0.mtu = "a lot" }, "a lot"), ({ $0.name = " " }, "name"),
                ({ $0.privateKey = "abc" }, "private key"),
            ] as [((inout ProfileForm) -> Void, String)] {
                var form = form
                wrong(&form)
                #expect(await !model.save(form, of: saved))
                #expect(model.alert?.title == "Work was not saved")
                #expect(model.alert?.message.contains(word) == true, "\(word): \(model.alert?.message ?? "")")
                model.alert = nil
            }
            #expect(model.profiles == [saved])
            // A new key, which the server does not know, is for the next start.
            var random = SeededGenerator(seed: 22)
            form.privateKey = Self.key(PrivateKey(using: &random))
            form.isOnDemand = false
            #expect(await model.save(form, of: saved))
            #expect(model.alert == nil)
            await model.toggle(saved)
            #expect(await scene.reaches(.disconnected, saved))
            model.removal = saved
            await model.remove()
        }

        @Test("An alert reports a tunnel that ends by itself, and a start that fails")
        @MainActor func alerts() async throws {
            let scene = try Scene()
            defer { scene.server.close() }
            let model = scene.model
            let profile = try await scene.install()
            await model.toggle(profile)
            #expect(await scene.reaches(.connected, profile))
            let channel = try #require(scene.store.channel(for: profile) as? NetworkExtensionChannel)
            let provider = try #require(channel.configuration.session?.standIn.runningProvider)
            provider.cancelTunnelWithError(
                TunnelError(.connectivityLost, "nothing comes through", fix: "check the server").nsError)
            #expect(await scene.reaches { model.alert != nil })
            #expect(model.alert?.title == "Home has ended")
            #expect(model.alert?.message == "nothing comes through; check the server")
            model.isAlerting = false

            // Another program has removed its saved data.
            model.removal = profile
            await model.remove()
            await model.toggle(profile)
            #expect(model.alert?.title == "Home did not start" && model.busy.isEmpty)
        }
    }
}
