// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import Foundation
import Logging
import PacketTunnel
import Synchronization
import Testing

@testable import culvert

@Suite("The parts of a tunnel's process")
struct ServiceTests {
    /// Hooks around a host that only records its calls.
    private struct Scene {
        let host = FakeHost()
        let hooks: TunnelHooks

        init(failing: String? = nil) {
            var hooks = Hooks()
            hooks.preUp = ["pre-up"]
            hooks.postUp = ["post-up", "post-up-2"]
            hooks.preDown = ["pre-down"]
            hooks.postDown = ["post-down"]
            self.hooks = TunnelHooks(host, hooks: hooks, logger: Logger(label: "t") { _ in SwiftLogNoOpLogHandler() }) {
                [host] command throws(TunnelError) in
                host.note(command)
                if command == failing { throw TunnelError(.hostFailed, command) }
            }
        }

        var calls: [String] { host.calls.withLock { $0 } }

        func start() async throws(TunnelError) { try await ServiceTests.start(host, hooks) }
    }

    private static func start(_ host: FakeHost, _ hooks: TunnelHooks) async throws(TunnelError) {
        try await hooks.start { () throws(TunnelError) in
            try await host.start(TunnelStartRequest(configuration: []))
        }
    }

    @Test("Hooks run around the tunnel's life, in wg-quick's order, once")
    func hooks() async throws {
        let scene = Scene()
        try await scene.start()
        async let first: Void = scene.hooks.stop(.userInitiated)
        async let second: Void = scene.hooks.stop(.userInitiated)
        _ = await (first, second)
        await scene.hooks.stop(.userInitiated)
        let wanted = ["pre-up", "start", "post-up", "post-up-2", "pre-down", "stop", "post-down"]
        #expect(Array(scene.calls.prefix(wanted.count)) == wanted)
        #expect(Set(scene.calls.dropFirst(wanted.count)).isSubset(of: ["stop"]))
    }

    @Test(
        "A hook that fails ends the start, and the tunnel is taken down",
        arguments: [("pre-up", ["pre-up"]), ("post-up", ["pre-up", "start", "post-up", "stop"])])
    func failingHook(_ name: String, _ calls: [String]) async throws {
        let scene = Scene(failing: name)
        await #expect(throws: TunnelError(.hostFailed, name)) { try await scene.start() }
        #expect(scene.calls == calls)
        #expect(scene.host.status.status == .disconnected)
    }

    @Test("Commands that undo the tunnel while it starts fail the start")
    func undoneByHooks() async throws {
        let host = FakeHost()
        var hooks = Hooks()
        hooks.postUp = ["post-up"]
        let error = TunnelError(.hostFailed, "the interface was deleted")
        let tunnelHooks = TunnelHooks(
            host, hooks: hooks, logger: Logger(label: "t") { _ in SwiftLogNoOpLogHandler() },
            checkAfterHooks: { error }
        ) { command throws(TunnelError) in host.note(command) }
        await #expect(throws: error) { try await Self.start(host, tunnelHooks) }
        #expect(host.calls.withLock { $0 } == ["start", "post-up", "stop"])
    }

    @Test("A failed start runs no hook for the way down; a tunnel that ended by itself the last ones only")
    func otherEnds() async throws {
        let failed = Scene()
        failed.host.failure.withLock { $0 = TunnelError(.serverUnreachable, "no") }
        await #expect(throws: TunnelError.self) { try await failed.start() }
        await failed.hooks.stop(.userInitiated)
        #expect(failed.calls == ["pre-up", "start", "stop"])
        let ended = Scene()
        try await ended.start()
        ended.host.set(.disconnected, TunnelError(.connectivityLost, "gone"))
        await ended.hooks.stop(.userInitiated)
        #expect(ended.calls.suffix(2) == ["stop", "post-down"])
        #expect(!ended.calls.contains("pre-down"))
        let grumbling = Scene(failing: "pre-down")
        try await grumbling.start()
        await grumbling.hooks.stop(.userInitiated)
        #expect(grumbling.calls.suffix(3) == ["pre-down", "stop", "post-down"])
    }

