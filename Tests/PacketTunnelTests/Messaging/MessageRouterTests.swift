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
        router.on(Echo.self) { Echo.Reply(text: $0.text + "!") }
        router.on(EchoLouder.self) { EchoLouder.Reply(loud: [$0.text.uppercased()]) }
        #expect(try await client(router).send(Echo(text: "hi")) == Echo.Reply(text: "hi!"))
        #expect(try await client(router).send(EchoLouder(text: "hi")) == EchoLouder.Reply(loud: ["HI"]))
    }

    @Test("A later handler of a name and version replaces the earlier one, and nil removes it")
    func registration() async throws {
        let router = MessageRouter()
        router.on(Echo.self) { _ in Echo.Reply(text: "first") }
        #expect(try await client(router).send(Echo(text: "")) == Echo.Reply(text: "first"))
        router.on(Echo.self) { _ in Echo.Reply(text: "second") }
        #expect(try await client(router).send(Echo(text: "")) == Echo.Reply(text: "second"))
        router.on(EchoLouder.self) { _ in EchoLouder.Reply(loud: []) }
        #expect(router.registrations.map(\.version) == [1, 2])
        for _ in 0..<2 {
            router.on(Echo.self, nil)
            #expect(router.registrations.map(\.version) == [2])
        }
    }

    @Test("A message with an invalid name gets no handler")
    func invalidName() async {
        struct Nameless: TunnelMessage {
            typealias Reply = Int
            static let name = "has space"
        }
        let router = MessageRouter()
        router.on(Nameless.self) { _ in 1 }
        #expect(router.registrations.isEmpty)
        guard case .unencodableMessage = await caught({ try await client(router).send(Nameless()) }) else {
            Issue.record("a message with an invalid name was sent")
            return
        }
    }

    @Test("Messages without a handler, and bytes that are not a message, pass unchanged to the other handler")
    func otherwise() async throws {
        let (router, inner) = (MessageRouter(), MessageRouter())
        inner.on(Echo.self) { Echo.Reply(text: $0.text + " from inside") }
        let passed = Eavesdropper<[UInt8]>()
        router.on(CountTo.self) { _, sink in try await sink.send(1) }
        router.otherwise { bytes in
            passed.observe(bytes)
            if bytes == [1, 2, 3] { return [4] }
            if bytes.isEmpty { return nil }
            guard bytes != [9] else { throw TunnelError(.notRunning, "down") }
            return await inner.respond(to: bytes)
        }
        #expect(try await client(router).send(Echo(text: "hi")).text == "hi from inside")
        #expect(passed.count == 1)
        #expect(await router.respond(to: [1, 2, 3]) == [4])
        func error(_ bytes: [UInt8]) async -> MessageError? {
            let channel = ScriptedChannel { _ in await router.respond(to: bytes) }
            return await caught { try await MessageClient(channel: channel).send(Echo(text: "")) }
        }
        #expect(await error([]) == .noReply)
        #expect(await error([9]) == .closed)
        // A message with a handler stays.
        for try await number in try await client(router).subscribe(to: CountTo(last: 1)) { #expect(number == 1) }
        #expect(passed.count == 4)
        // A version that the name's handlers do not answer is not passed.
        router.on(EchoLouder.self) { _ in EchoLouder.Reply(loud: []) }
        #expect(
            await caught { try await client(router).send(Echo(text: "")) }
                == .unsupportedVersion(name: "test.echo", version: 1, supported: [2]))
        router.close()
        #expect(await caught { try await client(router).send(Echo(text: "")) } == .closed)
        #expect(passed.count == 4)
    }

    @Test("A tunnel's error of the handler of other messages keeps its code, and its text has no secrets")
    func otherwiseErrors() async throws {
        let router = MessageRouter()
        router.otherwise { _ in throw TunnelError(.providerFailed, "the server refused token=abcdef") }
        let error = await caught { try await client(router).send(Echo(text: "")) }
        guard case .handlerFailed(let failure) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(failure.code == "providerFailed")
        #expect(failure.message.hasPrefix("the server refused") && !failure.message.contains("abcdef"))
        for code in [TunnelError.Code.notRunning, .closed] {
            router.otherwise { _ in throw TunnelError(code, "down") }
            #expect(await caught { try await client(router).send(Echo(text: "")) } == .closed)
        }
        router.otherwise { _ in throw TunnelError(.permissionDenied, "no") }
        guard case .notPermitted = await caught({ try await client(router).send(Echo(text: "")) }) else {
            Issue.record("permission was not denied")
            return
        }
    }

    @Test("A handler of other messages keeps the limits of a handler")
    func otherwiseLimits() async throws {
        let limits = MessageRouter.Limits(maximumByteCount: 1_000, maximumRequests: 0)
        let full = MessageRouter(limits: limits)
        full.otherwise { $0 }
        #expect(await caught { try await client(full).send(Echo(text: "")) } == .busy)
        let router = MessageRouter(limits: MessageRouter.Limits(maximumByteCount: 1_000))
        router.otherwise { _ in [UInt8](repeating: 0, count: 2_000) }
        #expect(
            await caught { try await client(router).send(Echo(text: "")) }
                == .tooLarge(.reply, byteCount: 2_000, limit: 1_000))
        let long = await caught { try await client(router).send(Echo(text: String(repeating: "x", count: 2_000))) }
        guard case .tooLarge(.request, _, 1_000) = long else {
            Issue.record("\(String(describing: long))")
            return
        }
    }

    @Test("Without a handler, or with one of another version only, the sender learns so")
    func missingHandlers() async throws {
        let router = MessageRouter()
        #expect(await caught { try await client(router).send(Echo(text: "")) } == .noHandler(name: "test.echo"))
        router.on(EchoLouder.self) { _ in EchoLouder.Reply(loud: []) }
        #expect(
            await caught { try await client(router).send(Echo(text: "")) }
                == .unsupportedVersion(name: "test.echo", version: 1, supported: [2]))
    }

    @Test("A handler's error reaches the sender, without keys")
    func throwingHandlers() async throws {
        struct Plain: Error, CustomStringConvertible {
            var description: String { "private_key=abcdef is wrong" }
        }
        struct Coded: HandlerFailureConvertible {
            var handlerFailure: HandlerFailure { HandlerFailure(code: "no-peer", message: "no such peer") }
        }
        let router = MessageRouter()
        router.on(Echo.self) { message in
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
        router.on(Echo.self) { Echo.Reply(text: $0.text) }
        #expect(
            await caught { try await client(router).send(Impostor(text: 1)) }
                == .undecodableMessage("no String at 'text'"))
    }

    @Test("Any bytes get exactly one answer, and one that a sender can read")
    func garbage() async throws {
        let router = MessageRouter()
        router.on(Echo.self) { Echo.Reply(text: $0.text) }
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

    @Test("A handler that exceeds its time is cancelled, and occupies its place until it ends")
    func handlerTimeout() async throws {
        let clock = VirtualClock()
        let limits = MessageRouter.Limits(handlerTimeout: .seconds(5), maximumRequests: 1)
        let router = MessageRouter(limits: limits, clock: clock)
        let release = Handoff<Void>()
        let cancelled = Event()
        let ended = Event()
        router.on(Echo.self) { message in
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
        router.on(Echo.self) { Echo.Reply(text: String(repeating: $0.text, count: 1_000)) }
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

    @Test("Many concurrent senders each get their own reply")
    func concurrency() async throws {
        let router = MessageRouter(limits: MessageRouter.Limits(maximumRequests: 1_000))
        router.on(Echo.self) { message in
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
                        router.on(Echo.self) { Echo.Reply(text: $0.text) }
                    } else {
                        router.on(Echo.self, nil)
                    }
                }
                group.addTask {
                    let error = await caught { try await client.send(Echo(text: "x")) }
                    #expect(error == nil || error == .noHandler(name: Echo.name) || error == .busy)
                }
            }
        }
    }

    @Test("A closed router and a closed channel report it, to waiting senders too")
    func closing() async throws {
        let router = MessageRouter()
        let entered = Event()
        router.on(Echo.self) { _ in
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
        router.on(Echo.self) { _ in
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
