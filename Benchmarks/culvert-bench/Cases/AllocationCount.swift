// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// Counts heap allocations on the data path with the counter that `scripts/bench allocations` preloads.
enum AllocationCount {
    static let suite = "Heap allocations on the data path"
    static let control = "control: one deliberate allocation per packet"
    /// The permitted allocations: none by the engine, and by a device pair those of its timers and of failed kernel calls.
    private static let engineBound = 0.0
    private static let deviceBound = 0.01

    static func run(_ options: Options) throws {
        guard let counter = AllocationCounter() else {
            throw BenchmarkError("the allocation counter is not loaded; run 'scripts/bench allocations'")
        }
        let batches = options.isQuick ? 200 : 20_000
        var rows: [Row] = []
        func add(_ name: String, _ allocations: Int, of packets: Int) -> Double {
            let each = Double(allocations) / Double(max(packets, 1))
            rows.append(
                Row(suite, name, .perPacket, samples: [each], note: "\(allocations) for \(packets) packets"))
            return each
        }

        let batch = Batch(try Pair(), packetByteCount: 1420)
        for _ in 0..<16 {
            batch.seal()
            batch.open()
        }
        let packets = batches * Batch.count
        let control = counter.count(0) {
            for _ in 0..<batches {
                batch.seal()
                batch.open()
                for _ in 0..<Batch.count { wasteful() }
            }
        }
        let seen = add(Self.control, control, of: packets)
        let engine = counter.count(traces) {
            for _ in 0..<batches {
                batch.seal()
                batch.open()
            }
        }
        guard batch.isDelivered else { throw BenchmarkError("the data path does not deliver") }
        let engineEach = add("engine: plan, seal, open, commit, in batches of \(Batch.count)", engine, of: packets)

        let pair = try DevicePair()
        defer { pair.close() }
        try pair.send(options.isQuick ? 2_000 : 20_000)
        let wanted = options.isQuick ? 5_000 : 200_000
        let before = pair.delivered
        var failure: (any Error)?
        let device = counter.count(traces) {
            do { try pair.send(wanted) } catch { failure = error }
        }
        if let failure { throw failure }
        let deviceEach = add(
            "two devices, UDP on loopback, TUN in memory, both lanes", device, of: pair.delivered - before)

        let stages = try PlatformCommands.stageAllocations(counter, isQuick: options.isQuick)
        rows += stages

        let results = Results(title: "allocations", settings: "", programs: [:], rows: rows)
        if let file = options.saveTo { try results.save(to: file) }
        if options.isJSON { print(try results.json) } else { Report.printTable(rows) }
        guard seen >= 1 else { throw BenchmarkError("the counter does not see a deliberate allocation") }
        guard engineEach <= engineBound else { throw BenchmarkError("the engine allocates on its data path") }
        if let stage = stages.first(where: { $0.median > engineBound }) {
            throw BenchmarkError("a stage allocates: \(stage.name)")
        }
        guard deviceEach <= deviceBound else { throw BenchmarkError("the devices allocate on their data path") }
    }

    private static var traces: Int32 {
        ProcessInfo.processInfo.environment["ALLOCATION_TRACES"].flatMap { Int32($0) } ?? 0
    }

    @inline(never)
    private static func wasteful() {
        let memory = UnsafeMutableRawPointer.allocate(byteCount: 32, alignment: 8)
        keep(Int(bitPattern: memory))
        unsafe memory.deallocate()
    }
}
