// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Logging
import PacketTunnelTesting
import Testing
import TunnelSystem

@testable import PacketTunnel

/// logrotate's `copytruncate` copies a log and truncates it while its writer runs. A mapped log then killed the tunnel with SIGBUS
/// at its next line.
@Suite("Log files that another program truncates", .timeLimit(.minutes(1)))
struct RingLogTruncationTests {
    private static let geometry = RingLogGeometry(slotByteCount: 128, slotCount: 16)
    private static let whole = geometry.fileByteCount

    private static func truncate(_ path: String, to byteCount: Int) throws {
        let file = OwnedDescriptor(SystemCall.open(path, O_WRONLY))
        try SystemCall.check("ftruncate") { ftruncate(file.number, off_t(byteCount)) }
    }

    private func messages(_ file: RingLogFile) -> [String] { file.records().map(\.message) }

    @Test(
        "A truncated log continues with the next record, for writers, readers and followers",
        arguments: [0, 10, 70, 4096, 4096 + 5 * 128, whole - 1])
    func continues(_ byteCount: Int) throws {
        let directory = try ScratchDirectory()
        let writer = try RingLogFile(path: directory.file("log"), geometry: Self.geometry)
        let other = try RingLogFile(path: directory.file("log"))
        let reader = try RingLogFile(readingFrom: directory.file("log"))
        for number in 0..<40 { writer.append(LogRecordTests.record("\(number)")) }
        var cursor = RingLogCursor(file: reader, position: 0)
        #expect(cursor.read().last?.message == "39")
        try Self.truncate(directory.file("log"), to: byteCount)
        #expect(cursor.read().isEmpty)
        _ = (reader.records(), writer.records(), other.exportText())
        // The other writer has not written yet, and continues the numbers all the same.
        #expect(writer.append(LogRecordTests.record("first")) == 41)
        #expect(other.append(LogRecordTests.record("second")) == 42)
        #expect(try directory.read("log").count == Self.whole)
        let opened = try RingLogFile(readingFrom: directory.file("log"))
        for file in [writer, other, reader, opened] { #expect(messages(file) == ["first", "second"]) }
        #expect(cursor.read().map(\.message) == ["first", "second"])
    }

    @Test("Records that were cleared away stay hidden, and clearing a truncated log does no harm")
    func clearing() throws {
        let directory = try ScratchDirectory()
        let file = try RingLogFile(path: directory.file("log"), geometry: Self.geometry)
        for number in 0..<5 { file.append(LogRecordTests.record("\(number)")) }
        try Self.truncate(directory.file("log"), to: 0)
        file.clear()
        #expect(messages(file).isEmpty)
        #expect(file.append(LogRecordTests.record("after")) == 6)
        #expect(messages(file) == ["after"])
        file.clear()
        #expect(messages(file).isEmpty)
    }

    @Test("A writer that opens a log and finds it truncated before its first record continues the numbers")
    func reopened() throws {
        let directory = try ScratchDirectory()
        try RingLogFile(path: directory.file("log"), geometry: Self.geometry).append(LogRecordTests.record("before"))
        let file = try RingLogFile(path: directory.file("log"))
        try Self.truncate(directory.file("log"), to: 0)
        #expect(file.append(LogRecordTests.record("after")) == 2)
    }

    @Test(
        "Readers take an empty or blank file for a log without records, and show later records",
        arguments: [0, 4096])
    func emptyFile(_ byteCount: Int) throws {
        let directory = try ScratchDirectory()
        try directory.write([UInt8](repeating: 0, count: byteCount), to: "log")
        let reader = try RingLogFile(readingFrom: directory.file("log"))
        #expect(reader.records().isEmpty)
        var cursor = RingLogCursor(file: reader, position: 0)
        #expect(cursor.read().isEmpty)
        let writer = try RingLogFile(path: directory.file("log"))
        writer.append(LogRecordTests.record("first"))
        #expect(messages(reader) == ["first"])
        #expect(cursor.read().map(\.message) == ["first"])
    }

    @Test("Bytes that another program appends are cut off, and cost no record")
    func appended() throws {
        let directory = try ScratchDirectory()
        let file = try RingLogFile(path: directory.file("log"), geometry: Self.geometry)
        file.append(LogRecordTests.record("before"))
        try directory.write(Array("noise".utf8), to: "log", at: Self.whole)
        file.append(LogRecordTests.record("after"))
        #expect(messages(try RingLogFile(readingFrom: directory.file("log"))) == ["before", "after"])
    }

    @Test("Writers survive truncations at any moment, and no record is torn")
    func races() async throws {
        let directory = try ScratchDirectory()
        let path = directory.file("log")
        let files = try (0..<3).map { _ in try RingLogFile(path: directory.file("log"), geometry: Self.geometry) }
        let reader = try RingLogFile(readingFrom: directory.file("log"))
        let text = String(repeating: "text ", count: 30)
        await withTaskGroup(of: Void.self) { group in
            for file in files {
                group.addTask { for number in 0..<300 { file.append(LogRecordTests.record("\(number) \(text)")) } }
            }
            group.addTask {
                for number in 0..<300 {
                    try? Self.truncate(path, to: number % 3 * 2500)
                    #expect(reader.records().allSatisfy { $0.message.hasSuffix(text) })
                }
            }
        }
        files[0].append(LogRecordTests.record("last"))
        #expect(messages(reader).last == "last")
    }

    @Test("A writer does not wait for a stopped process that has the file's lock")
    func stuckLock() throws {
        let directory = try ScratchDirectory()
        let file = try RingLogFile(path: directory.file("log"), geometry: Self.geometry)
        let stopped = OwnedDescriptor(SystemCall.open(directory.file("log"), O_RDONLY))
        #expect(flock(stopped.number, LOCK_EX) == 0)
        let began = ContinuousClock.now
        for number in 0..<10 { file.append(LogRecordTests.record("\(number)")) }
        #expect(ContinuousClock.now - began < .seconds(10))
        #expect(messages(file) == (0..<10).map { "\($0)" })
        withExtendedLifetime(stopped) {}
    }
}
