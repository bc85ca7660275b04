// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import NetworkExtension
import PacketTunnelTesting
import Security
import Testing

@testable import PacketTunnel
@testable import PacketTunnelApple

@Suite("Tunnels in an extension, from the app", .timeLimit(.minutes(5)))
struct ManagerTests {
    static let broken = TunnelError(.authenticationFailed, "no such user", fix: "sign in again")

    @Test("The first profile is created, started, talked to, and stopped")
    func first() async throws {
        let scene = ManagerScene()
        #expect(try await scene.manager.load().isEmpty)
        #expect(await scene.manager.profiles.isEmpty)
        let profile = scene.profile()
        try await scene.manager.create(profile, secrets: ["key": SecretBytes([1, 2])])
        #expect(StandInPreferences.count(of: scene.bundle) == 1)
        #expect(await scene.manager.status(profile.id).status == .disconnected)

        try await scene.manager.start(profile.id)
        #expect(await scene.manager.status(profile.id).status == .connected)
        #expect(try await scene.manager.sendMessage([7], to: profile.id) == [1])
        let context = try #require(scene.script.context)
        #expect(try await context.secret("key").bytes == [1, 2])
        try await scene.manager.stop(profile.id)
        #expect(await scene.manager.status(profile.id) == TunnelStatusUpdate(.disconnected))
        #expect(scene.script.calls.messages.contains("stop userInitiated"))
        #expect(try scene.session(profile).completions.allSatisfy { $0.count == 1 })
    }

    @Test("The system's configuration has no more than it needs; the rest is in the keychain, on this device only")
    func placement() async throws {
        let scene = ManagerScene()
        var profile = scene.profile()
        profile.leakPolicy = .everything
        try await scene.manager.create(profile, secrets: ["key": SecretBytes([1, 2])])
        let manager = try scene.configuration(profile).manager
        let configuration = try #require(manager.protocolConfiguration as? NETunnelProviderProtocol)
        #expect(configuration.providerConfiguration?.keys.sorted() == [NetworkExtensionStart.idKey])
        #expect(configuration.passwordReference?.isEmpty == false)
        #expect(configuration.serverAddress == "vpn.example")
        #expect(configuration.includeAllNetworks && !configuration.enforceRoutes && !configuration.excludeLocalNetworks)
        #expect(manager.localizedDescription == "Home")
        for service in ["culvert.profiles.\(scene.bundle)", "culvert.secrets"] {
            let items = StandInKeychain.items(of: service).filter { $0.key.hasPrefix(profile.id) }
            #expect(items.count == 1)
            #expect(items.values.allSatisfy { $0["pdmn"] == "cku" && $0["agrp"] == "TEAM.example" })
        }
    }

    @Test("Of several profiles one is up at a time")
    func several() async throws {
        let scene = ManagerScene()
        let (one, two) = (scene.profile("One"), scene.profile("Two"))
        try await scene.manager.create(one)
        try await scene.manager.create(two)
        #expect(await scene.manager.profiles.map(\.name) == ["One", "Two"])
        try await scene.manager.start(one.id)
        try await scene.manager.start(two.id)
        #expect(await scene.manager.status(one.id).status == .disconnected)
        #expect(await scene.manager.status(two.id).status == .connected)
        try await scene.manager.start(one.id)
        #expect(await scene.manager.status(two.id).status == .disconnected)
        try await scene.manager.stop(one.id)
    }

    @Test("The provider's error arrives unchanged")
    func failure() async throws {
        let scene = ManagerScene()
        let profile = scene.profile()
        try await scene.manager.create(profile)
        scene.script.plan.start = .fail(Self.broken)
        await #expect(throws: Self.broken) { try await scene.manager.start(profile.id) }
        #expect(await scene.manager.status(profile.id).error == Self.broken)

        // A later failure arrives too.
        scene.script.plan.start = .succeed
        try await scene.manager.start(profile.id)
        scene.script.context?.cancel(Self.broken)
        #expect(await scene.statuses(profile.id, until: .disconnected)?.error == Self.broken)
        // A stop by the user is not an error.
        try await scene.manager.start(profile.id)
        try await scene.manager.stop(profile.id)
        #expect(await scene.manager.status(profile.id).error == nil)
    }