    @Test(
        "A stop, or the end of the start's task, ends a command on the way up", arguments: ["pre-up", "post-up"],
        [true, false])
    func interruptedHook(_ name: String, _ isStopped: Bool) async throws {
        let host = FakeHost()
        var hooks = Hooks()
        (hooks.preUp, hooks.postUp, hooks.postDown) = (["pre-up"], ["post-up", "post-up-2"], ["post-down"])
        let running = AsyncStream.makeStream(of: Void.self)
        let tunnelHooks = TunnelHooks(host, hooks: hooks, logger: Logger(label: "t") { _ in SwiftLogNoOpLogHandler() })
        {
            command throws(TunnelError) in
            host.note(command)
            guard command == name else { return }
            running.continuation.yield()
            // Until it is cancelled.
            for await _ in AsyncStream<Void>(unfolding: { try? await Task.sleep(for: .seconds(600)) }) { break }
            throw TunnelError(.stopped, "interrupted")
        }
        let start = Task { () -> TunnelError? in
            do throws(TunnelError) {
                try await Self.start(host, tunnelHooks)
                return nil
            } catch {
                return error
            }
        }
        for await _ in running.stream { break }
        if isStopped { await tunnelHooks.stop(.userInitiated) } else { start.cancel() }
        #expect(await start.value?.code == .stopped)
        let calls = host.calls.withLock { $0 }
        #expect(!calls.contains("post-up-2") && !calls.contains("post-down"))
        #expect(calls.contains("start") == (name == "post-up"))
        #expect(host.status.status == .disconnected)
    }

    @Test("A tunnel that has failed is started again with its hooks, after those that take back what ran before")
    func startsAgain() async throws {
        let scene = Scene()
        try await scene.start()
        try await scene.start()
        let once = ["pre-up", "start", "post-up", "post-up-2"]
        #expect(scene.calls == once + ["post-down"] + once)
    }

    @Test("From one try to the next it takes twice as long, up to a minute")
    func backOff() {
        var backOff = BackOff()
        #expect((0..<9).map { _ in backOff.next() } == [1, 2, 4, 8, 16, 32, 60, 60, 60].map { .seconds($0) })
    }

    @Test("A stop that comes before the start is not forgotten")
    func stopBeforeStart() async throws {
        let scene = Scene()
        await scene.hooks.stop(.userInitiated)
        await #expect(throws: TunnelError.self) { try await scene.start() }
        #expect(scene.calls == ["stop"])
        #expect(scene.host.status.status == .disconnected)
    }

    @Test("Warnings of the log reach the command while the tunnel starts, each once, and without keys")
    func warnings() {
        let told = Mutex<[String]>([])
        let warnings = StartWarnings(known: ["line 3: odd"]) { text in told.withLock { $0.append(text) } }
        let logger = Logger(label: "t") { RedactingLogHandler(label: $0, sinks: [warnings]) }
        logger.warning("line 3: odd")
        for _ in 0..<3 { logger.warning("IPv6 is left out") }
        logger.info("not for people")
        logger.error("what ends the start")
        logger.warning("PrivateKey = \(Samples.privateKey)")
        warnings.end()
        logger.warning("too late")
        #expect(told.withLock { $0 } == ["IPv6 is left out", "PrivateKey = [redacted]"])
    }

    @Test(
        "A refused login and a session that the server ended have their own statuses, and a gateway's refusal keeps its own"
    )
    func exitStatusesOfLogins() {
        #expect(ExitStatus.of(.authenticationFailed, isLogin: true) == 7)
        #expect(ExitStatus.of(.sessionTerminated, isLogin: true) == 8)
        #expect(ExitStatus.of(.serverUnreachable, isLogin: true) == 6)
        #expect(ExitStatus.of(.authenticationFailed) == 6)
    }

    @Test("Errors end a command with a status that says what kind they are")
    func statuses() {
        #expect(ExitStatus.of(.serverUnreachable) == 6)
        #expect(ExitStatus.of(.alreadyRunning) == 5)
        #expect(ExitStatus.of(.permissionDenied) == 4)
        #expect(ExitStatus.of(.notRunning) == 3)
        #expect(ExitStatus.of(.configurationInvalid) == 2)
        #expect(ExitStatus.of(.settingsFailed) == 1)
        #expect(ExitStatus.of(.stopped) == 130)
        let error = TunnelError(
            .settingsInvalid, "wrong", fix: "correct it",
            problems: [SettingsProblem(field: "mtu", value: "1", problem: "is small", fix: "enlarge it")])
        #expect(
            CommandProblem(error, of: "wg0").text == "wg0: wrong\n  mtu '1' is small: enlarge it\n  fix: correct it")
    }

    @Test("The runtime folder is that of an option, else of the environment, else the standard one")
    func runtimeFolder() {
        #expect(RuntimeDirectory(path: "/a", environment: { _ in "/b" }).path == "/a")
        #expect(RuntimeDirectory(environment: { $0 == RuntimeDirectory.variable ? "/b" : nil }).path == "/b")
        #expect(RuntimeDirectory(environment: { _ in nil }).path == "/run/culvert")
        #expect(RuntimeDirectory(path: "/a").socket("wg0") == "/a/wg0.sock")
    }
}
