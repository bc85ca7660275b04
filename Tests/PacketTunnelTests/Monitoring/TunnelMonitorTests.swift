// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing

@Suite("Monitoring a tunnel")
struct TunnelMonitorTests {
    enum Status: Equatable, Sendable {
        case connecting
        case connected
        case reasserting
        case disconnected
        case invalid
    }

    /// The part of an event that a test compares.
    enum Seen: Equatable, Sendable {
        case status(Status)
        case reply(Int)
        case failure
    }

    struct Failure: Error {}

    /// A tunnel that is polled, and the monitor that polls it.
    final class Fixture: Sendable {
        let clock = VirtualClock()
        let polls = Atomic(0)
        let running = Atomic(0)
        let mostRunning = Atomic(0)
        let statuses: AsyncStream<Status>
        let continuation: AsyncStream<Status>.Continuation

        init() {
            (statuses, continuation) = AsyncStream.makeStream(of: Status.self)
        }

        func monitor(
            _ poll: @escaping @Sendable (Int) async throws -> Int = { $0 }
        ) -> TunnelMonitor<Status, Int> {
            TunnelMonitor(following: statuses, every: .seconds(1), clock: clock) { status in
                switch status {
                case .connected, .reasserting: .polling
                case .connecting, .disconnected: .waiting
                case .invalid: .ended
                }
            } poll: { [self] in
                let number = polls.add(1, ordering: .relaxed).newValue
                let together = running.add(1, ordering: .relaxed).newValue
                _ = mostRunning.max(together, ordering: .relaxed)
                defer { running.subtract(1, ordering: .relaxed) }
                return try await poll(number)
            }
        }

        var pollCount: Int { polls.load(ordering: .relaxed) }
        var mostTogether: Int { mostRunning.load(ordering: .relaxed) }
    }

    static func seen(_ event: TunnelMonitorEvent<Status, Int>?) -> Seen? {
        switch event {
        case .status(let status): .status(status)
        case .reply(let number): .reply(number)
        case .failure: .failure
        case nil: nil
        }
    }

    @Test("A monitor polls immediately when the tunnel is connected, and then at the interval")
    func rhythm() async {
        let fixture = Fixture()
        var events = fixture.monitor().makeAsyncIterator()
        fixture.continuation.yield(.connecting)
        #expect(Self.seen(await events.next()) == .status(.connecting))
        #expect(fixture.pollCount == 0)
        fixture.continuation.yield(.connected)
        #expect(Self.seen(await events.next()) == .status(.connected))
        #expect(Self.seen(await events.next()) == .reply(1))
        for number in 2...5 {
            await fixture.clock.waitForSleepers()
            fixture.clock.advance(by: .milliseconds(999))
            #expect(fixture.pollCount == number - 1)
            fixture.clock.advance(by: .milliseconds(1))
            #expect(Self.seen(await events.next()) == .reply(number))
        }
    }

    @Test("A failed poll is an event, and the next is made all the same")
    func failures() async {
        let fixture = Fixture()
        var events = fixture.monitor { number in
            guard number % 2 == 0 else { throw Failure() }
            return number
        }.makeAsyncIterator()
        fixture.continuation.yield(.connected)
        var seen: [Seen?] = []
        for _ in 0..<5 {
            seen.append(Self.seen(await events.next()))
            if seen.count > 1 {
                await fixture.clock.waitForSleepers()
                fixture.clock.advance(by: .seconds(1))
            }
        }
        #expect(seen == [.status(.connected), .failure, .reply(2), .failure, .reply(4)])
    }

    @Test("A monitor pauses while the tunnel is not connected, and polls immediately when it is back")
    func pause() async {
        let fixture = Fixture()
        var events = fixture.monitor().makeAsyncIterator()
        fixture.continuation.yield(.connected)
        #expect(Self.seen(await events.next()) == .status(.connected))
        #expect(Self.seen(await events.next()) == .reply(1))
        await fixture.clock.waitForSleepers()
        fixture.continuation.yield(.disconnected)
        #expect(Self.seen(await events.next()) == .status(.disconnected))
        fixture.clock.advance(by: .seconds(60))
        #expect(fixture.pollCount == 1)
        fixture.continuation.yield(.connected)
        #expect(Self.seen(await events.next()) == .status(.connected))
        #expect(Self.seen(await events.next()) == .reply(2))
    }

    @Test("A change between two polled statuses keeps the rhythm, and an equal status is reported once")
    func unchangedPhase() async {
        let fixture = Fixture()
        var events = fixture.monitor().makeAsyncIterator()
        for status in [Status.connected, .connected, .reasserting] { fixture.continuation.yield(status) }
        var seen: [Seen?] = []
        for _ in 0..<3 { seen.append(Self.seen(await events.next())) }
        #expect(seen.filter { $0 != .reply(1) } == [.status(.connected), .status(.reasserting)])
        #expect(fixture.pollCount == 1)
    }

