// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnelTesting
import Testing

@testable import PacketTunnel

@Suite("The log's ring file")
struct RingLogFileTests {
    static let small = RingLogGeometry(slotByteCount: 128, slotCount: 16)

    private func messages(_ file: RingLogFile) -> [String] { file.records().map(\.message) }

    @Test("An appended record can be read, by this process and by others that open the file")
    func appendAndRead() throws {
        let directory = try ScratchDirectory()
        let app = try RingLogFile(path: directory.file("log"))
        let tunnel = try RingLogFile(path: directory.file("log"))
        for number in 0..<10 {
            var record = LogRecordTests.record("message \(number)", fields: [LogRecord.Field("n", "\(number)")])
            record.origin = number % 2 == 0 ? .app : .extension
            #expect((number % 2 == 0 ? app : tunnel).append(record) == UInt64(number + 1))
        }
        let reader = try RingLogFile(readingFrom: directory.file("log"))
        for file in [app, tunnel, reader] {
            #expect(messages(file) == (0..<10).map { "message \($0)" })
            #expect(file.records().map(\.origin) == (0..<10).map { $0 % 2 == 0 ? .app : .extension })
        }
        #expect(!reader.isWritable)
        #expect(reader.append(LogRecordTests.record("no")) == nil)
    }

    @Test("The file is for its owner only and has its size from the beginning")
    func mode() throws {
        let directory = try ScratchDirectory()
        let file = try RingLogFile(path: directory.file("log"), geometry: Self.small)
        #expect(try directory.mode("log") == 0o600)
        #expect(try directory.read("log").count == 4096 + 16 * 128)
        withExtendedLifetime(file) {}
    }

    @Test("The newest push out the oldest")
    func wrapping() throws {
        let directory = try ScratchDirectory()
        let file = try RingLogFile(path: directory.file("log"), geometry: Self.small)
        for number in 1...100 {
            file.append(LogRecordTests.record("m\(number)"))
            let expected = (max(1, number - 15)...number).map { "m\($0)" }
            #expect(messages(file) == expected)
        }
    }

    @Test("Long records take several slots, and the longest are cut visibly")
    func longRecords() throws {
        let directory = try ScratchDirectory()
        let file = try RingLogFile(path: directory.file("log"))
        let long = String(repeating: "long ", count: 300)
        let endless = String(repeating: "endless ", count: 10_000)
        file.append(LogRecordTests.record("before"))
        file.append(LogRecordTests.record(long))
        file.append(LogRecordTests.record(endless))
        file.append(LogRecordTests.record("after"))
        let records = file.records()
        #expect(records.map(\.isCut) == [false, false, true, false])
        #expect(records[1].message == long)
        #expect(records[2].message.hasSuffix("... [80000 bytes in all]"))
        #expect(records[2].message.utf8.count > 7_000)
        #expect(records[3].message == "after")
    }

    @Test("A record of which the log kept only the end is left out")
    func partlyOverwritten() throws {
        let directory = try ScratchDirectory()
        let file = try RingLogFile(path: directory.file("log"), geometry: Self.small)
        file.append(LogRecordTests.record(String(repeating: "x", count: 100)))
        #expect(file.records().count == 1)
        for number in 0..<15 { file.append(LogRecordTests.record("\(number)")) }
        #expect(messages(file) == (0..<15).map { "\($0)" })
    }

    @Test("Clearing hides the present records, for every process, and not later ones")
    func clear() throws {
        let directory = try ScratchDirectory()
        let file = try RingLogFile(path: directory.file("log"), geometry: Self.small)
        let other = try RingLogFile(path: directory.file("log"))
        for number in 0..<5 { file.append(LogRecordTests.record("\(number)")) }
        file.clear()
        #expect(other.records().isEmpty)
        other.append(LogRecordTests.record("new"))
        #expect(messages(file) == ["new"])
    }

    @Test("The log is exported as text and as JSON lines")
    func export() throws {
        let directory = try ScratchDirectory()
        let file = try RingLogFile(path: directory.file("log"), geometry: Self.small)
        file.append(LogRecordTests.record("one"))
        file.append(LogRecordTests.record("two\nlines"))
        #expect(
            file.exportText() == """
                2025-11-21T15:38:21.123456Z TUNNEL info wireguard: one
                2025-11-21T15:38:21.123456Z TUNNEL info wireguard: two
                    lines

                """)
        let lines = file.exportJSONLines().split(separator: "\n")
        #expect(lines.count == 2)
        #expect(lines.allSatisfy { $0.hasPrefix("{") && $0.hasSuffix("}") })
    }

    @Test("Many threads and several openings append concurrently, and every record is whole")
    func concurrentAppends() async throws {
        let directory = try ScratchDirectory()
        let geometry = RingLogGeometry(slotByteCount: 128, slotCount: 4096)
        let files = try (0..<4).map { _ in try RingLogFile(path: directory.file("log"), geometry: geometry) }
        await withTaskGroup(of: Void.self) { group in
            for (index, file) in files.enumerated() {
                group.addTask {
                    for number in 0..<200 {
                        let text = String(repeating: "\(index)", count: number) + "/\(index)/\(number)"
                        file.append(LogRecordTests.record(text))
                    }
                }
            }
        }
        let records = files[0].records()
        #expect(records.count == 800)
        for index in 0..<4 {
            let own = records.map(\.message).filter { $0.contains("/\(index)/") }
            #expect(own == (0..<200).map { String(repeating: "\(index)", count: $0) + "/\(index)/\($0)" })
        }
    }
}
