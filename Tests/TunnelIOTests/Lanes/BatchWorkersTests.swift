// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import Testing

@testable import TunnelIO

/// Steps that put one byte, the number of the batch, through, and that a test may hold up.
private final class HeldSteps: TransportSteps {
    let gate: Latch?
    let runs = Atomic<Int>(0)
    let threads = Mutex<Set<UInt>>([])

    init(gate: Latch? = nil) {
        self.gate = gate
    }

    func planSeal(_ packets: PacketBatch) {}

    func seal(_ packets: PacketBatch, into datagrams: PacketBatch) {
        gate?.wait()
        runs.add(1, ordering: .relaxed)
        _ = threads.withLock { $0.insert(LoopThread.current) }
        for index in 0..<packets.count { datagrams.append(copying: packets.copy(of: index)) }
    }

    func planOpen(_ datagrams: PacketBatch, answer: () -> Void) {}
    func open(_ datagrams: PacketBatch) {}
    func commitOpen(_ datagrams: PacketBatch) {}
}

@Suite("Workers for batches", .timeLimit(.minutes(1)))
struct BatchWorkersTests {
    private func slot(_ steps: HeldSteps) throws(TunnelIOError) -> BatchSlot {
        BatchSlot(
            source: try PacketBatch(packetCapacity: 4, byteCapacity: 4096),
            sealed: try PacketBatch(packetCapacity: 4, byteCapacity: 4096), steps: steps)
    }

    /// Sends numbered batches through a pipeline as lanes do, and returns the results.
    private func run(
        _ pipeline: BatchPipeline, batches: Int, collectsEarly: Bool, onSubmit: (Int) -> Void = { _ in }
    ) -> [UInt8] {
        var numbers: [UInt8] = []
        func takeOldest(waits: Bool) -> Bool {
            guard let slot = pipeline.oldest(waits: waits) else { return false }
            if let sealed = slot.sealed, sealed.count == 1 { numbers += sealed.copy(of: 0) }
            pipeline.removeOldest()
            return true
        }
        for number in 0..<batches {
            if pipeline.isFull { _ = takeOldest(waits: true) }
            pipeline.next.source.append(copying: [UInt8(truncatingIfNeeded: number)])
            pipeline.submit(isLast: false)
            onSubmit(number)
            while collectsEarly, takeOldest(waits: false) {}
        }
        while takeOldest(waits: true) {}
        return numbers
    }

    @Test("Batches come out in the order in which they went in", arguments: [1, 2, 5], [false, true])
    func order(count: Int, collectsEarly: Bool) throws {
        let workers = BatchWorkers(count: count, capacity: 16)
        try workers.start(name: "test")
        let steps = HeldSteps()
        let pipeline = try BatchPipeline(workers: workers) { () throws(TunnelIOError) in try slot(steps) }
        let numbers = run(pipeline, batches: 2000, collectsEarly: collectsEarly)
        #expect(numbers == (0..<2000).map { UInt8(truncatingIfNeeded: $0) })
        #expect(steps.runs.load(ordering: .relaxed) == 2000)
        #expect(pipeline.isEmpty)
        workers.stop()
    }

    @Test("A batch that is held up holds up those behind it, though they are done")
    func heldUp() throws {
        let workers = BatchWorkers(count: 2, capacity: 16)
        try workers.start(name: "test")
        let gate = Latch()
        var made = 0
        let rest = HeldSteps()
        let first = HeldSteps(gate: gate)
        let pipeline = try BatchPipeline(workers: workers) { () throws(TunnelIOError) in
            made += 1
            return try slot(made == 1 ? first : rest)
        }
        pipeline.next.source.append(copying: [0])
        pipeline.submit(isLast: false)
        for number in UInt8(1)..<4 {
            pipeline.next.source.append(copying: [number])
            pipeline.submit(isLast: false)
        }
        let end = LaneClock.now() + 5_000_000_000
        while rest.runs.load(ordering: .relaxed) < 3, LaneClock.now() < end {}
        #expect(rest.runs.load(ordering: .relaxed) == 3)
        #expect(pipeline.isFull)
        #expect(pipeline.oldest(waits: false) == nil)
        gate.open()
        for number in UInt8(0)..<4 {
            #expect(pipeline.oldest(waits: true)?.sealed?.copy(of: 0) == [number])
            pipeline.removeOldest()
        }
        workers.stop()
    }

    @Test("Without workers that run, or when they have ended, the lane does it all itself")
    func alone() throws {
        for isStopped in [false, true] {
            let workers = BatchWorkers(count: 1, capacity: 2)
            if isStopped {
                try workers.start(name: "test")
                workers.stop()
                workers.stop()
            }
            let steps = HeldSteps()
            let pipeline = try BatchPipeline(workers: workers) { () throws(TunnelIOError) in try slot(steps) }
            #expect(run(pipeline, batches: 100, collectsEarly: true) == Array(0..<100))
            #expect(steps.threads.withLock { $0 } == [LoopThread.current])
        }
    }

    @Test("A worker really takes part")
    func takesPart() throws {
        let workers = BatchWorkers(count: 1, capacity: 8)
        try workers.start(name: "test")
        let steps = HeldSteps()
        let pipeline = try BatchPipeline(workers: workers) { () throws(TunnelIOError) in try slot(steps) }
        pipeline.next.source.append(copying: [1])
        pipeline.submit(isLast: false)
        let end = LaneClock.now() + 5_000_000_000
        var done = pipeline.oldest(waits: false)
        while done == nil, LaneClock.now() < end { done = pipeline.oldest(waits: false) }
        #expect(done?.sealed?.copy(of: 0) == [1])
        #expect(steps.threads.withLock { !$0.contains(LoopThread.current) && $0.count == 1 })
        workers.stop()
    }

    @Test("A lane's last batch is left to the lane")
    func last() throws {
        let workers = BatchWorkers(count: 1, capacity: 8)
        try workers.start(name: "test")
        let steps = HeldSteps()
        let pipeline = try BatchPipeline(workers: workers) { () throws(TunnelIOError) in try slot(steps) }
        for number in UInt8(0)..<100 {
            pipeline.next.source.append(copying: [number])
            pipeline.submit(isLast: true)
            #expect(pipeline.oldest(waits: true)?.sealed?.copy(of: 0) == [number])
            pipeline.removeOldest()
        }
        #expect(steps.threads.withLock { $0 } == [LoopThread.current])
        workers.stop()
    }

    @Test(
        "Repeated starts of the workers have no effect, and their end hangs no waiter")
    func startAndStop() throws {
        let workers = BatchWorkers(count: 2, capacity: 16)
        try workers.start(name: "test")
        try workers.start(name: "test")
        #expect(workers.threadCount == 2)
        workers.requestStop()
        // A batch is done by its lane then.
        let steps = HeldSteps()
        let pipeline = try BatchPipeline(workers: workers) { () throws(TunnelIOError) in try slot(steps) }
        #expect(run(pipeline, batches: 9, collectsEarly: true) == Array(0..<9))
        workers.stop()
        #expect(steps.threads.withLock { $0 } == [LoopThread.current])
    }
}
