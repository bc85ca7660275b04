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
import WireGuardDevice
import WireGuardTunnel

@testable import PacketTunnel
@testable import PacketTunnelApple
@testable import TunnelIO

extension OneNetworkTests {
    /// The example, from what its app does to a WireGuard server on this machine's loopback interface.
    @Suite("The example for Apple's platforms", .timeLimit(.minutes(5)))
    struct ExampleTests {
        private static func key(_ key: PrivateKey) -> String {
            key.secret.withSpan { span in Data(span.indices.map { span[$0] }) }.base64EncodedString()
        }

        /// A server with a network behind it that answers ping.
        private static func makeServer(_ key: PrivateKey, client: PublicKey) throws -> WireGuardDevice {
            let tun = try MemoryFlowDevice(name: "server")
            tun.connect(to: VirtualNetwork())
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
            "Its property lists can be read, and say what the system needs to find the extension",
            arguments: [
                "App/Info.plist", "App/AppleTunnel.entitlements", "Extension/Info.plist", "Extension/LoginInfo.plist",
                "Extension/AppleTunnelExtension.entitlements",
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
            } else {
                #expect(list["CulvertKeychainGroup"] is String)
            }
            if path.hasPrefix("Extension"), path.hasSuffix("Info.plist") {
                let entry = try #require(list["NSExtension"] as? [String: String])
                #expect(entry["NSExtensionPointIdentifier"] == "com.apple.networkextension.packet-tunnel")
                #expect(
                    entry["NSExtensionPrincipalClass"]
                        == "$(PRODUCT_MODULE_NAME).\(path.hasSuffix("LoginInfo.plist") ? "\(LoginTunnel.self)" : "\(Tunnel.self)")"
                )
            }
        }

        @Test("A file is imported, its tunnel started in the extension, packets go through, statistics come back")
        @MainActor func wholeWay() async throws {
            var random = SeededGenerator(seed: 21)
            let (clientKey, serverKey) = (PrivateKey(using: &random), PrivateKey(using: &random))
            let server = try Self.makeServer(serverKey, client: clientKey.publicKey)
            defer { server.close() }
            let port = try #require(server.listenPort)

            let options = NetworkExtensionManagerOptions(providerBundleIdentifier: "com.example.\(UUID().uuidString)")
            StandInExtensions.install(options.providerBundleIdentifier) { Tunnel() }
            let store = NetworkExtensionProfileStore(options)
            let model = TunnelModel(
                TunnelManager(store: store, secrets: KeychainSecretStore()) { store.channel(for: $0) })
            await model.load()
            #expect(model.profiles.isEmpty && model.problem == nil)
            await model.add(wgQuick: "[Interface]\nPrivateKey = nonsense", name: "Wrong")
            #expect(model.problem != nil)

            await model.add(
                wgQuick: """
                    [Interface]
                    PrivateKey = \(Self.key(clientKey))
                    Address = 10.0.0.2/32
                    [Peer]
                    PublicKey = \(serverKey.publicKey.base64)
                    Endpoint = 127.0.0.1:\(port)
                    AllowedIPs = 0.0.0.0/0
                    """, name: "Home")
            #expect(model.problem == nil)
            let profile = try #require(model.profiles.first)
            await model.toggle(profile)
            #expect(model.problem == nil)
            let changes = Changes()
            func reaches(_ status: TunnelStatus) async -> Bool {
                await changes.wait {
                    // It tells right before, on this actor.
                    let now = withObservationTracking {
                        model.statuses[profile.id]?.status
                    } onChange: {
                        changes.tell()
                    }
                    return now == status
                }
            }
            #expect(await reaches(.connected))

            let channel = try #require(store.channel(for: profile) as? NetworkExtensionChannel)
            let provider = try #require(channel.configuration.session?.standIn.runningProvider)
            let flow = provider.packetFlow.standIn
            flow.setChangeHandler { changes.tell() }
            let (request, reply) = WireGuardScene.ping(1)
            flow.route([Data(request)])
            #expect(await changes.wait { flow.takeWritten().contains { Array($0) == reply } })
            let statistics = try #require(await model.statistics(of: profile))
            #expect(statistics.receivedBytes > 0)

            await model.toggle(profile)
            #expect(await reaches(.disconnected))
            #expect(await model.statistics(of: profile) == nil)
            await model.remove(profile)
            #expect(model.profiles.isEmpty && model.problem == nil)
            #expect(StandInPreferences.count(of: options.providerBundleIdentifier) == 0)
        }
    }
}
