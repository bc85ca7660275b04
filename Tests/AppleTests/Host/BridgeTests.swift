// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import NetworkExtension
import PacketTunnelTesting
import Testing
import TunnelSystem

@testable import PacketTunnel
@testable import PacketTunnelApple

@Suite("Between the system and the runner", .timeLimit(.minutes(5)))
struct BridgeTests {
    static let request = TunnelStartRequest(configuration: Array(#"{"name":"x"}"#.utf8))
    static let broken = TunnelError(.serverUnreachable, "no answer", fix: "check the server")

    static func system(
        _ script: Script, _ adjust: (inout NetworkExtensionOptions) -> Void = { _ in }
    ) -> SystemSide<ScriptedProvider> {
        var options = NetworkExtensionOptions.quiet
        adjust(&options)
        return SystemSide(options) { ScriptedProvider(script) }
    }

    @Test("Settings that never complete end the start at its deadline, once")
    func neverCompletes() async throws {
        let (clock, script) = (VirtualClock(), Script())
        let system = Self.system(script) { $0.clock = clock }
        system.tunnel.standIn.setBehaviour(.withhold)
        let starting = Task { try await system.start(Self.request) }
        await script.noted("start")
        // Settings have a separate, shorter deadline.
        await clock.waitForSleepers(2)
        clock.advanceToNextDeadline()
        await #expect(throws: TunnelError.self) { try await starting.value }
        #expect(system.status.error?.code == .settingsTimedOut)
        // The system then completes after all, when no call waits any longer.
        system.tunnel.standIn.release()
        system.tunnel.standIn.setBehaviour(.succeed)
        try await system.start(Self.request)
        await system.stop(.userInitiated)
        #expect(system.unbalanced.missing == 0)
        #expect(system.unbalanced.repeated.isEmpty)
    }

    @Test("A provider that gives up ends the system's tunnel once, with the error it gave")
    func givesUp() async throws {
        let script = Script()
        let system = Self.system(script)
        try await system.start(Self.request)
        script.context?.cancel(Self.broken)
        #expect(await system.changes.wait { system.tunnel.standIn.cancellations.count == 1 })
        let error = try #require(system.tunnel.standIn.cancellations.first ?? nil)
        #expect(TunnelError(error) == Self.broken)
        // The system may well stop it now.
        await system.stop(.userInitiated)
        #expect(system.tunnel.standIn.cancellations.count == 1)
    }

    @Test("A failure during the start is reported only by the completion handler")
    func failsWhileStarting() async throws {
        let script = Script()
        script.plan.start = .fail(Self.broken)
        let system = Self.system(script)
        await #expect(throws: Self.broken) { try await system.start(Self.request) }
        await system.stop(.userInitiated)
        #expect(system.tunnel.standIn.cancellations.isEmpty)
    }

    @Test("Reasserting is reported to the system, and its end too")
    func reasserting() async throws {
        let script = Script()
        let system = Self.system(script)
        try await system.start(Self.request)
        script.context?.setReasserting(true)
        #expect(await system.changes.wait { system.tunnel.reasserting })
        script.context?.setReasserting(false)
        #expect(await system.changes.wait { !system.tunnel.reasserting })
        await system.stop(.userInitiated)
        #expect(system.tunnel.standIn.reassertingChanges == [true, false])
    }

    @Test(
        "A failure under a policy that blocks keeps the system's tunnel, which carries nothing, until it starts again")
    func blocks() async throws {
        let script = Script()
        let system = Self.system(script)
        let configuration = NETunnelProviderProtocol()
        configuration.hold(.enforcedRoutes, allowsLocalNetwork: false)
        system.tunnel.standIn.protocolConfiguration = configuration
        var request = Self.request
        request.leakPolicy = .enforcedRoutes
        try await system.start(request)
        let flow = system.tunnel.standIn.flow.standIn
        system.changes.follow(system.statusUpdates())
        script.context?.cancel(Self.broken)
        #expect(await system.changes.wait { system.status.status == .blocked && system.tunnel.reasserting })
        #expect(system.tunnel.standIn.settings != nil)
        #expect(system.tunnel.standIn.cancellations.isEmpty)
        flow.route([Data(Samples.packet(1))])
        #expect(flow.takeWritten().isEmpty)

        try await system.start(request)
        #expect(system.status.status == .connected)
        #expect(await system.changes.wait { !system.tunnel.reasserting })
        #expect(script.calls.messages.filter { $0 == "start" }.count == 2)
        await system.stop(.userInitiated)
        #expect(system.status == TunnelStatusUpdate(.disconnected))
    }

    @Test("A policy that the system's profile does not hold back for is refused", arguments: LeakPolicy.allCases)
    func policies(_ held: LeakPolicy) async throws {
        for wanted in LeakPolicy.allCases {
            let script = Script()
            script.plan.settings?.leakPolicy = wanted
            let system = Self.system(script)
            let configuration = NETunnelProviderProtocol()
            configuration.hold(held, allowsLocalNetwork: false)
            system.tunnel.standIn.protocolConfiguration = configuration
            var request = Self.request
            request.leakPolicy = wanted
            if wanted <= held {
                try await system.start(request)
                await system.stop(.userInitiated)
            } else {
                await #expect {
                    try await system.start(request)
                } throws: {
                    ($0 as? TunnelError)?.code == .configurationInvalid
                }
            }
        }
    }

    @Test("Local networks that the profile leaves out and the settings do not are refused")
    func localNetworks() async throws {
        let script = Script()
        let system = Self.system(script)
        let configuration = NETunnelProviderProtocol()
        configuration.hold(.enforcedRoutes, allowsLocalNetwork: true)
        system.tunnel.standIn.protocolConfiguration = configuration
        await #expect {
            try await system.start(Self.request)
        } throws: {
            ($0 as? TunnelError)?.code == .configurationInvalid
        }
        script.plan.settings?.allowsLocalNetwork = true
        try await system.start(Self.request)
        await system.stop(.userInitiated)
    }

