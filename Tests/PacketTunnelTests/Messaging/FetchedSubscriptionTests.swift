// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@testable import PacketTunnel

@Suite("Subscriptions over channels that carry one answer to each request", .timeLimit(.minutes(5)))
struct FetchedSubscriptionTests {
    private static func counting(
        _ clock: any Clock<Duration> = ContinuousClock()
    ) -> (router: MessageRouter, sent: Eavesdropper<Int>, ended: Event) {
        let (router, sent, ended) = (MessageRouter(clock: clock), Eavesdropper<Int>(), Event())
        router.on(CountTo.self) { subscription, sink in
            defer { ended.signal() }
            for number in 0..<subscription.last {
                try await sink.send(number + 1)
                sent.observe(number + 1)
            }
        }
        return (router, sent, ended)
    }

    /// A router whose handler sends nothing until it is cancelled.
    private static func silent(_ clock: any Clock<Duration>) -> (router: MessageRouter, stopped: Event) {
        let (router, stopped) = (MessageRouter(clock: clock), Event())
        router.on(CountTo.self) { _, _ in
            do { try await ContinuousClock().sleep(for: .seconds(3600)) } catch { stopped.signal() }
        }
        return (router, stopped)
    }

    /// A client whose channel is like the system's: one answer for each message.
    private static func client(of router: MessageRouter) -> MessageClient {
        MessageClient(channel: ScriptedChannel { await router.respond(to: $0) })
    }

    private static func request(
        _ kind: MessageContainer.Kind, _ payload: [UInt8] = [], correlation: UInt64 = 7
    ) throws -> [UInt8] {
        try MessageContainer(
            kind: kind, name: CountTo.name, version: 1, correlation: correlation, payload: payload
        ).encoded()
    }

    @Test("Elements come in order, each once, and then the end")
    func order() async throws {
        let client = Self.client(of: Self.counting().router)
        var received: [Int] = []
        for try await number in try await client.subscribe(to: CountTo(last: 100)) { received.append(number) }
        #expect(received == Array(1...100))
    }

    @Test("The sender waits while no one fetches")
    func backPressure() async throws {
        let (router, sent, ended) = Self.counting()
        let stream = try await Self.client(of: router).subscribe(to: CountTo(last: .max))
        var iterator = stream.makeAsyncIterator()
        for expected in 1...50 {
            #expect(try await iterator.next() == expected)
            #expect(sent.count <= expected + 2)
        }
        stream.cancel()
        #expect(await ended.wait(timeout: .seconds(120)))
    }

    @Test("Letting go of the sequence, or cancelling who iterates it, stops the sender")
    func cancellation() async throws {
        let (router, _, ended) = Self.counting()
        for try await _ in try await Self.client(of: router).subscribe(to: CountTo(last: .max)) { break }
        #expect(await ended.wait(timeout: .seconds(120)))

        let clock = VirtualClock()
        let (silent, stopped) = Self.silent(clock)
        let task = Task {
            var count = 0
            for try await _ in try await Self.client(of: silent).subscribe(to: CountTo(last: 1)) { count += 1 }
            return count
        }
        // The request for the first element is held.
        await clock.waitForSleepers()
        task.cancel()
        #expect(try await task.value == 0)
        #expect(await stopped.wait(timeout: .seconds(120)))
    }

    @Test("A refusal is thrown by the sequence, as over other channels")
    func refusals() async throws {
        func outcome(_ router: MessageRouter) async -> MessageError? {
            await caught {
                for try await _ in try await Self.client(of: router).subscribe(to: CountTo(last: 3)) {}
            }
        }
        #expect(await outcome(MessageRouter()) == .noHandler(name: "test.count"))
        let full = MessageRouter(limits: MessageRouter.Limits(maximumSubscriptions: 0))
        full.on(CountTo.self) { _, _ in }
        #expect(await outcome(full) == .busy)
        let failing = MessageRouter()
        failing.on(CountTo.self) { _, _ in throw HandlerFailure(code: "over", message: "enough") }
        #expect(await outcome(failing) == .handlerFailed(HandlerFailure(code: "over", message: "enough")))
        let closed = Self.counting().router
        closed.close()
        #expect(await outcome(closed) == .closed)
    }

    @Test("A router that closes, and a tunnel that ends, end a subscription with an error")
    func closing() async throws {
        let clock = VirtualClock()
        let (router, stopped) = Self.silent(clock)
        let task = Task {
            await caught {
                for try await _ in try await Self.client(of: router).subscribe(to: CountTo(last: 1)) {}
            }
        }
        await clock.waitForSleepers()
        router.close()
        #expect(await task.value == .closed)
        #expect(await stopped.wait(timeout: .seconds(120)))
    }

    @Test("A request is held until there is an element, and answered without one after ten seconds")
    func held() async throws {
        let clock = VirtualClock()
        let (router, stopped) = Self.silent(clock)
        _ = await router.respond(to: try Self.request(.subscribe, Array(#"{"last":1}"#.utf8)))
        let asking = Task { await router.respond(to: try Self.request(.take, MessageRouter.take(1))) }
        while await !isAnswered(asking) { clock.advance(by: .milliseconds(200)) }
        let answer = try MessageContainer(decoding: await asking.value)
        #expect(answer.kind == .reply && answer.payload.isEmpty)
        #expect(clock.now.offset >= FetchedSubscriptions.patience)
        _ = await router.respond(to: try Self.request(.leave))
        #expect(await stopped.wait(timeout: .seconds(120)))
    }

    private func isAnswered(_ task: Task<[UInt8], any Error>) async -> Bool {
        let done = Event()
        let watching = Task {
            _ = try? await task.value
            done.signal()
        }
        defer { watching.cancel() }
        return await done.wait(timeout: .milliseconds(20))
    }

    @Test("An element whose answer was lost is given again, and no other is skipped")
    func lostAnswer() async throws {
        let (router, _, ended) = Self.counting()
        _ = await router.respond(to: try Self.request(.subscribe, Array(#"{"last":3}"#.utf8)))
        func take(_ number: UInt64) async throws -> MessageContainer {
            try MessageContainer(decoding: await router.respond(to: Self.request(.take, MessageRouter.take(number))))
        }
        #expect(try await take(1).payload == Array("1".utf8))
        #expect(try await take(1).payload == Array("1".utf8))
        #expect(try await take(3).kind == .error)
        #expect(try await take(2).payload == Array("2".utf8))
        #expect(try await take(3).payload == Array("3".utf8))
        #expect(try await take(4).kind == .end)
        #expect(await ended.wait(timeout: .seconds(120)))
    }

    @Test("A subscription without fetches ends after a minute")
    func idle() async throws {
        let clock = VirtualClock()
        let (router, stopped) = Self.silent(clock)
        _ = await router.respond(to: try Self.request(.subscribe, Array(#"{"last":1}"#.utf8)))
        await clock.waitForSleepers()
        clock.advance(by: FetchedSubscriptions.idleLimit)
        #expect(await stopped.wait(timeout: .seconds(120)))
        let answer = try MessageContainer(
            decoding: await router.respond(to: Self.request(.take, MessageRouter.take(1))))
        #expect(answer.kind == .error)
    }
}
