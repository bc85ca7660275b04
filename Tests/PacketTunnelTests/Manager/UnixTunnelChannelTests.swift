// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import Synchronization
import Testing

@testable import PacketTunnel

/// A service in this process, and channels to it.
private final class ServiceScene: Sendable {
    let directory: ScratchDirectory.Box
    let script = Script()
    let host: MemoryHost<ScriptedProvider>
    private let service = Mutex<TunnelService?>(nil)
    var path: String { directory.path + "/tunnel.sock" }

    static let request = TunnelStartRequest(configuration: Array(#"{"name":"one"}"#.utf8))

    init(serves: Bool = true) throws {
        directory = try ScratchDirectory.Box()
        host = MemoryHost { [script] in ScriptedProvider(script) }
        if serves { try serve() }
    }

    func serve() throws(TunnelError) {
        let made = try TunnelService(host: host, path: path)
        service.withLock { $0 = made }
    }

    /// The process ends without a message.
    func crash() { service.withLock { $0 = nil } }

    func close() async { await service.withLock { $0 }?.close(within: .seconds(60)) }

    func channel() -> UnixTunnelChannel { UnixTunnelChannel(path: path, retryInterval: .milliseconds(5)) }
}

extension ScratchDirectory {
    /// A value that tasks share.
    final class Box: Sendable {
        let path: String
        private let directory: Mutex<ScratchDirectory>

        init() throws {
            let made = try ScratchDirectory()
            path = made.path
            directory = Mutex(made)
        }
    }
}

extension AsyncStream<TunnelStatusUpdate> {
    /// Waits for a status.
    fileprivate func first(_ status: TunnelStatus) async -> TunnelStatusUpdate? {
        await first { $0.status == status }
    }
}

/// A provider that counts, and answers a later version of a message.
private actor CountingProvider: PacketTunnelProvider {
    struct Configuration: Codable, Sendable {}
    nonisolated let router = MessageRouter()

    init() {
        router.on(CountTo.self) { count, sink in
            for number in 1...count.last { try await sink.send(number) }
        }
        router.on(Echo.self) { _ in Echo.Reply(text: "of the provider") }
        router.on(EchoLouder.self) { EchoLouder.Reply(loud: [$0.text]) }
    }

    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        try await context.apply(.sample)
    }

    func stop(_ reason: StopReason) async {}
}

@Suite("A tunnel behind a Unix socket", .timeLimit(.minutes(2)))
struct UnixTunnelChannelTests {
    @Test("A channel starts, reports the status, forwards messages, and stops")
    func wholeLife() async throws {
        let scene = try ServiceScene()
        let channel = scene.channel()
        #expect(channel.status == TunnelStatusUpdate(.disconnected))
        let follower = Task { [updates = channel.statusUpdates()] in
            var seen: [TunnelStatus] = []
            for await update in updates {
                seen.append(update.status)
                if seen.contains(.connected), update.status == .disconnected { break }
            }
            return seen
        }
        scene.script.plan.answers = [7, 8]
        try await channel.start(ServiceScene.request)
        #expect(scene.host.status.status == .connected)
        #expect(channel.status.status == .connected)
        #expect(try await channel.sendMessage([1, 2, 3]) == [7, 8])
        scene.script.plan.answers = nil
        #expect(try await channel.sendMessage([]) == nil)
        await #expect(throws: MessageError.noReply) {
            try await MessageClient(channel: channel).send(Echo(text: "a"))
        }
        try await channel.stop(.userInitiated)
        #expect(scene.host.status.status == .disconnected)
        #expect(channel.status.status == .disconnected)
        let seen = await follower.value
        // A change may be over before it is reported; the order never changes.
        #expect(seen.last == .disconnected && seen.contains(.connected))
        #expect(await code { _ = try await channel.sendMessage([1]) } == .notRunning)
    }

