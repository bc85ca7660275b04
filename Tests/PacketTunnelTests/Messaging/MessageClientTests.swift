// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import PacketTunnelTesting
import Testing

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

@Suite("Sending messages")
struct MessageClientTests {
    @Test("A reply arrives as its type")
    func reply() async throws {
        let channel = ScriptedChannel { try ScriptedChannel.reply(to: $0, payload: #"{"text":"hello"}"#) }
        #expect(try await MessageClient(channel: channel).send(Echo(text: "hi")) == Echo.Reply(text: "hello"))
    }

    @Test("A request contains its kind, name and version")
    func request() async throws {
        let seen = Eavesdropper<[UInt8]>()
        let client = MessageClient(
            channel: ScriptedChannel {
                seen.observe($0)
                return nil
            })
        for _ in 0..<2 { _ = await caught { try await client.send(EchoLouder(text: "hi")) } }
        let containers = try seen.messages.map { try MessageContainer(decoding: $0) }
        #expect(containers.allSatisfy { $0.kind == .request && $0.name == "test.echo" && $0.version == 2 })
        #expect(containers.first?.payload == Array(#"{"text":"hi"}"#.utf8))
        #expect(Set(containers.map(\.correlation)).count == 2)
    }

    @Test("Without a reply in time the sender gets an error, and the late reply is ignored")
    func timeout() async throws {
        let clock = VirtualClock()
        let release = Handoff<Void>()
        let late = Event()
        let channel = ScriptedChannel { request in
            let reply = try ScriptedChannel.reply(to: request, payload: #"{"text":"late"}"#)
            // Deaf to cancellation, as an extension is.
            await Task.detached { _ = await release.next() }.value
            late.signal()
            return reply
        }
        let client = MessageClient(channel: channel, timeout: .seconds(3), clock: clock)
        let first = Task { await caught { try await client.send(Echo(text: "a")) } }
        await clock.waitForSleepers()
        clock.advance(by: .seconds(3))
        #expect(await first.value == .timeout)
        #expect(await release.send(()))
        #expect(await late.wait(timeout: .seconds(120)))

        _ = await release.send(())
        #expect(try await client.send(Echo(text: "b")) == Echo.Reply(text: "late"))
    }

    @Test("One call may have its own timeout")
    func ownTimeout() async {
        let clock = VirtualClock()
        let channel = ScriptedChannel { _ in
            try await clock.sleep(for: .seconds(3600))
            return nil
        }
        let client = MessageClient(channel: channel, timeout: .seconds(600), clock: clock)
        let send = Task { await caught { try await client.send(Echo(text: "a"), timeout: .seconds(1)) } }
        await clock.waitForSleepers(2)
        clock.advance(by: .seconds(1))
        #expect(await send.value == .timeout)
    }

    @Test("A cancelled sender continues immediately, before or after it began")
    func cancellation() async {
        let clock = VirtualClock()
        let release = Handoff<Void>()
        let channel = ScriptedChannel { _ in
            await Task.detached { _ = await release.next() }.value
            return nil
        }
        let client = MessageClient(channel: channel, clock: clock)
        let send = Task { await caught { try await client.send(Echo(text: "a")) } }
        await clock.waitForSleepers()
        send.cancel()
        #expect(await send.value == .cancelled)
        release.finish()

        let early = Task {
            unsafe withUnsafeCurrentTask { task in unsafe task?.cancel() }
            return await caught { try await client.send(Echo(text: "a")) }
        }
        #expect(await early.value == .cancelled)
    }

    @Test("An empty, a closed and a failing channel have distinct errors")
    func channelFailures() async {
        struct Broken: Error, CustomStringConvertible { var description: String { "the wire is cut" } }
        func outcome(_ answer: @escaping @Sendable ([UInt8]) async throws -> [UInt8]?) async -> MessageError? {
            await caught { try await MessageClient(channel: ScriptedChannel(answer: answer)).send(Echo(text: "")) }
        }
        #expect(await outcome { _ in nil } == .noReply)
        #expect(await outcome { _ in throw MessageError.closed } == .closed)
        #expect(await outcome { _ in throw MessageError.notPermitted("no") } == .notPermitted("no"))
        #expect(await outcome { _ in throw Broken() } == .channelFailed("the wire is cut"))
        #expect(await outcome { _ in throw CancellationError() } == .cancelled)
    }

    @Test("An invalid reply is an undecodable reply")
    func undecodableReplies() async {
        func outcome(_ answer: @escaping @Sendable ([UInt8]) throws -> [UInt8]) async -> MessageError? {
            await caught { try await MessageClient(channel: ScriptedChannel { try answer($0) }).send(Echo(text: "")) }
        }
        let good = #"{"text":"x"}"#
        #expect(await outcome { _ in [] } == .undecodableReply("0 bytes are too few for a message"))
        #expect(
            await outcome { try ScriptedChannel.reply(to: $0, payload: #"{"txt":1}"#) }
                == .undecodableReply("no 'text' at the top level"))
        #expect(
            await outcome { try ScriptedChannel.reply(to: $0, payload: #"{"text":1}"#) }
                == .undecodableReply("no String at 'text'"))
        #expect(
            await outcome { try ScriptedChannel.reply(to: $0, payload: "{") }
                == .undecodableReply("not valid at the top level"))
        let wrong: [@Sendable (inout MessageContainer) -> Void] = [
            { $0.correlation += 1 }, { $0.name = "test.other" }, { $0.kind = .request }, { $0.version = 9 },
            { $0.kind = .error },
        ]
        for change in wrong {
            let error = await outcome { try ScriptedChannel.reply(to: $0, payload: good, change: change) }
            guard case .undecodableReply = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
        }
    }

    @Test("Every truncated or damaged reply ends in a typed error or in the reply")
    func damagedReplies() async throws {
        var generator = SeededGenerator(seed: 77)
        for _ in 0..<300 {
            let (position, value, isCut) = (generator.next(), generator.next(), generator.chance(0.3))
            let channel = ScriptedChannel { request in
                var reply = try ScriptedChannel.reply(to: request, payload: #"{"text":"x"}"#)
                let index = Int(position % UInt64(reply.count))
                if isCut { return Array(reply.prefix(index)) }
                reply[index] = UInt8(truncatingIfNeeded: value)
                return reply
            }
            do {
                #expect(try await MessageClient(channel: channel).send(Echo(text: "")).text.utf8.count <= 4)
            } catch {
                guard case .undecodableReply = error else {
                    Issue.record("\(error)")
                    continue
                }
            }
        }
    }

    @Test("Requests and replies beyond the limit are refused, with the figures")
    func limits() async throws {
        let channel = ScriptedChannel {
            try ScriptedChannel.reply(to: $0, payload: #"{"text":"\#(String(repeating: "x", count: 300))"}"#)
        }
        let client = MessageClient(channel: channel, maximumByteCount: 200)
        let header = MessageContainer.headerByteCount + "test.echo".utf8.count + #"{"text":""}"#.utf8.count
        #expect(
            await caught { try await client.send(Echo(text: String(repeating: "x", count: 200))) }
                == .tooLarge(.request, byteCount: header + 200, limit: 200))
        #expect(
            await caught { try await client.send(Echo(text: "")) }
                == .tooLarge(.reply, byteCount: header + 300, limit: 200))
    }

    @Test("A message that has no JSON is the sender's error")
    func unencodable() async {
        struct Figure: TunnelMessage {
            typealias Reply = Int
            static let name = "test.figure"
            var value: Double
        }
        let client = MessageClient(channel: ScriptedChannel { _ in nil })
        #expect(
            await caught { try await client.send(Figure(value: .infinity)) }
                == .unencodableMessage("'test.figure' does not encode as JSON"))
    }

    @Test(
        "Errors travel as the JSON of commit 5dd603b",
        arguments: [
            (.handlerTimeout, #"{"code":"handler-timeout"}"#, .handlerTimeout),
            (.busy, #"{"code":"busy"}"#, .busy),
            (.cancelled, #"{"code":"cancelled"}"#, .closed),
            (.closed, #"{"code":"closed"}"#, .closed),
            (.noHandler(name: "a"), #"{"code":"no-handler","name":"a"}"#, .noHandler(name: "a")),
            (
                .unsupportedVersion(name: "a", version: 3, supported: [1, 2]),
                #"{"code":"unsupported-version","name":"a","supported":[1,2],"version":3}"#,
                .unsupportedVersion(name: "a", version: 3, supported: [1, 2])
            ),
            (
                .handlerFailed(HandlerFailure(code: "c", message: "m")),
                #"{"code":"handler-failed","message":"m","name":"c"}"#,
                .handlerFailed(HandlerFailure(code: "c", message: "m"))
            ),
            (
                .undecodableMessage("r"), #"{"code":"undecodable-message","message":"r"}"#, .undecodableMessage("r")
            ),
            (
                .tooLarge(.request, byteCount: 2, limit: 1),
                #"{"byteCount":2,"code":"too-large-request","limit":1}"#,
                .tooLarge(.request, byteCount: 2, limit: 1)
            ),
            (
                .tooLarge(.reply, byteCount: 2, limit: 1), #"{"byteCount":2,"code":"too-large-reply","limit":1}"#,
                .tooLarge(.reply, byteCount: 2, limit: 1)
            ),
            (.notPermitted("r"), #"{"code":"not-permitted","message":"r"}"#, .notPermitted("r")),
            (
                .channelFailed("f"), #"{"code":"failed","message":"f"}"#,
                .handlerFailed(HandlerFailure(code: "failed", message: "f"))
            ),
        ] as [(MessageError, String, MessageError)])
    func wire(error: MessageError, json: String, received: MessageError) async throws {
        let channel = ScriptedChannel {
            try ScriptedChannel.reply(to: $0, payload: json) { $0.kind = .error }
        }
        #expect(await caught { try await MessageClient(channel: channel).send(Echo(text: "")) } == received)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        #expect(String(decoding: try encoder.encode(error), as: UTF8.self) == json)
    }

    @Test("An error with an unknown code is a handler's failure with that code")
    func unknownCode() throws {
        let error = try JSONDecoder().decode(MessageError.self, from: Data(#"{"code":"later"}"#.utf8))
        #expect(error == .handlerFailed(HandlerFailure(code: "later", message: "later")))
    }

    @Test("Each error has its own text")
    func descriptions() {
        let errors: [MessageError] = [
            .timeout, .handlerTimeout, .cancelled, .closed, .noReply, .busy, .noHandler(name: "a"),
            .unsupportedVersion(name: "a", version: 3, supported: [1, 2]), .handlerFailed(HandlerFailure(message: "m")),
            .undecodableMessage("r"), .undecodableReply("r"), .unencodableMessage("r"),
            .tooLarge(.reply, byteCount: 2, limit: 1), .notPermitted("r"), .subscriptionsUnsupported,
            .channelFailed("f"),
        ]
        #expect(Set(errors.map(\.description)).count == errors.count)
    }
}
