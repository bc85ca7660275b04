// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import HostConformance
import PacketTunnelTesting
import Testing

@testable import PacketTunnel

/// A provider that gives texts back.
actor AnsweringProvider: PacketTunnelProvider {
    struct Configuration: Codable, Sendable {}
    nonisolated let router = MessageRouter()

    init() { router.on(Echo.self) { Echo.Reply(text: $0.text) } }

    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        try await context.apply(.sample)
    }

    func stop(_ reason: StopReason) async {}
}

@Suite("Messages by a manager", .timeLimit(.minutes(1)))
struct ManagerMessagesTests {
    private static func profile() throws -> TunnelProfile {
        try TunnelProfile(name: "Home", provider: "answers", encoding: AnsweringProvider.Configuration())
    }

    @Test("A message reaches the provider of a profile's tunnel, by a call or a client, and its reply returns")
    func replies() async throws {
        let manager = TunnelManager(MemoryHost<AnsweringProvider>())
        let profile = try Self.profile()
        try await manager.create(profile)
        try await manager.start(profile.id)
        #expect(try await manager.send(Echo(text: "a"), to: profile.id).text == "a")
        let client = manager.client(for: profile.id, timeout: .seconds(60))
        #expect(try await client.send(Echo(text: "b")).text == "b")
        await #expect(throws: MessageError.noHandler(name: "test.count")) {
            try await client.send(CountToOnce())
        }
    }

    private struct CountToOnce: TunnelMessage {
        struct Reply: Codable, Sendable {}
        static let name = "test.count"
    }

    /// Reports its secret, or the reason that it has none; answers no messages.
    private final class SecretiveProvider: PacketTunnelProvider, Sendable {
        struct Configuration: Codable, Sendable {}

        func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
            let secret = try await context.secret("key")
            guard secret.bytes == [1, 2, 3] else { throw TunnelError(.providerFailed, "another secret") }
            try await context.apply(.sample)
        }

        func stop(_ reason: StopReason) async {}
    }

    @Test("A manager of one host stores secrets where the host reads them, and a host without a store returns an error")
    func secrets() async throws {
        let profile = try TunnelProfile(
            name: "Home", provider: "secretive", encoding: SecretiveProvider.Configuration())
        let manager = TunnelManager(MemoryHost<SecretiveProvider>())
        try await manager.create(profile, secrets: ["key": SecretBytes([1, 2, 3])])
        try await manager.start(profile.id)
        #expect(await manager.status(profile.id).status == .connected)

        let other = TunnelManager(MemoryHost<SecretiveProvider>(secrets: nil))
        try await other.create(profile, secrets: ["key": SecretBytes([1, 2, 3])])
        let error = await #expect(throws: TunnelError.self) { try await other.start(profile.id) }
        #expect(error?.code == .secretUnavailable && error?.fix.contains("secrets:") == true)
    }

    @Test("A provider that answers no messages is named as the cause")
    func noHandler() async throws {
        let profile = try TunnelProfile(
            name: "Home", provider: "secretive", encoding: SecretiveProvider.Configuration())
        let manager = TunnelManager(MemoryHost<SecretiveProvider>())
        try await manager.create(profile, secrets: ["key": SecretBytes([1, 2, 3])])
        try await manager.start(profile.id)
        let error = await #expect(throws: MessageError.noReply) {
            try await manager.send(Echo(text: "a"), to: profile.id)
        }
        #expect(error.map { "\($0)" }?.contains("handleAppMessage(_:)") == true)
    }

    @Test("To a tunnel that is not up, every way says that it is closed")
    func closed() async throws {
        let host = MemoryHost<AnsweringProvider>()
        let manager = TunnelManager(host)
        let profile = try Self.profile()
        try await manager.create(profile)
        let ways: [any MessageChannel] = [
            host, ScriptedChannel { try await manager.sendMessage($0, to: profile.id) },
        ]
        for way in ways {
            #expect(await caught { try await MessageClient(channel: way).send(Echo(text: "a")) } == .closed)
        }
        #expect(await caught { try await manager.send(Echo(text: "a"), to: profile.id) } == .closed)
        #expect(await caught { try await manager.client(for: profile.id).send(Echo(text: "a")) } == .closed)
        try await manager.start(profile.id)
        for way in ways { #expect(try await MessageClient(channel: way).send(Echo(text: "a")).text == "a") }
        try await manager.stop(profile.id)
        #expect(await caught { try await manager.client(for: profile.id).send(Echo(text: "a")) } == .closed)
    }

    @Test("A missing profile, and a missing permission, have distinct errors")
    func others() async throws {
        let manager = TunnelManager(MemoryHost<AnsweringProvider>())
        let missing = await caught { try await manager.send(Echo(text: "a"), to: "none") }
        guard case .channelFailed(let reason) = missing else {
            Issue.record("\(String(describing: missing))")
            return
        }
        #expect(reason.contains("none"))
        let denied = TunnelError(.permissionDenied, "not yours")
        let channel = ScriptedChannel { _ in throw denied }
        #expect(
            await caught { try await MessageClient(channel: channel).send(Echo(text: "a")) }
                == .notPermitted("not yours"))
    }

    @Test("A router answers a message with the last handler that it was given")
    func answers() async throws {
        let router = MessageRouter()
        router.on(Echo.self) { _ in Echo.Reply(text: "first") }
        router.on(Echo.self) { _ in Echo.Reply(text: "second") }
        let client = MessageClient(channel: MemoryMessageChannel(router: router))
        #expect(try await client.send(Echo(text: "")).text == "second")
        // An invalid name is not an error until it is sent.
        router.on(Nameless.self) { _ in Nameless.Reply() }
        #expect(router.registrations.count == 1)
        guard case .unencodableMessage = await caught({ try await client.send(Nameless()) }) else {
            Issue.record("a message without a name was sent")
            return
        }
    }

    private struct Nameless: TunnelMessage {
        struct Reply: Codable, Sendable {}
        static let name = "not valid"
    }

    @Test("A refused request is answered in its own terms, and other bytes are not")
    func refusals() async throws {
        let refusing = ScriptedChannel { MessageRouter.refusal(TunnelError(.notRunning, "down"), of: $0) }
        #expect(await caught { try await MessageClient(channel: refusing).send(Echo(text: "a")) } == .closed)
        #expect(MessageRouter.refusal(TunnelError(.notRunning, "down"), of: [7]) == nil)
    }

    @Test("A configuration that does not encode makes no profile")
    func encoding() throws {
        let profile = try TunnelProfile(name: "Home", provider: "a", serverAddress: "s", encoding: ["key": "value"])
        #expect(profile.configuration == .object(["key": .string("value")]))
        #expect(profile.serverAddress == "s" && profile.isEnabled)
        let error = #expect(throws: TunnelError.self) {
            try TunnelProfile(name: "Home", provider: "a", encoding: [Double.nan])
        }
        #expect(error?.code == .configurationInvalid)
    }
}