    @Test("A client of the service reaches the provider's router, except with names of the service")
    func providerMessages() async throws {
        struct Later: TunnelMessage {
            typealias Reply = Int
            static let name = "culvert.tunnel.later"
        }
        let directory = try ScratchDirectory.Box()
        let host = MemoryHost<AnsweringProvider>()
        let service = try TunnelService(host: host, path: directory.path + "/s")
        let channel = UnixTunnelChannel(path: directory.path + "/s")
        #expect(await caught { try await channel.messages.send(Echo(text: "a")) } == .closed)
        try await host.start(AnsweringProvider.Configuration())
        for client in [channel.messages, MessageClient(channel: channel)] {
            #expect(try await client.send(Echo(text: "a")).text == "a")
        }
        #expect(
            await caught { try await channel.messages.send(EchoLouder(text: "a")) }
                == .unsupportedVersion(name: "test.echo", version: 2, supported: [1]))
        #expect(await caught { try await channel.messages.send(Later()) } == .noHandler(name: "culvert.tunnel.later"))
        await host.stop(.userInitiated)
        await service.close(within: .seconds(60))
    }

    @Test("Of names that service and provider both have, subscriptions are the provider's and messages the service's")
    func sharedNames() async throws {
        let directory = try ScratchDirectory.Box()
        let host = MemoryHost<CountingProvider>()
        let service = try TunnelService(host: host, path: directory.path + "/s") { router in
            router.on(CountTo.self) { _, sink in try await sink.send(-1) }
            router.on(Echo.self) { _ in Echo.Reply(text: "of the service") }
        }
        let channel = UnixTunnelChannel(path: directory.path + "/s")
        try await host.start(CountingProvider.Configuration())
        func count(_ client: MessageClient) async throws -> [Int] {
            var numbers: [Int] = []
            for try await number in try await client.subscribe(to: CountTo(last: 3)) { numbers.append(number) }
            return numbers
        }
        let client = MessageClient(channel: channel)
        #expect(try await count(client) == [1, 2, 3])
        #expect(try await count(channel.messages) == [-1])
        #expect(try await client.send(Echo(text: "a")).text == "of the service")
        // A version that the service does not know.
        #expect(try await client.send(EchoLouder(text: "a")).loud == ["a"])
        await host.stop(.userInitiated)
        await service.close(within: .seconds(60))
    }

    @Test("A handler of an app, or for guests, does not replace one of the service's own")
    func ownHandlers() async throws {
        let directory = try ScratchDirectory.Box()
        let host = MemoryHost<AnsweringProvider>()
        var routers: [MessageRouter] = []
        func replaceStop(_ router: MessageRouter) {
            router.on(TunnelStopMessage.self) { _ in TunnelStopMessage.Reply() }
            routers.append(router)
        }
        let service = try TunnelService(
            host: host, path: directory.path + "/s", guests: [], register: { replaceStop($0) },
            registerForRestrictedUsers: { replaceStop($0) })
        #expect(routers.count == 2)
        for router in routers {
            try await host.start(AnsweringProvider.Configuration())
            let client = MessageClient(channel: MemoryMessageChannel(router: router), timeout: .seconds(60))
            _ = try await client.send(TunnelStopMessage(reason: .userInitiated))
            #expect(host.status.status == .disconnected)
        }
        await service.close(within: .seconds(60))
    }

    @Test("A start's error arrives whole")
    func startError() async throws {
        let scene = try ServiceScene()
        let error = TunnelError(
            .serverUnreachable, "no answer", fix: "wait",
            problems: [SettingsProblem(field: "a", value: "b", problem: "c", fix: "d")])
        scene.script.plan.start = .fail(error)
        let channel = scene.channel()
        await #expect(throws: error) { try await channel.start(ServiceScene.request) }
        #expect(channel.status.status == .disconnected)
        await #expect(throws: TunnelError.self) {
            try await channel.start(TunnelStartRequest(configuration: Array("{".utf8)))
        }
        scene.script.plan.start = .succeed
        try await channel.start(ServiceScene.request)
        #expect(await code { try await channel.start(ServiceScene.request) } == .alreadyRunning)
        await scene.host.stop(.userInitiated)
    }

    @Test("A start whose task is cancelled stops the tunnel")
    func cancelledStart() async throws {
        let scene = try ServiceScene()
        scene.script.plan.start = .wait
        let channel = scene.channel()
        let start = Task { try await channel.start(ServiceScene.request) }
        await scene.script.noted("waits")
        start.cancel()
        await #expect(throws: TunnelError.self) { try await start.value }
        _ = await scene.host.statusUpdates().first(.disconnected)
        #expect(scene.host.status.status == .disconnected)
    }

    @Test("Without a service the status is down, and every request fails")
    func noService() async throws {
        let scene = try ServiceScene(serves: false)
        let channel = scene.channel()
        #expect(await channel.refresh().status == .disconnected)
        #expect(await code { try await channel.start(ServiceScene.request) } == .notRunning)
        #expect(await code { _ = try await channel.sendMessage([1]) } == .notRunning)
        try await channel.stop(.userInitiated)
    }

    @Test("A start without a service fails, and the tunnel of a service that appears later is followed")
    func laterService() async throws {
        let scene = try ServiceScene(serves: false)
        let channel = scene.channel()
        #expect(await code { try await channel.start(ServiceScene.request) } == .notRunning)
        #expect(channel.status == TunnelStatusUpdate(.disconnected))
        try await scene.host.start(ServiceScene.request)
        try scene.serve()
        #expect(await channel.refresh().status == .connected)
        #expect(await code { try await channel.start(ServiceScene.request) } == .alreadyRunning)
        try await channel.stop(.userInitiated)
        #expect(scene.host.status.status == .disconnected)
    }

    @Test("The end of a service is seen, and so is the next one")
    func serviceEnds() async throws {
        let scene = try ServiceScene()
        let channel = scene.channel()
        try await channel.start(ServiceScene.request)
        let updates = channel.statusUpdates()
        let lost = Task { await updates.first(.disconnected) }
        scene.crash()
        #expect(await lost.value?.error?.code == .hostFailed)
        let found = Task { [updates = channel.statusUpdates()] in await updates.first(.connected) }
        try scene.serve()
        #expect(await found.value != nil)
        let failure = TunnelError(.connectivityLost, "gone")
        let ended = Task { [updates = channel.statusUpdates()] in await updates.first(.disconnected) }
        scene.script.context?.cancel(failure)
        #expect(await ended.value?.error == failure)
        await scene.close()
        #expect(await channel.refresh().status == .disconnected)
    }

    @Test("A service that closes tells its last status first")
    func lastStatus() async throws {
        let scene = try ServiceScene()
        let channel = scene.channel()
        try await channel.start(ServiceScene.request)
        for await update in channel.statusUpdates() where update.status == .connected { break }
        let ended = Task { [updates = channel.statusUpdates()] in await updates.first(.disconnected) }
        await scene.host.stop(.userInitiated)
        await scene.close()
        #expect(await ended.value == TunnelStatusUpdate(.disconnected))
        #expect(scene.directory.path + "/tunnel.sock" == scene.path)
        // The socket is free immediately.
        try scene.serve()
        await scene.close()
    }

    @Test("A second service at the same socket is refused")
    func second() async throws {
        let scene = try ServiceScene()
        let error = #expect(throws: TunnelError.self) {
            _ = try TunnelService(host: scene.host, path: scene.path)
        }
        #expect(error?.code == .alreadyRunning)
    }

    @Test("A manager's profiles run behind sockets, with their configuration")
    func manager() async throws {
        let scene = try ServiceScene()
        let store = FailingStore()
        let manager = TunnelManager(store: store, secrets: store) { _ in scene.channel() }
        let profile = ManagerScene.profile("Home")
        try await manager.create(profile)
        try await manager.start(profile.id)
        #expect(scene.host.status.status == .connected)
        #expect(await manager.status(profile.id).status == .connected)
        try await manager.remove(profile.id)
        #expect(scene.host.status.status == .disconnected)
        #expect(await manager.profiles.isEmpty)
    }
}
