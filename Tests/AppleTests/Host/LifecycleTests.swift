// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import Logging
import NetworkExtension
import PacketTunnelTesting
import Testing

@testable import PacketTunnel
@testable import PacketTunnelApple

/// ``NetworkExtensionHost`` in the table: the system's calls go to it, and settings take as long as the system takes.
struct NetworkExtensionHostUnderTest: HostUnderTest {
    let system: SystemSide<ScriptedProvider>
    private let steps: PlatformScript

    init(clock: VirtualClock, script: Script, deadlines: TunnelDeadlines) {
        let steps = PlatformScript(clock: clock)
        var options = NetworkExtensionOptions.quiet
        options.clock = clock
        options.deadlines = deadlines
        options.secrets = KeychainSecretStore(service: "test.\(UUID().uuidString)")
        options.wrapPlatform = { ScriptedPlatform($0, script: steps) }
        system = SystemSide(options) { ScriptedProvider(script) }
        let configuration = NETunnelProviderProtocol()
        configuration.enforceRoutes = true
        configuration.excludeLocalNetworks = false
        system.tunnel.standIn.protocolConfiguration = configuration
        self.steps = steps
    }

    var host: any TunnelHost { system }

    func set(_ step: PlatformStep, _ behaviour: MemoryPlatform.Behaviour) {
        guard step == .apply else { return steps.set(step, behaviour) }
        // The system's own way to be slow.
        switch behaviour {
        case .hang, .hangForever: system.tunnel.standIn.setBehaviour(.withhold)
        case .fail(let error): system.tunnel.standIn.setBehaviour(.fail(error))
        case .succeed, .succeedAfter: system.tunnel.standIn.setBehaviour(.succeed)
        }
    }

    func releaseAll() {
        steps.releaseAll()
        system.tunnel.standIn.release()
    }

    var hangingCount: Int { steps.hangingCount + system.tunnel.standIn.withheldCount }

    var hasSettings: Bool { system.tunnel.standIn.settings != nil }

    var hasLeakGuard: Bool { system.status.status == .blocked }
}

extension NetworkExtensionOptions {
    /// Logs nothing, and gets network paths only from a test.
    static var quiet: NetworkExtensionOptions {
        var options = NetworkExtensionOptions()
        options.logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        options.watchesPath = false
        return options
    }
}

@Suite("The table of life-cycle cases on the extension host", .timeLimit(.minutes(5)))
struct LifecycleTests {
    @Test("Holds, and every completion handler is called exactly once", arguments: LifecycleCase.all)
    func cases(_ test: LifecycleCase) async throws {
        let scene = try await LifecycleScene<NetworkExtensionHostUnderTest>()
        await scene.play(test)
        let unbalanced = scene.subject.system.unbalanced
        #expect(unbalanced.repeated.isEmpty)
        #expect(unbalanced.missing == 0)
        #expect(StandInRules.violations.isEmpty)
    }

    @Test("Small batches to read into are refused on the extension host")
    func smallBatches() async throws {
        try await LifecycleScene<NetworkExtensionHostUnderTest>().readIntoSmallBatches()
    }

    @Test("A running provider can save a secret on the extension host")
    func savedSecrets() async throws {
        try await LifecycleScene<NetworkExtensionHostUnderTest>().saveSecret()
    }

    @Test("A provider that starts while the device sleeps receives the sleep on the extension host")
    func startsAsleep() async throws {
        try await LifecycleScene<NetworkExtensionHostUnderTest>().startAsleep()
    }

    @Test(
        "A step that fails is the start's error, and the next start succeeds",
        arguments: [PlatformStep.prepare, .apply])
    func failures(_ step: PlatformStep) async throws {
        let scene = try await LifecycleScene<NetworkExtensionHostUnderTest>()
        let failure = TunnelError(.settingsFailed, "no route", fix: "find one")
        scene.subject.set(step, .fail(failure))
        let request = TunnelStartRequest(configuration: Array(#"{"name":"x"}"#.utf8))
        await #expect(throws: failure) { try await scene.subject.host.start(request) }
        scene.subject.set(step, .succeed)
        try await scene.subject.host.start(request)
        #expect(scene.subject.hasSettings)
        await scene.subject.host.stop(.userInitiated)
        #expect(scene.subject.system.unbalanced.missing == 0)
    }
}
