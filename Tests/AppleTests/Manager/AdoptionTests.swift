// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import Foundation
import HostConformance
import NetworkAddresses
import NetworkExtension
import PacketTunnelTesting
import Security
import Testing
import TunnelSystem
import WireGuardCore
import WireGuardTunnel

@testable import PacketTunnel
@testable import PacketTunnelApple

@Suite("Configurations that an app saved with another library", .timeLimit(.minutes(5)))
struct AdoptionTests {
    /// The token in a former configuration.
    private static let token = "secret-token"

    /// Reads a configuration in the style of PIA's library: the token is one of its values.
    @Sendable private static func read(_ existing: ExistingConfiguration) throws -> ConfigurationAdoption {
        guard let token = existing.providerConfiguration["token"] as? String else {
            throw TunnelError(.configurationInvalid, "no token")
        }
        var profile = TunnelProfile(
            name: existing.name.isEmpty ? "VPN" : existing.name, provider: "script",
            serverAddress: existing.serverAddress, configuration: .object(["name": .string("new")]))
        profile.onDemand = existing.onDemand
        profile.isOnDemandEnabled = existing.isOnDemandEnabled
        return .adopt(profile, secrets: ["token": SecretBytes(Array(token.utf8))])
    }

    /// A configuration as another library saves it.
    func configuration(
        of bundle: String, values: [String: Any] = ["token": token, "use_ip": true]
    ) -> NETunnelProviderProtocol {
        let configuration = NETunnelProviderProtocol()
        configuration.providerBundleIdentifier = bundle
        configuration.serverAddress = "198.51.100.7"
        configuration.username = "p1234567"
        configuration.providerConfiguration = values
        return configuration
    }

    @discardableResult
    func save(_ configuration: NETunnelProviderProtocol, name: String = "My VPN") async throws
        -> NETunnelProviderManager
    {
        let manager = NETunnelProviderManager()
        manager.protocolConfiguration = configuration
        manager.localizedDescription = name
        manager.isEnabled = true
        let rule = NEOnDemandRuleConnect()
        rule.interfaceTypeMatch = .wiFi
        manager.onDemandRules = [rule]
        manager.isOnDemandEnabled = true
        try await SystemConfiguration(manager).save { _ in }
        return manager
    }

    /// The configurations that the system now has of an extension.
    func saved(_ bundle: String) async throws -> [NETunnelProviderProtocol] {
        try await SystemConfiguration.loadAll().compactMap {
            $0.manager.protocolConfiguration as? NETunnelProviderProtocol
        }.filter { $0.providerBundleIdentifier == bundle }
    }

    @Test("An adopted configuration is the only one, needs no second permission, and has no token left")
    func adopts() async throws {
        let scene = ManagerScene { $0.adoptConfiguration = Self.read }
        try await save(configuration(of: scene.bundle))
        #expect(StandInPreferences.permissionRequests(of: scene.bundle) == 1)
        #expect(try await scene.manager.load() == [])
        let profile = try #require(await scene.manager.profiles.first)
        #expect(await scene.manager.profiles.count == 1)
        #expect(profile.name == "My VPN" && profile.serverAddress == "198.51.100.7")
        #expect(profile.onDemand == OnDemandRules([.init(.connect, on: .wifi)]) && profile.isOnDemandEnabled)

        let after = try await saved(scene.bundle)
        #expect(after.count == 1 && StandInPreferences.count(of: scene.bundle) == 1)
        #expect(StandInPreferences.permissionRequests(of: scene.bundle) == 1)
        #expect(after.first?.providerConfiguration?.keys.sorted() == [NetworkExtensionStart.idKey])
        #expect(after.first?.username == nil)
        #expect(try await scene.secrets.read("token", of: profile.id).bytes == Array(Self.token.utf8))

        // The tunnel starts, and its provider has the token.
        try await scene.manager.start(profile.id)
        #expect(await scene.manager.status(profile.id).status == .connected)
        let context = try #require(scene.script.context)
        #expect(try await context.secret("token").bytes == Array(Self.token.utf8))
        try await scene.manager.stop(profile.id)

        // A later start of the app adopts nothing again.
        #expect(await (try scene.restarted()).profiles.map(\.id) == [profile.id])
        #expect(StandInPreferences.count(of: scene.bundle) == 1)
        try await scene.manager.remove(profile.id)
        #expect(StandInPreferences.count(of: scene.bundle) == 0)
    }

    @Test("Without a reader, a former configuration stays unchanged")
    func noReader() async throws {
        let scene = ManagerScene()
        try await save(configuration(of: scene.bundle))
        #expect(try await scene.manager.load() == [])
        #expect(await scene.manager.profiles.isEmpty)
        #expect(try await saved(scene.bundle).first?.providerConfiguration?["token"] as? String == Self.token)
    }

