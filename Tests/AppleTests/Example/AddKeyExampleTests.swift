// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import AppleTunnelModel
import Foundation
import FoundationNetworking
import Logging
import NetworkAddresses
import NetworkExtension
import Observation
import PacketTunnelTesting
import PinnedProvisioning
import Provisioning
import ProvisioningApple
import Security
import Testing
import TrustPinning
import TrustPinningTesting
import WireGuardCore
import WireGuardDevice

@testable import PacketTunnel
@testable import PacketTunnelApple
@testable import TunnelIO

/// The library's extension class, with the property list of a test's bundle, whose requests go to a ``StandInServer``.
private final class AddKeyExtension: AddKeyTunnelHost, @unchecked Sendable {
    private let bundle: Bundle

    init(_ bundle: Bundle) {
        self.bundle = bundle
        super.init()
    }

    override var options: NetworkExtensionOptions { .infoPlist(of: bundle) }

    override func makeTransport() -> any ProvisioningTransport {
        PinnedProvisioningTransport(logger: bridge.options.logger, now: { TestDate.today.date }) {
            (request, trust, now) async throws(PinnedSessionError) in
            try await request.reply(trust: trust, now: now, base: TrustScene.loading)
        }
    }
}

/// A server of PIA's kind on this machine: `addKey` over TLS, with a certificate that has only a common name, and WireGuard with
/// a network behind it.
private final class PIAServer: Sendable {
    static let token = "to+ken/for-the-account=="

    let authority: TestAuthority
    let api: StandInServer
    private let device: WireGuardDevice

    init() throws {
        var random = SeededGenerator(seed: 25)
        let key = PrivateKey(using: &random)
        authority = try TestAuthority("Private Internet Access")
        let leaf = try authority.issue(
            CertificateTemplate(subject: "server401", dnsNames: []), key: TestKey(.p256, "server401"))
        let tun = try VirtualNetwork().makeTun(name: "server")
        let device = try WireGuardDevice(tun: tun, network: SystemDatagramNetwork())
        var update = UAPIDeviceUpdate()
        update.privateKey = .set(key)
        try device.apply(update)
        try device.start()
        self.device = device
        let port = try #require(device.listenPort)
        let serverKey = key.publicKey.base64
        // The configuration has no port, so the server has that of PIA's.
        api = StandInServer(
            chain: [leaf.der, authority.intermediate.der], port: Int(AddKeyConfiguration.defaultPort)
        ) { request in
            Self.answer(request, device, serverKey: serverKey, port: port)
        }
    }

