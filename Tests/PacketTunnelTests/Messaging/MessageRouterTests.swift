// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing

@Suite("Answering messages")
struct MessageRouterTests {
    private func client(_ router: MessageRouter) -> MessageClient {
        MessageClient(channel: MemoryMessageChannel(router: router))
    }

    @Test("A message finds the handler of its name and version")
    func dispatch() async throws {
        let router = MessageRouter()
        try router.register(Echo.self) { Echo.Reply(text: $0.text + "!") }
        try router.register(EchoLouder.self) { EchoLouder.Reply(loud: [$0.text.uppercased()]) }
        #expect(try await client(router).send(Echo(text: "hi")) == Echo.Reply(text: "hi!"))
        #expect(try await client(router).send(EchoLouder(text: "hi")) == EchoLouder.Reply(loud: ["HI"]))
    }

    @Test("Handlers are registered once, replaced and removed in so many words")
    func registration() async throws {
        let router = MessageRouter()
        try router.register(Echo.self) { _ in Echo.Reply(text: "first") }
        #expect(throws: MessageRouter.RegistrationError.alreadyRegistered(name: "test.echo", version: 1)) {
            try router.register(Echo.self) { _ in Echo.Reply(text: "second") }
        }
        #expect(try await client(router).send(Echo(text: "")) == Echo.Reply(text: "first"))
        try router.replace(Echo.self) { _ in Echo.Reply(text: "third") }
        #expect(try await client(router).send(Echo(text: "")) == Echo.Reply(text: "third"))
        try router.register(EchoLouder.self) { _ in EchoLouder.Reply(loud: []) }
        #expect(router.registrations.map(\.version) == [1, 2])
        #expect(router.remove(Echo.self))
        #expect(!router.remove(Echo.self))
        #expect(router.registrations.map(\.version) == [2])
    }

    @Test("A name that is none cannot be registered")
    func invalidName() {
        struct Nameless: TunnelMessage {
            typealias Reply = Int
            static let name = "has space"
        }
        #expect(throws: MessageRouter.RegistrationError.invalidName("has space")) {
            try MessageRouter().register(Nameless.self) { _ in 1 }
        }
    }

    @Test("Without a handler, or with one of another version only, the sender learns so")
    func missingHandlers() async throws {
        let router = MessageRouter()
        #expect(await caught { try await client(router).send(Echo(text: "")) } == .noHandler(name: "test.echo"))
        try router.register(EchoLouder.self) { _ in EchoLouder.Reply(loud: []) }
        #expect(
            await caught { try await client(router).send(Echo(text: "")) }
                == .unsupportedVersion(name: "test.echo", version: 1, supported: [2]))
    }

    @Test("What a handler throws reaches the sender, without keys")
    func throwingHandlers() async throws {
        struct Plain: Error, CustomStringConvertible {
            var description: String { "private_key=abcdef is wrong" }
        }
        struct Coded: HandlerFailureConvertible {
            var handlerFailure: HandlerFailure { HandlerFailure(code: "no-peer", message: "no such peer") }
        }
        let router = MessageRouter()
        try router.register(Echo.self) { message in
            switch message.text {
            case "plain": throw Plain()
            case "coded": throw Coded()
            default: throw HandlerFailure(code: "own", message: message.text)
            }
        }
        let client = client(router)
        #expect(
            await caught { try await client.send(Echo(text: "plain")) }
                == .handlerFailed(HandlerFailure(code: "failed", message: "private_key=[redacted]")))
        #expect(
            await caught { try await client.send(Echo(text: "coded")) }
                == .handlerFailed(HandlerFailure(code: "no-peer", message: "no such peer")))
        #expect(
            await caught { try await client.send(Echo(text: "why")) }
                == .handlerFailed(HandlerFailure(code: "own", message: "why")))
    }

    @Test("A message that its handler's type cannot read is an undecodable message")
    func undecodableMessage() async throws {
        struct Impostor: TunnelMessage {
            typealias Reply = Echo.Reply
            static let name = Echo.name
            var text: Int
        }
        let router = MessageRouter()
        try router.register(Echo.self) { Echo.Reply(text: $0.text) }
        #expect(
            await caught { try await client(router).send(Impostor(text: 1)) }
                == .undecodableMessage("no String at 'text'"))
    }

    @Test("Any bytes get exactly one answer, and one that a sender can read")
    func garbage() async throws {
        let router = MessageRouter()
        try router.register(Echo.self) { Echo.Reply(text: $0.text) }
        var generator = SeededGenerator(seed: 5)
        let request = try MessageContainer(
            kind: .request, name: Echo.name, version: 1, correlation: 7, payload: Array(#"{"text":"x"}"#.utf8)
        ).encoded()
        for round in 0..<2_000 {
            var bytes = round % 2 == 0 ? generator.bytes(generator.int(in: 0...80)) : request
            if !bytes.isEmpty {
                bytes[generator.int(in: 0..<bytes.count)] = UInt8(truncatingIfNeeded: generator.next())
            }
            let answer = try MessageContainer(decoding: await router.respond(to: bytes))
            #expect(answer.kind == .reply || answer.kind == .error)
        }
    }

    @Test("A handler that takes too long is given up, cancelled, and holds its place until it ends")
    func handlerTimeout() async throws {
        let clock = VirtualClock()
        let limits = MessageRouter.Limits(handlerTimeout: .seconds(5), maximumRequests: 1)
        let router = MessageRouter(limits: limits, clock: clock)
        let release = Handoff<Void>()
        let cancelled = Event()
        let ended = Event()
        try router.register(Echo.self) { message in
            guard message.text == "slow" else { return Echo.Reply(text: message.text) }
            await withTaskCancellationHandler {
                await Task.detached { _ = await release.next() }.value
            } onCancel: {
                cancelled.signal()
            }
            ended.signal()
            return Echo.Reply(text: "too late")
        }
        let slow = Task { await caught { try await client(router).send(Echo(text: "slow")) } }
        await clock.waitForSleepers()
        clock.advance(by: .seconds(5))
        #expect(await slow.value == .handlerTimeout)
        #expect(await cancelled.wait(timeout: .seconds(120)))
        #expect(await caught { try await client(router).send(Echo(text: "quick")) } == .busy)
        release.finish()
        #expect(await ended.wait(timeout: .seconds(120)))
        var reply: Echo.Reply?
        while reply == nil {
            do throws(MessageError) {
                reply = try await client(router).send(Echo(text: "quick"))
            } catch {
                #expect(error == .busy)
                await Task.yield()
            }
        }
        #expect(reply?.text == "quick")
    }

    @Test("Replies beyond the limit become an error that fits")
    func largeReply() async throws {
        let router = MessageRouter(limits: MessageRouter.Limits(maximumByteCount: 1_000))
        try router.register(Echo.self) { Echo.Reply(text: String(repeating: $0.text, count: 1_000)) }
        let error = await caught { try await client(router).send(Echo(text: "x")) }
        guard case .tooLarge(.reply, let byteCount, 1_000) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(byteCount > 1_000)
        let tooLarge = await caught { try await client(router).send(Echo(text: String(repeating: "x", count: 2_000))) }
        guard case .tooLarge(.request, _, 1_000) = tooLarge else {
            Issue.record("\(String(describing: tooLarge))")
            return
        }
    }

    @Test("Many senders at once each get their own reply")
    func concurrency() async throws {
        let router = MessageRouter(limits: MessageRouter.Limits(maximumRequests: 1_000))
        try router.register(Echo.self) { message in
            for _ in 0..<message.text.count % 7 { await Task.yield() }
            return Echo.Reply(text: message.text)
        }
        let client = client(router)
        let mismatches = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<500 {
                group.addTask {
                    do { return try await client.send(Echo(text: "\(number)")).text != "\(number)" } catch {
                        return true
                    }
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(mismatches == 0)
    }

    @Test("Handlers may come and go while messages are answered")
    func concurrentRegistration() async throws {
        let router = MessageRouter()
        let client = client(router)
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<50 {
                group.addTask {
                    if number % 2 == 0 {
                        do { try router.replace(Echo.self) { Echo.Reply(text: $0.text) } } catch {
                            Issue.record("\(error)")
                        }
                    } else {
                        router.remove(Echo.self)
                    }
                }
                group.addTask {
                    let error = await caught { try await client.send(Echo(text: "x")) }
                    #expect(error == nil || error == .noHandler(name: Echo.name) || error == .busy)
                }
            }
        }
    }

    @Test("A closed router and a closed channel say so, also to those who wait")
    func closing() async throws {
        let router = MessageRouter()
        let entered = Event()
        try router.register(Echo.self) { _ in
            entered.signal()
            try await ContinuousClock().sleep(for: .seconds(3600))
            return Echo.Reply(text: "")
        }
        let channel = MemoryMessageChannel(router: router)
        let client = MessageClient(channel: channel)
        let waiting = Task { await caught { try await client.send(Echo(text: "")) } }
        #expect(await entered.wait(timeout: .seconds(120)))
        channel.close()
        #expect(await waiting.value == .closed)
        #expect(await caught { try await client.send(Echo(text: "")) } == .closed)

        router.close()
        #expect(await caught { try await self.client(router).send(Echo(text: "")) } == .closed)
    }

    @Test("A sender that gives up cancels the handler")
    func senderGivesUp() async throws {
        let router = MessageRouter()
        let (entered, cancelled) = (Event(), Event())
        try router.register(Echo.self) { _ in
            entered.signal()
            do { try await ContinuousClock().sleep(for: .seconds(3600)) } catch { cancelled.signal() }
            return Echo.Reply(text: "")
        }
        let client = client(router)
        let send = Task { await caught { try await client.send(Echo(text: "")) } }
        #expect(await entered.wait(timeout: .seconds(120)))
        send.cancel()
        #expect(await send.value == .cancelled)
        #expect(await cancelled.wait(timeout: .seconds(120)))
    }
}