    @Test("Two loads at the same time adopt a configuration once")
    func concurrentLoads() async throws {
        let scene = ManagerScene { $0.adoptConfiguration = Self.read }
        try await save(configuration(of: scene.bundle))
        async let one = scene.manager.load()
        async let two = scene.manager.load()
        let errors = try await one + two
        #expect(errors == [])
        #expect(try await scene.manager.removeOrphans() == [])
        #expect(await scene.manager.profiles.count == 1)
        #expect(StandInKeychain.items(of: "culvert.profiles.\(scene.bundle)").count == 1)
        #expect(StandInPreferences.count(of: scene.bundle) == 1)
    }

    @Test("A reader that throws leaves the configuration unchanged, and the next load adopts it")
    func readerFails() async throws {
        let isRepaired = Event()
        let scene = ManagerScene { options in
            options.adoptConfiguration = { existing in
                guard isRepaired.hasHappened else { throw CancellationError() }
                return try Self.read(existing)
            }
        }
        try await save(configuration(of: scene.bundle))
        let errors = try await scene.manager.load()
        #expect(errors.map(\.code) == [.configurationInvalid])
        #expect(errors.first?.message.contains("My VPN") == true)
        #expect(await scene.manager.adoptionErrors == errors)
        #expect(try await saved(scene.bundle).first?.providerConfiguration?.keys.sorted() == ["token", "use_ip"])
        isRepaired.signal()
        #expect(try await scene.manager.load() == [])
        #expect(await scene.manager.adoptionErrors.isEmpty)
        #expect(await scene.manager.profiles.count == 1)
    }

    @Test("Keychain items that outlived their app are an error of the load, and do not forbid a new profile")
    func outlivedItems() async throws {
        let scene = ManagerScene { $0.adoptConfiguration = Self.read }
        try await scene.manager.create(scene.profile())
        StandInPreferences.removeAll(of: scene.bundle)
        try await StandInPreferences.listing.withValue(.empty) { () async throws in
            let app = TunnelManager.networkExtension(scene.options)
            #expect(try await app.load().map(\.code) == [.storage])
            #expect(await app.adoptionErrors.isEmpty)
            try await app.create(scene.profile("Work"))
            #expect(await app.profiles.map(\.name) == ["Work"])
        }
    }

    @Test("A keychain that refuses leaves the configuration unchanged and no secret behind")
    func keychainFails() async throws {
        let profile = TunnelProfile(name: "Home", provider: "script")
        let scene = ManagerScene { options in
            options.adoptConfiguration = { _ in .adopt(profile, secrets: ["token": SecretBytes([1])]) }
        }
        let service = "culvert.profiles.\(scene.bundle)"
        try await save(configuration(of: scene.bundle))
        StandInKeychain.failWrites(service, with: errSecInteractionNotAllowed)
        #expect(try await scene.manager.load().map(\.code) == [.storage])
        #expect(await scene.manager.profiles.isEmpty)
        #expect(try await scene.secrets.names(of: profile.id) == [])
        #expect(try await saved(scene.bundle).first?.providerConfiguration?["token"] as? String == Self.token)
        StandInKeychain.failWrites(service, with: nil)
        #expect(try await scene.manager.load() == [])
        #expect(await scene.manager.profiles == [profile])
    }

    @Test("A reader can remove a configuration, leave it, and adopt those of a former extension under free names")
    func decisions() async throws {
        let former = "com.example.\(UUID().uuidString)"
        let scene = ManagerScene { options in
            options.formerProviderBundleIdentifiers = [former]
            options.adoptConfiguration = { existing in
                switch existing.providerConfiguration["kind"] as? String {
                case "dead": .remove
                case "other": .leave
                default: try Self.read(existing)
                }
            }
        }
        try await save(configuration(of: scene.bundle, values: ["kind": "dead"]))
        try await save(configuration(of: scene.bundle, values: ["kind": "other"]))
        try await save(configuration(of: scene.bundle))
        try await save(configuration(of: former))
        #expect(try await scene.manager.load() == [])
        #expect(await scene.manager.profiles.map(\.name) == ["My VPN", "My VPN 2"])
        #expect(StandInPreferences.count(of: former) == 0)
        let kinds = try await saved(scene.bundle).map { $0.providerConfiguration?["kind"] as? String }
        #expect(kinds.count == 3 && kinds.compactMap(\.self) == ["other"])
    }

