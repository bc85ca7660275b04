// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import Testing

@testable import TunnelIO

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Longer than anything here takes, and short enough to fail a run rather than to hang it.
private let patience = 5000

/// Runs `body` on a separate thread.
/// - Returns: whether it ended in time.
private func ends(_ body: @escaping @Sendable () -> Void) throws -> Bool {
    let done = Latch()
    let thread = try LoopThread(name: "test") {
        body()
        done.open()
    }
    guard done.wait(milliseconds: patience) else { return false }
    thread.join()
    return true
}

/// Opens a latch when it is released.
private final class Owner: Sendable {
    private let isGone: Latch

    init(_ isGone: Latch) {
        self.isGone = isGone
    }

    deinit {
        isGone.open()
    }
}

@Suite("The event loop", .timeLimit(.minutes(1)))
struct EventLoopTests {
    private let loop: EventLoop
    private let signal: WakeSignal

    init() throws {
        loop = try EventLoop()
        signal = try WakeSignal()
    }

    // MARK: - Stopping

    @Test("A loop that was stopped before it runs returns immediately")
    func stopBeforeRun() throws {
        loop.stop()
        loop.stop()
        let loop = loop
        #expect(try ends { try? loop.run() })
        #expect(loop.perform {} == false)
    }

    @Test("A loop is stopped from another thread", arguments: 0..<20)
    func stopFromOutside(_: Int) throws {
        try loop.startThread(name: "a thread with a long name")
        loop.stop()
        loop.stop()
        let loop = loop
        #expect(try ends { try? loop.join() })
    }

    @Test("Stopped from a handler, no other handler of the round is called")
    func stopFromHandler() throws {
        let calls = Atomic<Int>(0)
        let other = try WakeSignal()
        for signal in [signal, other] {
            _ = try loop.register(signal.descriptor) { [loop] _ in
                calls.wrappingAdd(1, ordering: .relaxed)
                loop.stop()
            }
            signal.raise()
        }
        let loop = loop
        #expect(try ends { try? loop.run() })
        #expect(calls.load(ordering: .relaxed) == 1)
    }

    @Test("A loop is stopped from a timer, from work and after a round", arguments: ["timer", "work", "round"])
    func stopFrom(place: String) throws {
        let loop = loop
        switch place {
        case "timer": loop.set(loop.makeTimer { loop.stop() }, deadline: LaneClock.now())
        case "work": loop.perform { loop.stop() }
        default: loop.wake()
        }
        #expect(try ends { try? loop.run { if place == "round" { loop.stop() } } })
    }

    @Test("A loop runs once: a second run meanwhile is an error, a later one returns")
    func secondRun() throws {
        let running = Latch()
        loop.perform { running.open() }
        try loop.startThread(name: "loop")
        #expect(running.wait(milliseconds: patience))
        #expect(throws: TunnelIOError.self) { try loop.run() }
        #expect(throws: TunnelIOError.self) { try loop.startThread(name: "again") }
        loop.stop()
        try loop.join()
        try loop.join()
        try loop.run()
    }

    @Test("Joining from the loop's own thread returns")
    func joinFromInside() throws {
        let loop = loop
        let joined = Latch()
        loop.perform {
            try? loop.join()
            joined.open()
        }
        try loop.startThread(name: "loop")
        #expect(joined.wait(milliseconds: patience))
        loop.stop()
        try loop.join()
    }