@Suite("Monitoring a manager's tunnel", .timeLimit(.minutes(1)))
struct ManagerMonitorTests {
    /// The part of an event that a test compares.
    enum Seen: Equatable {
        case status(TunnelStatus)
        case reply(String)
        case failure(MessageError?)

        init(_ event: TunnelMonitorEvent<TunnelStatusUpdate, Echo.Reply>) {
            switch event {
            case .status(let update): self = .status(update.status)
            case .reply(let reply): self = .reply(reply.text)
            case .failure(let error): self = .failure(error as? MessageError)
            }
        }
    }

    @Test("A monitor polls while the tunnel is up, after another start too, and ends when the profile is removed")
    func wholeLife() async throws {
        let manager = TunnelManager(MemoryHost<AnsweringProvider>())
        let profile = try TunnelProfile(name: "Home", provider: "a", encoding: AnsweringProvider.Configuration())
        try await manager.create(profile)
        let clock = VirtualClock()
        let monitor = TunnelMonitor(
            manager, profile.id, every: .seconds(1), clock: clock, asking: Echo(text: "how are you"))
        var events = monitor.makeAsyncIterator()
        func next() async -> Seen? { await events.next().map(Seen.init) }
        #expect(await next() == .status(.disconnected))
        for _ in 0..<2 {
            try await manager.start(profile.id)
            var seen: [Seen?] = []
            repeat { seen.append(await next()) } while seen.last != .reply("how are you")
            #expect(seen.contains(.status(.connected)))
            await clock.waitForSleepers()
            clock.advance(by: .seconds(1))
            #expect(await next() == .reply("how are you"))
            try await manager.stop(profile.id)
            repeat { seen.append(await next()) } while seen.last != .status(.disconnected)
        }
        try await manager.remove(profile.id)
        #expect(await next() == .status(.invalid))
        #expect(await next() == nil)
        // Another iteration starts from the beginning: there is no such profile.
        var statuses: [Seen] = []
        for await event in monitor { statuses.append(Seen(event)) }
        #expect(statuses == [.status(.invalid)])
    }

