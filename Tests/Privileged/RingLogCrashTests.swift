// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Logging
    import Testing

    @testable import PacketTunnel

    /// Processes that write to one log as fast as they can, and are killed.
    @Suite("The log of processes that are killed", .timeLimit(.minutes(5)))
    struct RingLogCrashTests {
        private static let variable = "CULVERT_TEST_LOGS"
        private static let geometry = RingLogGeometry(slotByteCount: 256, slotCount: 16_384)

        /// Returns text of one to five slots, in which parts of other messages would be detected.
        private static func message(_ writer: Int, _ number: Int) -> String {
            let word = "\(writer).\(number)"
            return "\(word) " + String(repeating: "<\(word)>", count: 1 + number % 97) + " end"
        }

        private static func record(_ writer: Int, _ number: Int) -> LogRecord {
            LogRecord(
                time: Int64(number), level: .info, origin: .extension, processID: getpid(), label: "test",
                message: message(writer, number))
        }

        /// The writer and the number in a message, or `nil` if it is incomplete.
        private static func parse(_ text: String) -> (writer: Int, number: Int)? {
            let words = text.prefix { $0 != " " }.split(separator: ".").compactMap { Int($0) }
            guard words.count == 2, text == message(words[0], words[1]) else { return nil }
            return (words[0], words[1])
        }

        private func start(_ path: String, _ writer: Int) throws -> SpawnedProcess {
            try SpawnedProcess([
                "env", "\(Self.variable)=\(writer) \(path)",
                try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"),
                "--testing-library", "swift-testing", "--filter", "RingLogCrashTests/child",
            ])
        }

        @Test("No torn record is shown, and only the records that the killed writers were overwriting are lost")
        func killed() throws {
            let folder = try TemporaryFolder()
            let path = folder.path + "/log"
            let log = try RingLogFile(path: path, geometry: Self.geometry)
            var first = 0
            for round in 0..<4 {
                let writers = try [start(path, 2 * round), start(path, 2 * round + 1)]
                // Wait until both have written and the ring has wrapped.
                let goal = first + 3 * Self.geometry.slotCount / 2
                try eventually("both write", within: .seconds(120), pollEvery: .milliseconds(200)) {
                    let newest = log.records().last.map { Int($0.sequence) } ?? 0
                    return newest > goal && writers.allSatisfy { $0.outputSoFar.contains("writing") }
                }
                for writer in writers { writer.kill() }
                let reader = try RingLogFile(readingFrom: path)
                let records = reader.records()
                #expect(records == reader.records(), "no process writes any longer")
                #expect(zip(records, records.dropFirst()).allSatisfy { $0.sequence < $1.sequence })
                var numbers: [Int: [Int]] = [:]
                // If a writer was stopped before it wrote, the record that it would have replaced remains.
                let last = reader.content.lastSequence
                let oldest = last - min(last, UInt64(Self.geometry.slotCount))
                for record in records {
                    let parsed = try #require(Self.parse(record.message), "torn: \(record.message.prefix(80))")
                    #expect(!record.isCut)
                    if record.sequence > oldest { numbers[parsed.writer, default: []].append(parsed.number) }
                }
                // A writer that was stopped while the ring wrapped completely overwrites newer records: at most one for
                // each writer.
                var holes = 0
                for (_, numbers) in numbers {
                    #expect(numbers == numbers.sorted())
                    if let low = numbers.first, let high = numbers.last { holes += high - low + 1 - numbers.count }
                }
                #expect(holes <= 2 * 6, "\(holes) records are lost of \(records.count)")
                print(
                    "round \(round): \(records.count) records of \(numbers.count) killed processes are whole,",
                    "\(holes) lost between them")
                // Later writers continue after their last record.
                let newest = try #require(records.last?.sequence)
                let next = try #require(
                    try RingLogFile(path: path).append(
                        Self.record(1000 + round, 1)))
                #expect(next > newest)
                #expect(log.records().last?.sequence == next)
                first = Int(next)
            }
        }

        @Test(
            "(the process that logs)",
            .enabled(if: ProcessInfo.processInfo.environment[variable] != nil, "is started by another test"))
        func child() throws {
            let words = try #require(ProcessInfo.processInfo.environment[Self.variable]).split(separator: " ")
            let writer = try #require(Int(words[0]))
            let log = try RingLogFile(path: String(words[1]))
            FileHandle.standardOutput.write(Data("writing\n".utf8))
            var number = 0
            // Write until the process is killed.
            while number < .max {
                log.append(
                    Self.record(writer, number))
                number += 1
            }
        }
    }
#endif