    @Test("Several threads can wait for the same end")
    func manyJoin() throws {
        try loop.startThread(name: "loop")
        let loop = loop
        let done = (0..<4).map { _ in Latch() }
        let threads = try done.map { latch in
            try LoopThread(name: "join") {
                try? loop.join()
                latch.open()
            }
        }
        loop.stop()
        for latch in done { #expect(latch.wait(milliseconds: patience)) }
        for thread in threads { thread.join() }
    }

    // MARK: - Calls from other threads

    @Test("Work runs in order on the loop's thread, queued before and while it runs")
    func perform() throws {
        let loop = loop
        let seen = Mutex<[Int]>([])
        let done = Latch()
        for number in 0..<10 { loop.perform { seen.withLock { $0.append(number) } } }
        try loop.startThread(name: "loop")
        for number in 10..<100 { loop.perform { seen.withLock { $0.append(number) } } }
        loop.perform {
            #expect(loop.isOnLoopThread)
            done.open()
        }
        #expect(done.wait(milliseconds: patience))
        #expect(!loop.isOnLoopThread)
        #expect(seen.withLock { $0 } == Array(0..<100))
        loop.stop()
        try loop.join()
    }

    @Test("Work that was accepted runs even when the loop is stopped")
    func performAndStop() throws {
        let loop = loop
        let accepted = Atomic<Int>(0)
        let ran = Atomic<Int>(0)
        try loop.startThread(name: "loop")
        let threads = try (0..<4).map { _ in
            try LoopThread(name: "work") {
                while loop.perform({ ran.wrappingAdd(1, ordering: .relaxed) }) {
                    if accepted.wrappingAdd(1, ordering: .relaxed).newValue == 2000 { loop.stop() }
                }
            }
        }
        for thread in threads { thread.join() }
        try loop.join()
        #expect(accepted.load(ordering: .relaxed) >= 2000)
        #expect(ran.load(ordering: .relaxed) == accepted.load(ordering: .relaxed))
    }

    @Test("Waking makes a round, and an idle loop makes none")
    func wake() throws {
        let loop = loop
        let rounds = Atomic<Int>(0)
        let first = Latch()
        let second = Latch()
        try loop.startThread(name: "loop") {
            switch rounds.wrappingAdd(1, ordering: .relaxed).newValue {
            case 1: first.open()
            default: second.open()
            }
        }
        loop.wake()
        #expect(first.wait(milliseconds: patience))
        #expect(rounds.load(ordering: .relaxed) == 1)
        loop.wake()
        #expect(second.wait(milliseconds: patience))
        #expect(rounds.load(ordering: .relaxed) == 2)
        loop.stop()
        try loop.join()
    }

    // MARK: - Descriptors

    @Test("A ready descriptor is reported until it is read")
    func levelTriggered() throws {
        let loop = loop
        let calls = Atomic<Int>(0)
        let signal = signal
        _ = try loop.register(signal.descriptor) { readiness in
            #expect(readiness == .readable)
            if calls.wrappingAdd(1, ordering: .relaxed).newValue == 3 {
                signal.clear()
                loop.perform { loop.stop() }
            }
        }
        signal.raise()
        #expect(try ends { try? loop.run() })
        #expect(calls.load(ordering: .relaxed) == 3)
    }

    @Test("Unregistered by the other handler of its round, a handler is not called")
    func unregisterWithinRound() throws {
        let loop = loop
        let other = try WakeSignal()
        let registrations = Mutex<[EventLoop.Registration]>([])
        let calls = Atomic<Int>(0)
        for signal in [signal, other] {
            let registration = try loop.register(signal.descriptor) { _ in
                calls.wrappingAdd(1, ordering: .relaxed)
                for registration in registrations.withLock({ $0 }) {
                    loop.unregister(registration)
                    loop.unregister(registration)
                }
                loop.perform { loop.stop() }
            }
            registrations.withLock { $0.append(registration) }
            signal.raise()
        }
        #expect(try ends { try? loop.run() })
        #expect(calls.load(ordering: .relaxed) == 1)
    }

    @Test("A descriptor cannot be watched twice, nor one that is not open")
    func refused() throws {
        _ = try loop.register(signal.descriptor) { _ in }
        #expect {
            _ = try loop.register(signal.descriptor) { _ in }
        } throws: {
            ($0 as? TunnelIOError)?.errno == EEXIST
        }
        #expect {
            _ = try loop.register(-1) { _ in }
        } throws: {
            ($0 as? TunnelIOError)?.errno == EBADF
        }
    }

    @Test("A hang-up of a descriptor that nothing is wanted of does not keep the loop busy")
    func noInterest() throws {
        let loop = loop
        var ends: [Int32] = [-1, -1]
        #expect(unsafe pipe(&ends) == 0)
        defer { _ = close(ends[0]) }
        let calls = Atomic<Int>(0)
        let rounds = Atomic<Int>(0)
        let registration = try loop.register(ends[0]) { readiness in
            #expect(readiness.contains(.hangup))
            calls.wrappingAdd(1, ordering: .relaxed)
        }
        try loop.modify(registration, interest: [])
        _ = close(ends[1])
        let reached = Latch()
        let reported = Latch()
        loop.set(loop.makeTimer { reached.open() }, deadline: LaneClock.now() + 20_000_000)
        try loop.startThread(name: "loop") {
            rounds.wrappingAdd(1, ordering: .relaxed)
            if calls.load(ordering: .relaxed) > 0 { reported.open() }
        }
        #expect(reached.wait(milliseconds: patience))
        #expect(calls.load(ordering: .relaxed) == 0)
        #expect(rounds.load(ordering: .relaxed) <= 1)
        // Wanted again, it is reported.
        try loop.modify(registration, interest: .readable)
        #expect(reported.wait(milliseconds: patience))
        loop.stop()
        try loop.join()
    }

    @Test("A number that was closed and given to another file is watched afresh")
    func reusedDescriptor() throws {
        let loop = loop
        var first: WakeSignal? = try WakeSignal()
        let number = try #require(first?.descriptor)
        let stale = try loop.register(number) { _ in Issue.record("the old handler was called") }
        // A concurrent test may get the number; here a copy of our descriptor has it.
        first = nil
        guard fcntl(number, F_GETFD) == -1, dup2(signal.descriptor, number) == number else { return }
        defer { _ = close(number) }
        let called = Latch()
        let signal = signal
        let fresh = try loop.register(number) { _ in
            signal.clear()
            called.open()
        }
        // Does not take the new one with it.
        loop.unregister(stale)
        signal.raise()
        try loop.startThread(name: "loop")
        #expect(called.wait(milliseconds: patience))
        loop.unregister(fresh)
        loop.stop()
        try loop.join()
    }

    @Test("Handlers are released when the loop has ended")
    func noCycle() throws {
        let isGone = Latch()
        do {
            let owner = Owner(isGone)
            _ = try loop.register(signal.descriptor) { _ in withExtendedLifetime(owner) {} }
        }
        loop.stop()
        try loop.run()
        #expect(isGone.wait(milliseconds: 0))
    }

    // MARK: - Timers

    @Test("Timers fire in the order of their deadlines, once and not early, even if the deadline has passed")
    func timers() throws {
        let loop = loop
        let fired = Mutex<[Int]>([])
        let start = LaneClock.now()
        for (index, offset) in [15_000_000, 5_000_000, -1_000_000_000_000_000, 10_000_000].enumerated() {
            let deadline = start + Int64(offset)
            let timer = loop.makeTimer {
                #expect(LaneClock.now() >= deadline)
                let count = fired.withLock {
                    $0.append(index)
                    return $0.count
                }
                if count == 4 { loop.stop() }
            }
            loop.set(timer, deadline: deadline)
        }
        #expect(try ends { try? loop.run() })
        #expect(fired.withLock { $0 } == [2, 1, 3, 0])
    }

    @Test("A deadline that is set again from another thread counts, earlier or later, and none unsets it")
    func resetTimers() throws {
        let loop = loop
        let earlier = Latch()
        let never = Atomic<Int>(0)
        let now = LaneClock.now()
        let moved = loop.makeTimer { earlier.open() }
        let unset = loop.makeTimer { never.wrappingAdd(1, ordering: .relaxed) }
        let removed = loop.makeTimer { never.wrappingAdd(1, ordering: .relaxed) }
        loop.set(moved, deadline: now + 3_600_000_000_000)
        loop.set(unset, deadline: now + 10_000_000)
        loop.set(removed, deadline: now + 10_000_000)
        try loop.startThread(name: "loop")
        loop.set(unset, deadline: nil)
        loop.remove(removed)
        loop.remove(removed)
        loop.set(moved, deadline: now + 20_000_000)
        #expect(earlier.wait(milliseconds: patience))
        #expect(LaneClock.now() >= now + 20_000_000)
        #expect(never.load(ordering: .relaxed) == 0)
        loop.stop()
        try loop.join()
    }

    @Test("A timer that sets itself into the past leaves the others their turn")
    func greedyTimer() throws {
        let loop = loop
        let greedy = Mutex<EventLoop.Timer?>(nil)
        let timer = loop.makeTimer {
            if let timer = greedy.withLock({ $0 }) { loop.set(timer, deadline: 1) }
        }
        greedy.withLock { $0 = timer }
        loop.set(timer, deadline: 1)
        let signal = signal
        _ = try loop.register(signal.descriptor) { _ in loop.stop() }
        signal.raise()
        #expect(try ends { try? loop.run() })
    }

    @Test("The clock goes forward")
    func clock() {
        let first = LaneClock.now()
        #expect(first > 0)
        #expect(LaneClock.now() >= first)
    }
}