    @Test("A monitor polls in the statuses of a tunnel that is up, and in no others")
    func phases() {
        let polled = TunnelStatus.allCases.filter { MonitoringPhase(TunnelStatusUpdate($0)) == .polling }
        #expect(polled == [.connected, .reasserting])
        let ended = TunnelStatus.allCases.filter { MonitoringPhase(TunnelStatusUpdate($0)) == .ended }
        #expect(ended == [.invalid])
    }
}

@Suite("Messages of any type", .timeLimit(.minutes(1)))
struct CodableMessageTests {
    private struct Question: Codable, Sendable { var number: Int }
    private enum Outer {
        struct Request: TunnelMessage {
            struct Reply: Codable, Sendable { var text: String }
            var text: String
        }
        struct Generic<Value: Codable & Sendable>: TunnelMessage {
            typealias Reply = Value
            var value: Value
        }
    }

    @Test("The default name of a message has the names of its type and the enclosing types, and no module")
    func names() async throws {
        #expect(Outer.Request.name == "CodableMessageTests.Outer.Request")
        #expect(MessageContainer.defaultName(of: AnsweringProvider.self) == "AnsweringProvider")
        #expect(Outer.Generic<[Int]>.name == "CodableMessageTests.Outer.Generic_Array_Int__")
        #expect(MessageContainer.defaultName(of: [Question].self) == "Array_CodableMessageTests.Question_")
        #expect(MessageContainer.isValidName(Outer.Generic<[Int]>.name))
        #expect(CountToTen.name == "CodableMessageTests.CountToTen")
        let router = MessageRouter()
        router.on(Outer.Request.self) { Outer.Request.Reply(text: $0.text) }
        #expect(router.registrations.map(\.name) == ["CodableMessageTests.Outer.Request"])
        let client = MessageClient(channel: MemoryMessageChannel(router: router))
        #expect(try await client.send(Outer.Request(text: "a")).text == "a")
    }

    private struct CountToTen: TunnelSubscription { typealias Element = Int }

    @Test("A value of any type is sent and answered, and `nil` removes its handler")
    func values() async throws {
        let router = MessageRouter()
        let client = MessageClient(channel: MemoryMessageChannel(router: router))
        router.on(Question.self, replying: [String].self) { ["\($0.number)"] }
        #expect(try await client.send(Question(number: 7), expecting: [String].self) == ["7"])
        // The reply is not of the type that the sender expects.
        guard case .undecodableReply = await caught({ try await client.send(Question(number: 7), expecting: Int.self) })
        else {
            Issue.record("another type of reply was accepted")
            return
        }
        router.on(Question.self, replying: [String].self, nil)
        #expect(
            await caught { try await client.send(Question(number: 7), expecting: [String].self) }
                == .noHandler(name: "CodableMessageTests.Question"))
        // A message with its own name keeps the name.
        router.on(Echo.self) { Echo.Reply(text: $0.text) }
        #expect(try await client.send(Echo(text: "a"), expecting: Echo.Reply.self).text == "a")
    }

    @Test("A provider in a memory host answers handlers that the app adds, until it is stopped")
    func answers() async throws {
        let host = MemoryHost {
            AnsweringProvider().answer(Question.self, replying: Int.self) { $0.number + 1 }
                .answer(Outer.Request.self) { Outer.Request.Reply(text: "\($0.text)!") }
        }
        let manager = TunnelManager(host)
        let profile = try TunnelProfile(name: "Home", provider: "a", encoding: AnsweringProvider.Configuration())
        try await manager.create(profile)
        try await manager.start(profile.id)
        #expect(try await manager.send(Question(number: 1), expecting: Int.self, to: profile.id) == 2)
        #expect(try await manager.send(Outer.Request(text: "a"), to: profile.id).text == "a!")
        #expect(try await manager.send(Echo(text: "b"), to: profile.id).text == "b")
        try await manager.stop(profile.id)
        #expect(
            await caught { try await manager.send(Question(number: 1), expecting: Int.self, to: profile.id) } == .closed
        )
    }
}