    @Test("A configuration that the user has switched off stays off, and keeps its kill switch")
    func switchedOff() async throws {
        let scene = ManagerScene { options in
            options.adoptConfiguration = { existing in
                var profile = TunnelProfile(name: existing.name, provider: "script")
                profile.isOnDemandEnabled = existing.isOnDemandEnabled
                profile.leakPolicy = existing.leakPolicy
                return .adopt(profile)
            }
        }
        let configuration = configuration(of: scene.bundle)
        configuration.includeAllNetworks = true
        let manager = try await save(configuration)
        try await SystemConfiguration(manager).save { $0.isEnabled = false }
        #expect(try await scene.manager.load() == [])
        let all = try await SystemConfiguration.loadAll().map(\.manager).filter {
            ($0.protocolConfiguration as? NETunnelProviderProtocol)?.providerBundleIdentifier == scene.bundle
        }
        #expect(all.map(\.isEnabled) == [false])
        #expect(all.first?.protocolConfiguration?.includeAllNetworks == true)
        #expect(await scene.manager.profiles.first?.leakPolicy.leavesDecisionToRoutes == false)
    }

    @Test("A second configuration with the same profile is not adopted, and the first keeps its secrets")
    func sameProfile() async throws {
        let profile = TunnelProfile(name: "Home", provider: "script")
        let scene = ManagerScene { options in
            options.adoptConfiguration = { existing in
                .adopt(profile, secrets: ["token": SecretBytes(Array(existing.name.utf8))])
            }
        }
        try await save(configuration(of: scene.bundle), name: "1")
        try await save(configuration(of: scene.bundle), name: "2")
        let errors = try await scene.manager.load()
        #expect(errors.map(\.code) == [.configurationInvalid] && errors.first?.message.contains(profile.id) == true)
        #expect(await scene.manager.profiles == [profile])
        #expect(try await saved(scene.bundle).count == 2)
        // The system lists them in any order.
        let second = try await SystemConfiguration.loadAll().first {
            $0.bundleIdentifier == scene.bundle && $0.profileID == nil
        }
        let first = second?.manager.localizedDescription == "1" ? "2" : "1"
        #expect(try await scene.secrets.read("token", of: profile.id).bytes == Array(first.utf8))
    }

    @Test("The keychain item of a former configuration can be read, and the new configuration refers to another")
    func password() async throws {
        let texts = Eavesdropper<String>()
        let scene = ManagerScene { options in
            options.adoptConfiguration = { existing in
                texts.observe(String(decoding: try existing.password()?.bytes ?? [], as: UTF8.self))
                return .adopt(TunnelProfile(name: existing.name, provider: "script"))
            }
        }
        let items = KeychainItems(service: "com.example.\(UUID().uuidString)", accessGroup: "TEAM.example")
        let reference = try items.write(Array("[Interface]".utf8), "Home", label: "WireGuard Tunnel: Home")
        let configuration = configuration(of: scene.bundle, values: ["UID": 501])
        configuration.passwordReference = Data(reference)
        try await save(configuration, name: "Home")
        #expect(try await scene.manager.load() == [])
        #expect(texts.messages == ["[Interface]"])
        let after = try #require(try await saved(scene.bundle).first?.passwordReference)
        #expect(Array(after) != reference)
        #expect(ExistingConfiguration().passwordReference == nil)
        #expect(try ExistingConfiguration().password() == nil)
    }

    @Test("The reader of the guide for WireGuardKit adopts a tunnel of WireGuard's app, and its keys become secrets")
    func wireGuardKit() async throws {
        let scene = ManagerScene { $0.adoptConfiguration = WireGuardKitMigration.Tunnels.readFormerTunnel }
        let items = KeychainItems(service: "com.example.\(UUID().uuidString)", accessGroup: "TEAM.example")
        let configuration = configuration(of: scene.bundle, values: [:])
        configuration.passwordReference = Data(
            try items.write(Array(Samples.wgQuickFile.utf8), "Home", label: "WireGuard Tunnel: Home"))
        (configuration.includeAllNetworks, configuration.excludeLocalNetworks) = (true, true)
        try await save(configuration, name: "Home")
        #expect(try await scene.manager.load() == [])
        let profile = try #require(await scene.manager.profiles.first)
        #expect(profile.name == "Home" && profile.isOnDemandEnabled)
        let adopted: WireGuardTunnelConfiguration = try profile.configuration.decode()
        #expect(adopted.peers.map(\.endpoint?.host) == ["vpn.example"])
        #expect(!profile.leakPolicy.leavesDecisionToRoutes && adopted.allowsLocalNetwork)
        #expect(String(decoding: try profile.configuration.text(), as: UTF8.self).contains("yAnz5TF") == false)
        #expect(try await scene.secrets.read(adopted.privateKeyName, of: profile.id).bytes.count == 32)
        #expect(StandInPreferences.count(of: scene.bundle) == 1)
    }

