// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnelTesting
import Testing

@testable import PacketTunnel

@Suite("Following the log")
struct RingLogFollowTests {
    private static let geometry = RingLogGeometry(slotByteCount: 128, slotCount: 16)

    @Test("New records come in order, as they are written, from every process")
    func follow() async throws {
        let directory = try ScratchDirectory()
        let file = try RingLogFile(path: directory.file("log"), geometry: Self.geometry)
        let other = try RingLogFile(path: directory.file("log"))
        file.append(LogRecordTests.record("past"))
        let clock = VirtualClock()
        let reader = try RingLogFile(readingFrom: directory.file("log"))
        let task = Task {
            var seen: [String] = []
            for await record in reader.follow(clock: clock) {
                seen.append(record.message)
                if seen.count == 6 { break }
            }
            return seen
        }
        await clock.waitForSleepers()
        file.append(LogRecordTests.record("1"))
        other.append(LogRecordTests.record("2"))
        clock.advance(by: .milliseconds(200))
        await clock.waitForSleepers()
        for number in 3...6 { (number % 2 == 0 ? file : other).append(LogRecordTests.record("\(number)")) }
        clock.advance(by: .milliseconds(200))
        #expect(await task.value == ["1", "2", "3", "4", "5", "6"])
    }

    @Test("With the past, and cancelled in the end")
    func pastAndCancellation() async throws {
        let directory = try ScratchDirectory()
        let file = try RingLogFile(path: directory.file("log"), geometry: Self.geometry)
        for number in 0..<40 { file.append(LogRecordTests.record("\(number)")) }
        let clock = VirtualClock()
        let task = Task {
            var seen: [String] = []
            for await record in file.follow(includingPast: true, clock: clock) { seen.append(record.message) }
            return seen
        }
        await clock.waitForSleepers()
        task.cancel()
        #expect(await task.value == (24..<40).map { "\($0)" })
    }

    @Test("A slow reader continues with the oldest record that remains")
    func slowReader() throws {
        let directory = try ScratchDirectory()
        let file = try RingLogFile(path: directory.file("log"), geometry: Self.geometry)
        var cursor = RingLogCursor(file: file, position: 0)
        file.append(LogRecordTests.record("0"))
        #expect(cursor.read().map(\.message) == ["0"])
        for number in 1...50 { file.append(LogRecordTests.record("\(number)")) }
        #expect(cursor.read().map(\.message) == (35...50).map { "\($0)" })
        #expect(cursor.read().isEmpty)
    }

    @Test("A number without a record is waited for, and then passed over")
    func missingRecord() throws {
        let directory = try ScratchDirectory()
        let file = try RingLogFile(path: directory.file("log"), geometry: Self.geometry)
        var cursor = RingLogCursor(file: file, position: 0)
        file.append(LogRecordTests.record("before"))
        // A writer that took a number and was killed.
        #expect(file.content.reserve(1) == 2)
        file.append(LogRecordTests.record("after"))
        #expect(cursor.read().map(\.message) == ["before"])
        var rounds = 0
        var seen: [String] = []
        while seen.isEmpty, rounds < 20 {
            seen = cursor.read().map(\.message)
            rounds += 1
        }
        #expect(seen == ["after"])
        #expect((2...10).contains(rounds))
    }

    @Test("Clearing does not stop who follows")
    func clearing() throws {
        let directory = try ScratchDirectory()
        let file = try RingLogFile(path: directory.file("log"), geometry: Self.geometry)
        var cursor = RingLogCursor(file: file, position: 0)
        file.append(LogRecordTests.record("hidden"))
        file.clear()
        file.append(LogRecordTests.record("seen"))
        #expect(cursor.read().map(\.message) == ["seen"])
    }
}
