// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CStageCalls
import Foundation

/// Time, instructions and allocations of each stage of the data path.
enum StageReport {
    static let timeSuite = "Stages of the data path, \(StagePipeline.packetCount) packets of 1420 bytes, time"
    static let instructionSuite = "Stages of the data path, instructions under callgrind"
    static let countCommand = "count-stage-instructions"
    private typealias Stage = StagePipeline.Stage

    static func run(_ options: Options) throws {
        try Tools.require([])
        var rows = try times(try StagePipeline(), options)
        rows += try instructions(cycles: options.isQuick ? 2 : 40)
        let results = Results(
            title: "stages", settings: "\(options.runs) runs", programs: [:], rows: rows)
        if let file = options.saveTo { try results.save(to: file) }
        if options.isJSON {
            print(try results.json)
        } else {
            print(Machine.present.line)
            Report.printTable(rows)
        }
    }

    // MARK: Time

    /// The median turn of each run, so that an interruption of a few turns does not count.
    private static func times(_ pipeline: StagePipeline, _ options: Options) throws -> [Row] {
        let duration = options.isQuick ? 50_000_000 : 1_000_000_000
        let stages = Stage.allCases
        var samples = stages.map { _ in [Double]() }
        for _ in 0..<options.runs {
            // A run has fewer turns than this.
            var turns = stages.map { _ in [Int]() }
            for index in stages.indices { turns[index].reserveCapacity(100_000) }
            let start = nanoseconds()
            repeat {
                for index in stages.indices {
                    let excluded = stage_calls_excluded()
                    let time = elapsed { pipeline.run(stages[index]) }
                    turns[index].append(time - Int(stage_calls_excluded() - excluded))
                }
            } while nanoseconds() - start < duration
            for index in stages.indices {
                turns[index].sort()
                let median = turns[index][turns[index].count / 2]
                samples[index].append(Double(median) / Double(StagePipeline.count(of: stages[index])))
            }
        }
        let rows = zip(stages, samples).map {
            Row(timeSuite, $0.rawValue, .nanosecondsPerPacket, samples: $1)
        }
        let sums = (0..<options.runs).map { run in
            zip(stages, samples).reduce(0) { $1.0.isOnTheWay ? $0 + $1.1[run] : $0 }
        }
        return withSum(Row(timeSuite, sumName, .nanosecondsPerPacket, samples: sums), rows)
    }

    private static let sumName = "all stages"

    /// Puts the sum after its rows.
    private static func withSum(_ sum: Row, _ rows: [Row]) -> [Row] {
        let count = Stage.allCases.count(where: \.isOnTheWay)
        return rows.prefix(count) + [sum] + rows.dropFirst(count)
    }

    // MARK: Instructions

    /// Runs this program under callgrind to count the instructions of its stages. Returns nothing if valgrind is not
    /// installed.
    /// - Parameter cycles: The number of runs of each stage that are counted.
    private static func instructions(cycles: Int) throws -> [Row] {
        guard stage_callgrind_is_known() != 0, let valgrind = Tools.find("valgrind") else {
            Program.note("instructions are not counted: valgrind, or its header at the build, is missing")
            return []
        }
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("culvert-stages-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        Program.note("counting instructions under callgrind")
        let text = try Shell.run(
            [
                valgrind, "--tool=callgrind", "--collect-atstart=no", "--callgrind-out-file=\(folder.path)/out",
                Program.path, countCommand, String(cycles),
            ], timeout: 300)
        let counts = try read(folder)
        var rows: [Row] = []
        for stage in Stage.allCases {
            guard let count = counts[stage.rawValue] else {
                throw BenchmarkError("callgrind counted nothing for '\(stage.rawValue)': \(text)")
            }
            let each = count / Double(cycles * StagePipeline.count(of: stage))
            rows.append(Row(instructionSuite, stage.rawValue, .instructionsPerPacket, samples: [each]))
        }
        let sum = zip(Stage.allCases, rows).reduce(0) { $1.0.isOnTheWay ? $0 + $1.1.median : $0 }
        let code = text.trimmingCharacters(in: .whitespacesAndNewlines)
        return withSum(
            Row(instructionSuite, sumName, .instructionsPerPacket, samples: [sum], note: code), rows)
    }

    /// Runs the stages in the process that callgrind watches.
    static func countInstructions(_ arguments: ArraySlice<String>) throws {
        guard let cycles = arguments.first.flatMap({ Int($0) }), (1...1_000).contains(cycles) else {
            throw UsageError(message: "\(countCommand) CYCLES")
        }
        let pipeline = try StagePipeline()
        for counted in Stage.allCases {
            for _ in 0..<cycles {
                for stage in Stage.allCases {
                    if stage == counted { stage_callgrind_toggle() }
                    pipeline.run(stage)
                    if stage == counted { stage_callgrind_toggle() }
                }
            }
            unsafe counted.rawValue.withCString { unsafe stage_callgrind_dump($0) }
        }
        let vectors = stage_has_avx512() != 0 ? "AVX-512" : stage_has_avx2() != 0 ? "AVX2 and no AVX-512" : "no AVX2"
        print("the processor that callgrind shows has \(vectors)")
    }

    /// The totals by the names of their dumps.
    private static func read(_ folder: URL) throws -> [String: Double] {
        var counts: [String: Double] = [:]
        for file in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil) {
            guard let text = try? String(contentsOf: file, encoding: .utf8) else { continue }
            let lines = text.split(separator: "\n")
            guard let trigger = lines.first(where: { $0.hasPrefix("desc: Trigger: Client Request: ") }),
                let totals = lines.first(where: { $0.hasPrefix("totals: ") }),
                let count = Double(totals.dropFirst("totals: ".count))
            else { continue }
            counts[String(trigger.dropFirst("desc: Trigger: Client Request: ".count))] = count
        }
        return counts
    }

    // MARK: Allocations

    static func allocations(
        _ pipeline: StagePipeline, _ counter: AllocationCounter, cycles: Int
    ) throws -> [Row] {
        let stages = Stage.allCases.filter(\.isOnTheWay)
        for _ in 0..<16 { for stage in stages { pipeline.run(stage) } }
        var counts = stages.map { _ in 0 }
        for _ in 0..<cycles {
            for index in stages.indices {
                let stage = stages[index]
                counts[index] += counter.count(0) { pipeline.run(stage) }
            }
        }
        let packets = cycles * StagePipeline.packetCount
        return zip(stages, counts).map { stage, count in
            Row(
                AllocationCount.suite, stage.rawValue, .perPacket, samples: [Double(count) / Double(packets)],
                note: "\(count) for \(packets) packets")
        }
    }
}