    @Test("An extension that never answers costs one deadline")
    func silence() async throws {
        let clock = VirtualClock()
        let scene = ManagerScene { $0.clock = clock }
        let profile = scene.profile()
        try await scene.manager.create(profile)
        scene.script.plan.start = .wait
        let starting = Task { try await scene.manager.start(profile.id) }
        await scene.script.noted("waits")
        await clock.waitForSleepers()
        clock.advanceToNextDeadline()
        await #expect {
            try await starting.value
        } throws: {
            ($0 as? TunnelError)?.code == .startTimedOut
        }
        _ = await scene.statuses(profile.id, until: .disconnected)
        scene.script.plan.start = .succeed
        try await scene.manager.start(profile.id)
        try await scene.manager.stop(profile.id)
    }

    @Test("A caller that abandons a start stops it; a second caller is refused")
    func cancelled() async throws {
        let scene = ManagerScene()
        let profile = scene.profile()
        try await scene.manager.create(profile)
        scene.script.plan.start = .wait
        let starting = Task { try await scene.manager.start(profile.id) }
        await scene.script.noted("waits")
        await #expect {
            try await scene.manager.start(profile.id)
        } throws: {
            ($0 as? TunnelError)?.code == .alreadyRunning
        }
        starting.cancel()
        await #expect(throws: TunnelError.self) { try await starting.value }
        _ = await scene.statuses(profile.id, until: .disconnected)
    }

    @Test("Started on demand, without the app, it finds its profile by the keychain reference")
    func onDemand() async throws {
        let scene = ManagerScene()
        var profile = scene.profile()
        profile.onDemand = .always
        profile.isOnDemandEnabled = true
        try await scene.manager.create(profile, secrets: ["key": SecretBytes([3])])
        let manager = try scene.configuration(profile).manager
        #expect(manager.isEnabled && manager.isOnDemandEnabled)
        try scene.session(profile).startOnDemand()
        _ = await scene.statuses(profile.id, until: .connected)
        #expect(try await scene.script.context?.secret("key").bytes == [3])
        try await scene.manager.stop(profile.id)
    }

    @Test("After its restart the app learns what the system did meanwhile")
    func restart() async throws {
        let scene = ManagerScene()
        let profile = scene.profile()
        try await scene.manager.create(profile)
        try await scene.manager.start(profile.id)
        let later = try await scene.restarted()
        #expect(await later.profiles == [profile])
        #expect(await later.status(profile.id).status == .connected)
        #expect(try await later.sendMessage([7], to: profile.id) == [1])
        try await later.stop(profile.id)
        // The first one follows.
        _ = await scene.statuses(profile.id, until: .disconnected)
    }

    @Test("A change of two apps is written after both have read it")
    func stale() async throws {
        let scene = ManagerScene()
        var profile = scene.profile()
        try await scene.manager.create(profile)
        let other = try await scene.restarted()
        profile.serverAddress = "other.example"
        try await other.update(profile)
        profile.name = "Work"
        try await scene.manager.update(profile)
        let last = try await scene.restarted()
        #expect(await last.profiles.map(\.name) == ["Work"])
        try await scene.manager.start(profile.id)
        try await scene.manager.stop(profile.id)
    }

    @Test("A profile that the user removes in the settings disappears, and its keychain item is deleted on request")
    func removedElsewhere() async throws {
        let scene = ManagerScene()
        let profile = scene.profile()
        try await scene.manager.create(profile)
        StandInPreferences.removeAll(of: scene.bundle)
        #expect(await scene.statuses(profile.id, until: .invalid) != nil)
        await #expect(throws: TunnelError.self) { try await scene.manager.start(profile.id) }
        try await scene.manager.load()
        #expect(await scene.manager.profiles.isEmpty)
        #expect(try await scene.store.removeOrphans() == [profile.id])
        #expect(StandInKeychain.items(of: "culvert.profiles.\(scene.bundle)").isEmpty)
    }

    @Test("Removing takes the tunnel down first, and everything with it")
    func remove() async throws {
        let scene = ManagerScene()
        let profile = scene.profile()
        try await scene.manager.create(profile, secrets: ["key": SecretBytes([1])])
        try await scene.manager.start(profile.id)
        try await scene.manager.remove(profile.id)
        #expect(StandInPreferences.count(of: scene.bundle) == 0)
        #expect(StandInKeychain.items(of: "culvert.secrets").keys.allSatisfy { !$0.hasPrefix(profile.id) })
        #expect(StandInKeychain.items(of: "culvert.profiles.\(scene.bundle)").isEmpty)
        #expect(scene.script.calls.messages.contains("stopped"))
        #expect(await scene.manager.status(profile.id).status == .invalid)
    }

    @Test("A refusal by the user changes nothing, including the keychain")
    func refused() async throws {
        let scene = ManagerScene()
        var profile = scene.profile()
        StandInPreferences.fail(scene.bundle, with: NEVPNError(.configurationReadWriteFailed))
        await #expect {
            try await scene.manager.create(profile)
        } throws: {
            ($0 as? TunnelError)?.code == .permissionDenied
        }
        #expect(StandInKeychain.items(of: "culvert.profiles.\(scene.bundle)").isEmpty)
        StandInPreferences.fail(scene.bundle, with: nil)
        try await scene.manager.create(profile)
        let before = profile
        profile.serverAddress = "other.example"
        StandInPreferences.fail(scene.bundle, with: NEVPNError(.configurationReadWriteFailed))
        await #expect(throws: TunnelError.self) { try await scene.manager.update(profile) }
        StandInPreferences.fail(scene.bundle, with: nil)
        #expect(await (try scene.restarted()).profiles == [before])
    }

    @Test("A profile whose keychain item is missing has a distinct error, and does not hide others")
    func lostItem() async throws {
        let scene = ManagerScene()
        let (one, two) = (scene.profile("One"), scene.profile("Two"))
        try await scene.manager.create(one)
        try await scene.manager.create(two)
        try KeychainProfiles(service: "culvert.profiles.\(scene.bundle)", accessGroup: "TEAM.example").remove(one.id)
        let store = NetworkExtensionProfileStore(scene.options)
        let loaded = try await store.loadAll()
        #expect(loaded.profiles == [two])
        #expect(loaded.errors.map(\.code) == [.secretUnavailable])
        // A start on demand is reported.
        let session = try scene.session(one)
        try await scene.configuration(one).save { $0.isEnabled = true }
        session.startOnDemand()
        #expect(await scene.statuses(one.id, until: .connecting) != nil)
        #expect(await scene.statuses(one.id, until: .disconnected)?.error?.code == .secretUnavailable)
    }

    @Test("A locked keychain says what to do")
    func locked() async throws {
        let scene = ManagerScene()
        StandInKeychain.fail("culvert.profiles.\(scene.bundle)", with: errSecInteractionNotAllowed)
        await #expect {
            try await scene.manager.create(scene.profile())
        } throws: {
            let error = $0 as? TunnelError
            return error?.code == .storage && error?.fix.contains("unlock") == true
        }
        #expect(StandInPreferences.count(of: scene.bundle) == 0)
    }

    @Test("A blocked tunnel is distinguished from one that reconnects, and starts again")
    func blocked() async throws {
        let scene = ManagerScene()
        var profile = scene.profile()
        profile.leakPolicy = .enforcedRoutes
        try await scene.manager.create(profile)
        try await scene.manager.start(profile.id)
        scene.script.context?.setReasserting(true)
        _ = await scene.statuses(profile.id, until: .reasserting)
        scene.script.context?.setReasserting(false)
        _ = await scene.statuses(profile.id, until: .connected)
        scene.script.context?.cancel(Self.broken)
        #expect(await scene.statuses(profile.id, until: .blocked)?.error == Self.broken)
        #expect(try scene.session(profile).runningProvider?.standIn.settings != nil)
        try await scene.manager.start(profile.id)
        _ = await scene.statuses(profile.id, until: .connected)
        try await scene.manager.stop(profile.id)
    }

    @Test("The options of a start reach the extension, even a blocked one, and a start on demand has none")
    func startOptions() async throws {
        let scene = ManagerScene()
        var profile = scene.profile()
        profile.leakPolicy = .enforcedRoutes
        try await scene.manager.create(profile)
        try await scene.manager.start(profile.id, options: ["activationAttemptId": .string("1")])
        #expect(scene.script.context?.startOptions == ["activationAttemptId": .string("1")])
        scene.script.context?.cancel(Self.broken)
        _ = await scene.statuses(profile.id, until: .blocked)
        try await scene.manager.start(profile.id, options: ["activationAttemptId": .string("2")])
        #expect(scene.script.context?.startOptions == ["activationAttemptId": .string("2")])
        try await scene.manager.stop(profile.id)
        try scene.session(profile).startOnDemand()
        await scene.script.noted("applied", count: 3)
        #expect(try #require(scene.script.context).startOptions == nil)
        try await scene.manager.stop(profile.id)
    }

    @Test("Messages to a tunnel that is down, or that ends, are errors")
    func messages() async throws {
        let scene = ManagerScene()
        let profile = scene.profile()
        try await scene.manager.create(profile)
        await #expect {
            _ = try await scene.manager.sendMessage([7], to: profile.id)
        } throws: {
            ($0 as? TunnelError)?.code == .notRunning
        }
        try await scene.manager.start(profile.id)
        scene.script.plan.answerWaits = true
        let asking = Task { try await scene.manager.sendMessage([7], to: profile.id) }
        await scene.script.noted("message")
        try await scene.manager.stop(profile.id)
        await #expect(throws: TunnelError.self) { _ = try await asking.value }
        scene.script.release()
    }

    @Test("Notifications of other connections are ignored")
    func foreign() async throws {
        let scene = ManagerScene()
        let profile = scene.profile()
        try await scene.manager.create(profile)
        let stranger = NETunnelProviderManager()
        let channel = try #require(scene.store.channel(for: profile) as? NetworkExtensionChannel)
        let before = channel.statusCount
        NotificationCenter.default.post(name: .NEVPNStatusDidChange, object: stranger.connection)
        try await scene.manager.start(profile.id)
        // Connecting and connected, and nothing in between.
        #expect(channel.statusCount == before + 2)
        try await scene.manager.stop(profile.id)
    }

    @Test("A system extension gets profile and secrets without a keychain")
    func systemExtension() async throws {
        let scene = ManagerScene {
            $0.placement = .systemConfiguration
            $0.passesSecrets = true
        }
        let profile = scene.profile()
        try await scene.manager.create(profile, secrets: ["key": SecretBytes([4])])
        let configuration = try scene.configuration(profile).manager.protocolConfiguration
        #expect(configuration?.passwordReference == nil)
        try await scene.manager.start(profile.id)
        #expect(try await scene.script.context?.secret("key").bytes == [4])
        try await scene.manager.stop(profile.id)
        // On demand it starts as well, without secrets.
        try await scene.configuration(profile).save { $0.isEnabled = true }
        try scene.session(profile).startOnDemand()
        _ = await scene.statuses(profile.id, until: .connected)
        await #expect(throws: TunnelError.self) { _ = try await scene.script.context?.secret("key") }
        try await scene.manager.stop(profile.id)
    }

    @Test("A simulator runs the provider in the app, and a device in the extension")
    func simulator() async throws {
        let scene = ManagerScene()
        let script = Script()
        let simulated = TunnelManager.default(scene.options, isSimulator: true) { ScriptedProvider(script) }
        let profile = scene.profile()
        try await simulated.create(profile)
        try await simulated.start(profile.id)
        #expect(script.calls.messages.contains("start"))
        try await simulated.stop(profile.id)
        #expect(StandInPreferences.count(of: scene.bundle) == 0)

        let real = TunnelManager.default(scene.options) { ScriptedProvider(script) }
        try await real.create(profile)
        #expect(StandInPreferences.count(of: scene.bundle) == 1)
    }
}

