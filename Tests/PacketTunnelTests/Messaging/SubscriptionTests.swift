// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing

@Suite("Subscriptions")
struct SubscriptionTests {
    private func counting() -> (router: MessageRouter, sent: Eavesdropper<Int>, ended: Event) {
        let router = MessageRouter()
        let sent = Eavesdropper<Int>()
        let ended = Event()
        router.on(CountTo.self) { subscription, sink in
            defer { ended.signal() }
            var number = 0
            while number < subscription.last {
                number += 1
                try await sink.send(number)
                sent.observe(number)
            }
        }
        return (router, sent, ended)
    }

    @Test("Elements come in order, and then the end")
    func order() async throws {
        let client = MessageClient(channel: MemoryMessageChannel(router: counting().router))
        var received: [Int] = []
        for try await number in try await client.subscribe(to: CountTo(last: 100)) { received.append(number) }
        #expect(received == Array(1...100))
    }

    @Test("The sender waits while its elements are not taken")
    func backPressure() async throws {
        let (router, sent, ended) = counting()
        let client = MessageClient(channel: MemoryMessageChannel(router: router))
        let stream = try await client.subscribe(to: CountTo(last: .max))
        var iterator = stream.makeAsyncIterator()
        for expected in 1...50 {
            #expect(try await iterator.next() == expected)
            // The taken, the buffered and the next element.
            #expect(sent.count <= expected + 2)
        }
        stream.cancel()
        #expect(await ended.wait(timeout: .seconds(120)))
    }

    @Test("Letting go of the sequence, or cancelling who iterates it, stops the sender")
    func cancellation() async throws {
        let (router, _, ended) = counting()
        let client = MessageClient(channel: MemoryMessageChannel(router: router))
        var first: Int?
        for try await number in try await client.subscribe(to: CountTo(last: .max)) {
            first = number
            break
        }
        #expect(first == 1)
        #expect(await ended.wait(timeout: .seconds(120)))

        let (silent, entered) = (MessageRouter(), Event())
        let stopped = Event()
        silent.on(CountTo.self) { _, _ in
            entered.signal()
            do { try await ContinuousClock().sleep(for: .seconds(3600)) } catch { stopped.signal() }
        }
        let other = MessageClient(channel: MemoryMessageChannel(router: silent))
        let task = Task {
            var count = 0
            for try await _ in try await other.subscribe(to: CountTo(last: 1)) { count += 1 }
            return count
        }
        #expect(await entered.wait(timeout: .seconds(120)))
        task.cancel()
        #expect(try await task.value == 0)
        #expect(await stopped.wait(timeout: .seconds(120)))
    }

    @Test("An error of the other side is thrown")
    func refusals() async throws {
        func outcome(_ router: MessageRouter) async -> MessageError? {
            let client = MessageClient(channel: MemoryMessageChannel(router: router))
            return await caught {
                for try await _ in try await client.subscribe(to: CountTo(last: 3)) {}
            }
        }
        #expect(await outcome(MessageRouter()) == .noHandler(name: "test.count"))
        let failing = MessageRouter()
        failing.on(CountTo.self) { _, sink in
            try await sink.send(1)
            throw HandlerFailure(code: "over", message: "enough")
        }
        #expect(await outcome(failing) == .handlerFailed(HandlerFailure(code: "over", message: "enough")))
        failing.on(CountTo.self, nil)
        #expect(await outcome(failing) == .noHandler(name: "test.count"))
        let full = MessageRouter(limits: MessageRouter.Limits(maximumSubscriptions: 0))
        full.on(CountTo.self) { _, _ in }
        #expect(await outcome(full) == .busy)
        let channel = ScriptedChannel { _ in nil }
        #expect(
            await caught { try await MessageClient(channel: channel).subscribe(to: CountTo(last: 3)) }
                == .subscriptionsUnsupported)
    }

    @Test("A channel that closes ends it with an error, not as if it were complete")
    func closing() async throws {
        let channel = MemoryMessageChannel(router: counting().router)
        let client = MessageClient(channel: channel)
        var iterator = try await client.subscribe(to: CountTo(last: .max)).makeAsyncIterator()
        #expect(try await iterator.next() == 1)
        channel.close()
        #expect(await caught { while try await iterator.next() != nil {} } == .closed)
        #expect(await caught { try await client.subscribe(to: CountTo(last: 1)) } == .closed)
    }

    @Test("A request for one reply and a subscription do not answer for each other")
    func kinds() async throws {
        struct NoStream: TunnelMessage {
            typealias Reply = Int
            static let name = CountTo.name
        }
        let channel = MemoryMessageChannel(router: counting().router)
        #expect(
            await caught { try await MessageClient(channel: channel).send(NoStream()) }
                == .noHandler(name: "test.count"))
    }
}