    @Test(
        "The reader of the guide for BestVPN adopts the user's name and the password, if it exists, with the new server"
    )
    func bestVPN() async throws {
        let scene = ManagerScene { $0.adoptConfiguration = readBestVPNConfiguration }
        let items = KeychainItems(service: "com.example.\(UUID().uuidString)", accessGroup: "group.com.example.vpn")
        let former = configuration(of: scene.bundle, values: [:])
        (former.serverAddress, former.username) = ("vpn.example:9999", "kean")
        former.passwordReference = Data(try items.write(Array("123456".utf8), "kean", label: "kean"))
        try await save(former, name: "BestVPN")
        #expect(try await scene.manager.load() == [])
        let profile = try #require(await scene.manager.profiles.first)
        #expect(profile.name == "BestVPN" && profile.userName == "kean" && profile.serverAddress == VPNServer.address)
        let adopted: CredentialTunnelConfiguration = try profile.configuration.decode()
        #expect(adopted.server == VPNServer.address, "the gateway has another port than vpn-server")
        #expect(adopted.validate().isEmpty && adopted.serverKey == VPNServer.key && adopted.login == "kean")
        #expect(try await scene.secrets.read(adopted.passwordName, of: profile.id).bytes == Array("123456".utf8))
        #expect(
            try await scene.secrets.read(adopted.presharedKeyName, of: profile.id).bytes
                == Array(VPNServer.presharedKey.utf8))
        #expect(StandInPreferences.count(of: scene.bundle) == 1)

        // The user enters a password whose item is lost. A configuration without a user's name is not BestVPN's.
        try items.remove("kean")
        var lost = ExistingConfiguration()
        (lost.serverAddress, lost.username, lost.passwordReference) = ("vpn.example:9999", "kean", [0])
        guard case .adopt(_, let secrets) = try readBestVPNConfiguration(lost) else {
            Issue.record("the configuration is not adopted")
            return
        }
        #expect(secrets.keys.sorted() == [adopted.presharedKeyName])
        lost.username = nil
        guard case .leave = try readBestVPNConfiguration(lost) else {
            Issue.record("another configuration is changed")
            return
        }
    }

    @Test("The reader of the guide for TunnelMonitorKit leaves neither of its values in the configuration")
    func tunnelMonitorKit() async throws {
        let scene = ManagerScene { $0.adoptConfiguration = TunnelMonitorKitMigration.Tunnels.readFormerTunnel }
        let user = #"{"server":"vpn.example","token":"secret-token"}"#
        let values = ["TMUserConfiguration": Data(user.utf8), "TMNetworkSettingsConfiguration": Data("{}".utf8)]
        try await save(configuration(of: scene.bundle, values: values))
        #expect(try await scene.manager.load() == [])
        let profile = try #require(await scene.manager.profiles.first)
        #expect(try await scene.secrets.read("token", of: profile.id).bytes == Array(Self.token.utf8))
        #expect(
            try await saved(scene.bundle).first?.providerConfiguration?.keys.sorted() == [NetworkExtensionStart.idKey])
    }

    @Test(
        "The load of the guide for TunnelMonitorKit creates no second configuration if the former one cannot be adopted"
    )
    func tunnelMonitorKitFails() async throws {
        let scene = ManagerScene { $0.adoptConfiguration = TunnelMonitorKitMigration.Tunnels.readFormerTunnel }
        try await save(configuration(of: scene.bundle, values: ["TMUserConfiguration": Data("{}".utf8)]))
        let user = TunnelMonitorKitMigration.UserConfiguration(server: "vpn.example", token: Self.token)
        for _ in 0..<2 {
            await #expect(throws: TunnelError.self) {
                try await TunnelMonitorKitMigration.Tunnels.load(scene.manager, user)
            }
        }
        #expect(await scene.manager.profiles.isEmpty && StandInPreferences.count(of: scene.bundle) == 1)
    }

    @Test("An extension starts on demand with a former configuration before the updated app has run")
    func startsInExtension() async throws {
        let script = Script()
        let system = BridgeTests.system(script) { $0.adoptConfiguration = Self.read }
        system.tunnel.standIn.protocolConfiguration = configuration(of: "com.example.tunnel")
        func start() async -> (any Error)? {
            let done = OneShot<(any Error)?>()
            system.tunnel.startTunnel(options: nil) { done.finish($0) }
            return await done.value
        }
        #expect(await start() == nil)
        let context = try #require(script.context)
        #expect(try await context.secret("token").bytes == Array(Self.token.utf8))
        await system.stop(.userInitiated)
        // A configuration that the reader refuses ends the start with the reader's error.
        system.tunnel.standIn.protocolConfiguration = configuration(of: "com.example.tunnel", values: [:])
        #expect(try TunnelError(#require(await start())).message == "no token")
    }
}