    private static func answer(
        _ request: URLRequest, _ device: WireGuardDevice, serverKey: String, port: UInt16
    ) -> StandInServer.Reply {
        let parts = request.url.flatMap { URLComponents(url: $0, resolvingAgainstBaseURL: false) }
        guard let parts, parts.path == "/addKey", let items = parts.queryItems, items.map(\.name) == ["pubkey", "pt"],
            let text = items[0].value, let client = PublicKey(base64: text)
        else { return .answer(404) }
        guard items[1].value == token else {
            return .answer(401, body: Array(#"{"status":"ERROR","message":"Login failed!"}"#.utf8))
        }
        var update = UAPIDeviceUpdate()
        var peer = UAPIPeerUpdate(publicKey: client)
        peer.allowedIPs = [.add(IPPrefix(host: WireGuardScene.inner))]
        update.peers = [peer]
        do { try device.apply(update) } catch { return .answer(500) }
        let body = """
            {"status":"OK","server_key":"\(serverKey)","server_port":\(port),"server_ip":"127.0.0.1",\
            "server_vip":"10.0.0.1","peer_ip":"\(WireGuardScene.inner)/32","peer_pubkey":"\(text)",\
            "dns_servers":["10.0.0.243"]}
            """
        return .answer(200, fields: ["Content-Type": "application/json"], body: Array(body.utf8))
    }

    func close() { device.close() }
}

extension OneNetworkTests {
    /// The example's tunnel with addKey, from the actions of its app to a server on this machine.
    @Suite("The example's tunnel with addKey", .timeLimit(.minutes(5)))
    struct AddKeyExampleTests {
        /// A bundle of an extension, with the example's property list after Xcode has replaced its variables.
        private static func makeBundle(in folder: String, identifier: String, group: String) throws -> Bundle {
            let source = Samples.root.appendingPathComponent("Examples/AppleTunnel/Extension/AddKeyInfo.plist")
            var text = try String(contentsOf: source, encoding: .utf8)
            for (name, value) in [
                ("$(APP_GROUP)", group), ("$(AppIdentifierPrefix)$(KEYCHAIN_GROUP)", "TEAM.\(identifier)"),
                ("$(PRODUCT_BUNDLE_IDENTIFIER)", identifier),
            ] { text = text.replacing(name, with: value) }
            let contents = URL(fileURLWithPath: folder).appendingPathComponent("AddKey.appex/Contents")
            try FileManager.default.createDirectory(at: contents, withIntermediateDirectories: true)
            try Data(text.utf8).write(to: contents.appendingPathComponent("Info.plist"))
            return try #require(Bundle(url: contents.deletingLastPathComponent()))
        }

        @Test(
            "A profile is installed from PIA's configuration, registers its key, carries pings, and the log omits the token"
        )
        @MainActor func wholeWay() async throws {
            let folder = try Folder()
            let server = try PIAServer()
            defer { server.close() }
            let (identifier, group) = ("com.example.\(UUID().uuidString).addkey", "group.\(UUID().uuidString)")
            StandInContainers.set(URL(fileURLWithPath: folder.path), for: group)
            defer { StandInContainers.set(nil, for: group) }
            let bundle = try Self.makeBundle(
                in: folder.path, identifier: identifier, group: group)
            StandInExtensions.install(identifier) { AddKeyExtension(bundle) }
            let log = SharedLog(appGroup: group, subsystem: "test")
            var options = NetworkExtensionManagerOptions(
                providerBundleIdentifier: identifier, accessGroup: "TEAM.\(identifier)")
            options.logger = log.logger("app", origin: .app)
            let secrets = KeychainSecretStore(accessGroup: options.accessGroup)
            let store = NetworkExtensionProfileStore(options, secrets: secrets)
            let model = AddKeyModel(
                TunnelManager(store: store, secrets: secrets, logger: options.logger) { store.channel(for: $0) })
            await model.load()
            #expect(model.isLoaded && model.profile == nil && model.alert == nil)

            // As an app with PIA's library stores it: untyped, with the token.
            model.details.serverAddress = "server401"
            model.details.commonName = "server401"
            model.details.authority = server.authority.root.pem
            model.details.token = "another token"
            model.details.pingAddress = "203.0.113.1"
            await model.install()
            #expect(model.profile == nil && model.alert?.message.contains("serverAddress") == true)
            model.isAlerting = false
            model.details.serverAddress = "127.0.0.1"
            model.details.token = "another token"
            await model.install()
            #expect(model.alert == nil && model.details.token.isEmpty)
            let refused = try #require(model.profile)
            await model.toggle()
            #expect(model.alert?.message.contains("Login failed!") == true)
            #expect(model.alert?.message.contains("another token") == false)
            model.isAlerting = false
            await model.remove()
            #expect(model.profile == nil && model.alert == nil)
            #expect(try await secrets.names(of: refused.id).isEmpty)

            await model.install(
                [
                    "token": PIAServer.token, "use_ip": true, "cn": "server401", "customDNSServers": [String](),
                    "ping": "203.0.113.1", "packetSize": 1280,
                ] as [String: Any], serverAddress: "127.0.0.1", authority: server.authority.root.pem)
            let profile = try #require(model.profile)
            #expect(model.alert == nil)
            // The token is in the keychain only.
            let stored = String(decoding: try JSONEncoder().encode(profile), as: UTF8.self)
            #expect(!stored.contains(PIAServer.token) && !stored.contains("to+ken"))
            #expect(try await secrets.names(of: profile.id) == ["token"])

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
            #expect(model.alert == nil)
            #expect(await reaches { $0.status == .connected })
            let channel = try #require(store.channel(for: profile) as? NetworkExtensionChannel)
            let provider = try #require(channel.configuration.session?.standIn.runningProvider)
            #expect(provider.standIn.settings?.mtu?.intValue == 1280)
            let flow = provider.packetFlow.standIn
            flow.setChangeHandler { changes.notify() }
            let (request, reply) = WireGuardScene.ping(1)
            flow.route([Data(request)])
            #expect(await changes.wait { flow.takeWritten().contains { Array($0) == reply } })
            let registration = try #require(await model.registration())
            #expect(registration.server == "server401" && registration.innerAddress == .v4(10, 0, 0, 1))
            #expect(registration.address == InterfaceAddress(host: WireGuardScene.inner))

            // The server was verified by its common name, and got the token once for each start.
            let asked = server.api.figures.requests
            #expect(asked.count == 2 && server.api.figures.handshakes == 2)
            #expect(asked.last?.value(forHTTPHeaderField: "Host") == "server401:1337")
            #expect(asked.last?.url?.query?.hasSuffix("&pt=to%2Bken%2Ffor-the-account%3D%3D") == true)

            // The log page shows the registration, without the token in any form.
            let page = LogModel(log, managers: [])
            let following = Task { await page.follow() }
            func shows(_ text: String) async -> Bool {
                await changes.wait {
                    withObservationTracking {
                        page.lines.contains { $0.origin == .extension && $0.message.contains(text) }
                    } onChange: {
                        changes.notify()
                    }
                }
            }
            #expect(await shows("registered a new key at server401: 10.0.0.2/32"))
            #expect(await shows("the certificate of server401 has only a common name"))
            following.cancel()
            await following.value
            for text in ["another token", "another%20token", "to+ken", "to%2Bken"] {
                #expect(!page.text.contains(text))
            }

            await model.toggle()
            #expect(await reaches { $0.status == .disconnected })
            #expect(await model.registration() == nil)
            model.isConfirmingRemoval = true
            await model.remove()
            #expect(model.profile == nil && !model.isConfirmingRemoval && model.alert == nil && !model.isBusy)
            #expect(StandInPreferences.count(of: identifier) == 0)
        }

        @Test("A server with another name or authority gets no token", arguments: ["server999", "server401"])
        func others(_ name: String) async throws {
            let folder = try Folder()
            let server = try PIAServer()
            defer { server.close() }
            let authority = name == "server401" ? try TestAuthority("Another") : server.authority
            let bundle = try Self.makeBundle(
                in: folder.path, identifier: "com.example.\(UUID().uuidString).addkey", group: "group.none")
            let place = ProvisioningServer(
                name: name, address: .v4(127, 0, 0, 1), port: AddKeyConfiguration.defaultPort,
                trust: .authorities(authority.root.pem, acceptsCommonName: true))
            let request = ProvisioningRequest(server: place, target: "/addKey?pubkey=a&pt=\(PIAServer.token)")
            let error = await #expect(throws: ProvisioningTransportError.self) {
                try await AddKeyExtension(bundle).makeTransport().send(request)
            }
            guard case .untrusted = error else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect(server.api.figures.handshakes == 1 && server.api.figures.requests.isEmpty)
        }

        @Test(
            "The guide's reader turns PIA's configuration into a profile without the token, and leaves other configurations unchanged"
        )
        func adoption() throws {
            var former = ExistingConfiguration()
            (former.name, former.serverAddress, former.isOnDemandEnabled) = ("PIA", "198.51.100.1", true)
            former.providerConfiguration = [
                "token": PIAServer.token, "use_ip": true, "cn": "server401", "customDNSServers": ["9.9.9.9"],
                "ping": "10.0.0.1", "packetSize": 1420,
            ]
            guard case .adopt(let profile, let secrets) = try readPIAConfiguration(former) else {
                Issue.record("the configuration is not adopted")
                return
            }
            #expect(secrets.mapValues(\.bytes) == ["token": Array(PIAServer.token.utf8)])
            #expect(profile.name == "PIA" && profile.serverAddress == "198.51.100.1" && profile.isOnDemandEnabled)
            let configuration: AddKeyConfiguration = try profile.configuration.decode()
            #expect(configuration.servers.map(\.name) == ["server401"] && configuration.packetSize == 1420)
            #expect(!String(decoding: try JSONEncoder().encode(profile), as: UTF8.self).contains("to+ken"))
            former.providerConfiguration["token"] = nil
            guard case .leave = try readPIAConfiguration(former) else {
                Issue.record("another configuration is changed")
                return
            }
        }

        @Test("The library's class brings its transport, and names no keychain or log without a property list")
        func readyMade() {
            let host = AddKeyTunnelHost()
            #expect(host.makeTransport() is PinnedProvisioningTransport)
            #expect(host.options.secrets is KeychainSecretStore && host.options.log == nil)
        }
    }
}