    @Test("The answer of a poll that was under way when the tunnel went down is dropped")
    func staleAnswer() async {
        let fixture = Fixture()
        let (entered, release) = (Event(), Handoff<Void>())
        var events = fixture.monitor { number in
            guard number == 1 else { return number }
            entered.signal()
            // Deaf to cancellation.
            await Task.detached { _ = await release.next() }.value
            return number
        }.makeAsyncIterator()
        fixture.continuation.yield(.connected)
        #expect(Self.seen(await events.next()) == .status(.connected))
        #expect(await entered.wait(timeout: .seconds(120)))
        fixture.continuation.yield(.disconnected)
        #expect(Self.seen(await events.next()) == .status(.disconnected))
        fixture.continuation.yield(.connected)
        #expect(Self.seen(await events.next()) == .status(.connected))
        #expect(fixture.pollCount == 1, "the next poll waits for the one that is still under way")
        release.finish()
        #expect(Self.seen(await events.next()) == .reply(2))
        #expect(fixture.mostTogether == 1)
    }

    @Test("Polls that take longer than the interval never overlap, and keep to the rhythm")
    func slowPolls() async {
        let fixture = Fixture()
        var events = fixture.monitor { [clock = fixture.clock] number in
            try await clock.sleep(for: .milliseconds(2_500))
            return number
        }.makeAsyncIterator()
        fixture.continuation.yield(.connected)
        #expect(Self.seen(await events.next()) == .status(.connected))
        for number in 1...3 {
            await fixture.clock.waitForSleepers()
            fixture.clock.advance(by: .milliseconds(2_500))
            #expect(Self.seen(await events.next()) == .reply(number))
            await fixture.clock.waitForSleepers()
            fixture.clock.advance(by: .milliseconds(500))
            #expect(fixture.clock.now.offset == .seconds(3 * number))
        }
        #expect(fixture.mostTogether == 1)
    }

    @Test("A monitor ends after a final status, and after the last status")
    func ends() async {
        for isStatus in [true, false] {
            let fixture = Fixture()
            fixture.continuation.yield(.disconnected)
            if isStatus { fixture.continuation.yield(.invalid) } else { fixture.continuation.finish() }
            var seen: [Seen?] = []
            for await event in fixture.monitor() { seen.append(Self.seen(event)) }
            #expect(seen == (isStatus ? [.status(.disconnected), .status(.invalid)] : [.status(.disconnected)]))
        }
    }

    @Test("Cancelling the iterating task ends a monitor, and its polls")
    func cancellation() async {
        let fixture = Fixture()
        fixture.continuation.yield(.connected)
        let polled = Event()
        let monitor = fixture.monitor { number in
            polled.signal()
            return number
        }
        let task = Task {
            var count = 0
            for await _ in monitor { count += 1 }
            return count
        }
        #expect(await polled.wait(timeout: .seconds(120)))
        await fixture.clock.waitForSleepers()
        task.cancel()
        #expect(await task.value <= 2)
        #expect(await fixture.clock.changes.wait { fixture.clock.sleeperCount == 0 })
        fixture.clock.advance(by: .seconds(10))
        #expect(fixture.pollCount == 1)
    }

    @Test("Letting go of the sequence ends the polling")
    func lettingGo() async {
        let fixture = Fixture()
        fixture.continuation.yield(.connected)
        for await event in fixture.monitor() where Self.seen(event) == .reply(1) { break }
        #expect(await fixture.clock.changes.wait { fixture.clock.sleeperCount == 0 })
        #expect(fixture.pollCount == 1)
    }

    @Test("A slow reader gets every status and the latest answer")
    func slowReader() async {
        let fixture = Fixture()
        var events = fixture.monitor().makeAsyncIterator()
        fixture.continuation.yield(.connected)
        for _ in 1...20 {
            await fixture.clock.waitForSleepers()
            fixture.clock.advance(by: .seconds(1))
        }
        await fixture.clock.waitForSleepers()
        #expect(Self.seen(await events.next()) == .status(.connected))
        #expect(Self.seen(await events.next()) == .reply(21))
    }

    @Test("A monitor can poll with messages to a tunnel")
    func messages() async throws {
        let router = MessageRouter()
        router.on(Echo.self) { Echo.Reply(text: $0.text) }
        let client = MessageClient(channel: MemoryMessageChannel(router: router))
        let (statuses, continuation) = AsyncStream.makeStream(of: Status.self)
        continuation.yield(.connected)
        let monitor = TunnelMonitor(following: statuses, clock: VirtualClock()) { (_: Status) in
            .polling
        } poll: {
            try await client.send(Echo(text: "alive")).text
        }
        for await event in monitor {
            if case .reply(let text) = event {
                #expect(text == "alive")
                break
            }
        }
    }
}