    @Test("A stop while it starts ends both, each once")
    func stopsWhileStarting() async throws {
        let script = Script()
        script.plan.start = .wait
        let system = Self.system(script)
        let starting = Task { try await system.start(Self.request) }
        await script.noted("waits")
        await system.stop(.userInitiated)
        await #expect(throws: TunnelError.self) { try await starting.value }
        #expect(system.unbalanced.missing == 0)
    }
}

@Suite("Forwarding by the extension host", .timeLimit(.minutes(5)))
struct ForwardingTests {
    @Test("Plain messages and their answers are the provider's own; without a tunnel there is none")
    func plainMessages() async throws {
        let script = Script()
        let system = BridgeTests.system(script)
        #expect(await system.sendPlainMessage([7]) == nil)
        try await system.start(BridgeTests.request)
        #expect(await system.sendPlainMessage([7]) == [1])
        script.plan.answers = nil
        #expect(await system.sendPlainMessage([7]) == nil)
        #expect(try await system.sendMessage([7]) == nil)
        // Data that begins with our mark but is not our message goes to the provider.
        script.plan.answers = [5]
        #expect(await system.sendPlainMessage(ExtensionMessage.mark + [99, 1]) == [5])
        await system.stop(.userInitiated)
        await #expect {
            _ = try await system.sendMessage([7])
        } throws: {
            ($0 as? TunnelError)?.code == .notRunning
        }
    }

    @Test("An answer that never comes ends with the tunnel")
    func lateAnswer() async throws {
        let script = Script()
        script.plan.answerWaits = true
        let system = BridgeTests.system(script)
        try await system.start(BridgeTests.request)
        let asking = Task { try await system.sendMessage([7]) }
        await script.noted("message")
        await system.stop(.userInitiated)
        await #expect(throws: TunnelError.self) { _ = try await asking.value }
        script.release()
        #expect(system.unbalanced.missing == 0)
    }

    @Test("Every request and reply comes out as it went in, and garbage as nothing")
    func envelope() throws {
        let requests: [ExtensionMessage.Request] = [
            .message([]), .message([1, 2, 3]), .status, .restart(options: nil),
            .restart(options: ["reason": .string("retry")]),
        ]
        for request in requests { #expect(ExtensionMessage.request(ExtensionMessage.encode(request)) == request) }
        let replies: [ExtensionMessage.Reply] = [
            .answer(nil), .answer([]), .answer([9]), .status(TunnelStatusUpdate(.blocked, error: BridgeTests.broken)),
            .failure(BridgeTests.broken),
        ]
        for reply in replies { #expect(try ExtensionMessage.reply(ExtensionMessage.encode(reply)) == reply) }
        for garbage in [[], [0], ExtensionMessage.mark, ExtensionMessage.mark + [0], ExtensionMessage.mark + [6, 1]] {
            #expect(ExtensionMessage.request(Data(garbage)) == nil)
            #expect(throws: TunnelError.self) { try ExtensionMessage.reply(Data(garbage)) }
        }
        #expect(throws: TunnelError.self) { try ExtensionMessage.reply(nil) }
    }

    @Test("Sleep waits for the provider, but not for ever; wake comes after it")
    func sleeping() async throws {
        let (clock, script) = (VirtualClock(), Script())
        let system = BridgeTests.system(script) { $0.clock = clock }
        try await system.start(BridgeTests.request)
        await system.sleep()
        system.wake()
        await script.noted("wake")
        #expect(script.calls.messages.suffix(2) == ["sleep", "wake"])
        script.plan.sleepWaits = true
        let sleeping = Task { await system.sleep() }
        await script.noted("sleep", count: 2)
        await clock.waitForSleepers()
        while clock.advanceToNextDeadline() {}
        await sleeping.value
        script.release()
        await system.stop(.userInitiated)
        await system.sleep()
        #expect(system.unbalanced.missing == 0)
    }

    @Test(
        "Reasons of the system",
        arguments: [
            (NEProviderStopReason.userInitiated, StopReason.userInitiated), (.superceded, .superseded),
            (.sleep, .sleep),
            (.noNetworkAvailable, .noNetworkAvailable), (.appUpdate, .appUpdate), (.none, .unknown),
            (.internalError, .unknown),
        ])
    func reasons(_ reason: NEProviderStopReason, _ expected: StopReason) {
        #expect(StopReason(reason) == expected)
    }

    @Test("Errors keep all they say on their way through the system", arguments: TunnelError.Code.allCases)
    func errors(_ code: TunnelError.Code) {
        let error = TunnelError(
            code, "what happened", fix: "what to do",
            problems: [SettingsProblem(field: "mtu", value: "1", problem: "is short", fix: "lengthen it")],
            stopReason: .idleTimeout)
        #expect(TunnelError(error.nsError) == error)
        #expect(error.nsError.localizedDescription == error.description)
        // Where the system keeps the number only.
        let bare = NSError(domain: error.nsError.domain, code: error.nsError.code)
        #expect(TunnelError(bare).code == code)
    }

    @Test("Errors of the system have its text, and its code if it has one")
    func systemErrors() {
        #expect(TunnelError(NEVPNError(.configurationDisabled)).code == .profileDisabled)
        #expect(TunnelError(NEVPNError(.configurationReadWriteFailed)).code == .permissionDenied)
        let other = TunnelError(NSError(domain: "Other", code: 3), fallback: .settingsFailed)
        #expect(other.code == .settingsFailed)
        #expect(other.message.contains("Other 3"))
    }

    @Test("A start on demand uses the system's configuration")
    func onDemand() async throws {
        let script = Script()
        let system = BridgeTests.system(script)
        var profile = TunnelProfile(name: "Office", provider: "script", configuration: .object(["name": .string("x")]))
        profile.leakPolicy = .enforcedRoutes
        let configuration = NETunnelProviderProtocol()
        configuration.hold(.enforcedRoutes, allowsLocalNetwork: false)
        configuration.providerConfiguration = [NetworkExtensionStart.profileKey: try JSONEncoder().encode(profile)]
        system.tunnel.standIn.protocolConfiguration = configuration
        let done = OneShot<(any Error)?>()
        system.tunnel.startTunnel(options: nil) { done.finish($0) }
        #expect(await done.value == nil)
        #expect(script.context?.leakPolicy == .enforcedRoutes)
        await system.stop(.userInitiated)

        configuration.providerConfiguration = [NetworkExtensionStart.profileKey: Data("{}".utf8)]
        let failed = OneShot<(any Error)?>()
        system.tunnel.startTunnel(options: nil) { failed.finish($0) }
        #expect((await failed.value).map { TunnelError($0).code } == .configurationInvalid)
    }

    @Test("Secrets of the start options go to the provider, and away with the tunnel")
    func secrets() async throws {
        let script = Script()
        let system = BridgeTests.system(script)
        var request = BridgeTests.request
        request.profileID = "p"
        let options = NetworkExtensionStart.options(request, secrets: ["key": SecretBytes([1, 2, 3])])
        let done = OneShot<(any Error)?>()
        system.tunnel.startTunnel(options: options) { done.finish($0) }
        #expect(await done.value == nil)
        let context = try #require(script.context)
        #expect(try await context.secret("key").bytes == [1, 2, 3])
        await #expect(throws: TunnelError.self) { _ = try await context.secret("other") }
        await system.stop(.userInitiated)
        await #expect(throws: TunnelError.self) { _ = try await context.secret("key") }
    }
}