@Suite("On-demand rules for the system")
struct OnDemandTests {
    @Test("Rules say always, on Wi-Fi, on some Wi-Fi, or elsewhere")
    func presets() {
        func shape(_ rules: OnDemandRules) -> [String] {
            rules.makeNetworkExtensionRules().map { rule in
                "\(rule.action) \(rule.interfaceTypeMatch) \(rule.ssidMatch?.joined(separator: "+") ?? "")"
            }
        }
        #expect(shape(OnDemandRules()) == [])
        #expect(shape(.always) == ["connect any ", "ignore any "])
        #expect(shape(.wifiOnly()) == ["connect wiFi ", "disconnect any ", "ignore any "])
        #expect(
            shape(.except(ssids: ["home", "work"])) == ["disconnect wiFi home+work", "connect any ", "ignore any "])
        #expect(
            shape(OnDemandRules([.init(.connect, on: .cellular), .init(.ignore, on: .any, ssids: ["cafe"])]))
                == ["connect cellular ", "ignore wiFi cafe", "ignore any "])
    }

    @Test("A network that the platform has no word for makes no rule")
    func ethernet() {
        let rules = OnDemandRules([.init(.connect, on: .ethernet)]).makeNetworkExtensionRules()
        #expect(rules.map(\.action) == [.ignore])
    }
}
