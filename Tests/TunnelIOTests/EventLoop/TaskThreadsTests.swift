// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux) && compiler(>=6.3) && compiler(<6.4)
    import Foundation
    import PacketTunnelTesting
    import Synchronization
    import Testing

    @testable import TunnelIO

    @Suite("Task threads", .timeLimit(.minutes(1)))
    struct TaskThreadsTests {
        /// An actor whose calls run on the executor of the calling task.
        private actor Record {
            private(set) var entries: [[Int]] = []
            func append(_ entry: [Int]) { entries.append(entry) }
        }

        /// Adds one child task for each number, and returns their results in the order in which they ended.
        private static func results(
            _ numbers: Range<Int>, of body: @escaping @Sendable (Int) async -> Int
        ) async -> [Int] {
            await withTaskGroup(of: Int.self) { group in
                for number in numbers { group.addTask { await body(number) } }
                return await group.reduce(into: []) { $0.append($1) }
            }
        }

        @Test("A thousand tasks that yield all run")
        func manyTasks() async throws {
            let threads = TaskThreads(name: "test-many")
            let ended = await Task(executorPreference: threads) {
                await Self.results(0..<1000) { number in
                    await Task.yield()
                    return number
                }
            }
            .value
            #expect(ended.sorted() == Array(0..<1000))
        }

        @Test("Calls of an actor run one at a time, those of one task in their order")
        func actorOrder() async throws {
            let threads = TaskThreads(name: "test-actor")
            let record = Record()
            _ = await Task(executorPreference: threads) {
                await Self.results(0..<8) { caller in
                    for number in 0..<200 { await record.append([caller, number]) }
                    return caller
                }
            }
            .value
            let entries = await record.entries
            #expect(entries.count == 1600)
            for caller in 0..<8 {
                #expect(entries.filter { $0[0] == caller }.map { $0[1] } == Array(0..<200))
            }
        }

        @Test("Sleeping tasks wake in the order of their deadlines, and none before its deadline")
        func sleepOrder() async throws {
            let threads = TaskThreads(name: "test-sleep")
            let wokeEarly = Event()
            var ended: [Int] = []
            // If the machine was busy until several deadlines had passed, threads may end those tasks in any order.
            for _ in 0..<10 where ended != [3, 2, 1, 0] {
                let start = ContinuousClock.now + .milliseconds(300)
                ended = await Task(executorPreference: threads) {
                    await Self.results(0..<4) { number in
                        // The task that is added last wakes first.
                        let deadline = start + .milliseconds(100 * (3 - number))
                        try? await Task.sleep(until: deadline, clock: .continuous)
                        if ContinuousClock.now < deadline { wokeEarly.signal() }
                        return number
                    }
                }
                .value
            }
            #expect(ended == [3, 2, 1, 0])
            #expect(!wokeEarly.hasHappened)
        }

        @Test("A sleep on the suspending clock ends too")
        func suspendingClock() async throws {
            let threads = TaskThreads(name: "test-suspend")
            let start = SuspendingClock.now
            try await Task(executorPreference: threads) {
                try await Task.sleep(until: start + .milliseconds(20), clock: .suspending)
            }
            .value
            #expect(SuspendingClock.now >= start + .milliseconds(20))
        }

        @Test("A cancelled sleep ends before its deadline")
        func cancelledSleep() async throws {
            let threads = TaskThreads(name: "test-cancel")
            let hasBegun = Event()
            let task = Task(executorPreference: threads) {
                hasBegun.signal()
                try await Task.sleep(for: .seconds(3600))
            }
            #expect(await hasBegun.wait(timeout: .seconds(20)))
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
        }

        @Test("Blocked threads do not prevent further tasks from running")
        func blockedThreads() async throws {
            #expect(await Self.blockedResults(9, on: TaskThreads(name: "test-blocked")) == 9)
        }

        /// A starter of threads that the system refuses at these attempts. The first attempt is number 0.
        private static func starter(refusing attempts: Set<Int>, _ count: Counter) -> TaskThreads.Starter {
            { (name, body) throws(TunnelIOError) in
                if attempts.contains(count.next()) {
                    throw TunnelIOError(.eventLoop(operation: "starting thread '\(name)'"), errno: EAGAIN)
                }
                _ = try LoopThread(name: name, body: body)
            }
        }

        private final class Counter: Sendable {
            private let value = Mutex(0)
            var count: Int { value.withLock { $0 } }
            func next() -> Int {
                value.withLock { value in
                    defer { value += 1 }
                    return value
                }
            }
        }

        @Test("If the system refuses further threads, tasks run on the one that exists, and few attempts follow")
        func refusedThreads() async throws {
            let attempts = Counter()
            let threads = TaskThreads(
                name: "test-refused", start: Self.starter(refusing: Set(1..<10_000), attempts))
            let ended = await Task(executorPreference: threads) {
                await Self.results(0..<1000) { number in
                    await Task.yield()
                    return number
                }
            }
            .value
            #expect(ended.sorted() == Array(0..<1000))
            // There is one attempt in 20 ms. The tasks need thousands of turns.
            #expect(attempts.count > 1 && attempts.count < 500)
        }

        @Test("If the system refuses the first thread, the task runs when a later attempt succeeds")
        func refusedFirstThread() async throws {
            let attempts = Counter()
            let threads = TaskThreads(name: "test-first", start: Self.starter(refusing: [0, 1], attempts))
            let result = await Task(executorPreference: threads) { 7 }.value
            #expect(result == 7 && attempts.count >= 3)
        }

        @Test("If the system refuses a thread and the others are blocked, another attempt follows")
        func refusedWhileBlocked() async throws {
            let attempts = Counter()
            let threads = TaskThreads(name: "test-again", start: Self.starter(refusing: [1, 2], attempts))
            #expect(await Self.blockedResults(2, on: threads) == 2)
            // The second task needs a second thread, which is the one of attempt 3.
            #expect(attempts.count >= 4)
        }

        @Test(
            "If the system refuses threads and timers, and all threads are blocked, other attempts follow",
            arguments: [2, 9])
        func refusedTimers(tasks: Int) async throws {
            let (attempts, timers) = (Counter(), Counter())
            // More than one attempt for each job.
            let refusedTimers = 20
            let threads = TaskThreads(
                name: "test-timers", start: Self.starter(refusing: tasks == 2 ? Set(1..<30) : [], attempts),
                startTimers: { (loop) throws(TunnelIOError) in
                    if timers.next() < refusedTimers {
                        throw TunnelIOError(.eventLoop(operation: "starting the timers"), errno: EAGAIN)
                    }
                    try loop.startThread(name: "test-timers")
                })
            #expect(await Self.blockedResults(tasks, on: threads) == tasks)
            #expect(timers.count > refusedTimers)
        }

        @Test("If the system refuses threads and timers for long, the process continues with its first thread")
        func refusedForLong() async throws {
            let attempts = Counter()
            let threads = TaskThreads(
                name: "test-single", start: Self.starter(refusing: Set(1..<100_000), attempts),
                startTimers: { (_) throws(TunnelIOError) in
                    throw TunnelIOError(.eventLoop(operation: "starting the timers"), errno: EAGAIN)
                })
            let results = await Task(executorPreference: threads) { await Self.results(0..<200) { $0 } }.value
            #expect(results.count == 200 && attempts.count > 30)
        }

        /// Runs tasks that are blocked until the last one runs, and returns the number of tasks that ended.
        private static func blockedResults(_ count: Int, on threads: TaskThreads) async -> Int {
            let gate = TunnelIO.Latch()
            return await Task(executorPreference: threads) {
                await results(0..<count) { number in
                    if number == count - 1 { gate.open() } else { gate.wait() }
                    return number
                }
                .count
            }
            .value
        }

        @Test("A thread without work does not wake")
        func idle() async throws {
            let name = "test-idle"
            let threads = TaskThreads(name: name)
            let ended = await Task(executorPreference: threads) {
                try? await Task.sleep(for: .milliseconds(1))
                return await Self.results(0..<100) { $0 }
            }
            .value
            #expect(ended.count == 100)
            let event = Event()
            // On a busy machine, a thread that had work may begin to wait late. libdispatch wakes once a second.
            var (before, waits) = ([String: Int](), Self.waits(ofThreads: name))
            for _ in 0..<10 where waits != before {
                before = waits
                #expect(await !event.wait(timeout: .milliseconds(1500)))
                waits = Self.waits(ofThreads: name)
            }
            #expect(waits == before)
            #expect(waits.count > 0 && waits.allSatisfy { $0.value > 0 })
        }

        /// The number of times that each thread with this name has begun to wait.
        private static func waits(ofThreads name: String) -> [String: Int] {
            var waits: [String: Int] = [:]
            for thread in (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? [] {
                // A thread may have ended since the folder was read.
                guard let text = try? String(contentsOfFile: "/proc/self/task/\(thread)/status", encoding: .utf8),
                    text.hasPrefix("Name:\t\(name)\n")
                else { continue }
                let line = text.split(separator: "\n").first { $0.hasPrefix("voluntary_ctxt_switches:") }
                waits[thread] = line?.split(separator: "\t").last.flatMap { Int($0) }
            }
            return waits
        }
    }
#endif
