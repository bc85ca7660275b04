// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnelTesting
import Testing

@testable import PacketTunnel

@Suite("Damaged log files")
struct RingLogDamageTests {
    private static let geometry = RingLogGeometry(slotByteCount: 128, slotCount: 16)

    /// Messages that need one or several slots each. The log of ``makeLog(_:)`` has all but the last two.
    private static let messages = (0..<8).map { "message \($0) " + String(repeating: "\($0)", count: $0 % 3 * 60) }

    private func makeLog(_ directory: ScratchDirectory) throws -> [UInt8] {
        let file = try RingLogFile(path: directory.file("log"), geometry: Self.geometry)
        for message in Self.messages.dropLast(2) { file.append(LogRecordTests.record(message)) }
        return try directory.read("log")
    }

    @Test("A writer that dies after any byte of a record leaves the others readable and nothing else")
    func tornAppends() throws {
        let directory = try ScratchDirectory()
        let before = try makeLog(directory)
        let file = try RingLogFile(path: directory.file("log"))
        let message = Self.messages[7]
        let expected = file.records().map(\.message)
        file.append(LogRecordTests.record(message))
        let after = try directory.read("log")
        let changed = before.indices.filter { before[$0] != after[$0] && $0 >= 4096 }
        #expect(changed.count > 50)
        // Any part that reached the file, in either order: a prefix of the changed bytes, or a suffix.
        for cut in 0...changed.count {
            for isPrefix in [true, false] {
                var torn = before
                for index in isPrefix ? changed[..<cut] : changed[cut...] { torn[index] = after[index] }
                try directory.write(torn, to: "log")
                let records = file.records().map(\.message)
                let isComplete = isPrefix ? cut == changed.count : cut == 0
                #expect(records == (isComplete ? expected + [message] : expected))
            }
        }
    }

    @Test("Any damaged byte of a slot costs the record that it is in, and no other record changes")
    func damagedBytes() throws {
        let directory = try ScratchDirectory()
        let bytes = try makeLog(directory)
        let file = try RingLogFile(path: directory.file("log"))
        let good = file.records()
        var generator = SeededGenerator(seed: 3)
        for offset in 4096..<bytes.count {
            let damage = UInt8(truncatingIfNeeded: generator.int(in: 1...255))
            try directory.write([bytes[offset] ^ damage], to: "log", at: offset)
            let records = file.records()
            #expect(records.count >= good.count - 1)
            #expect(records.allSatisfy { good.contains($0) })
            try directory.write([bytes[offset]], to: "log", at: offset)
        }
        #expect(file.records() == good)
    }

    @Test("Random damage anywhere but in the header never invents a record")
    func randomDamage() throws {
        let directory = try ScratchDirectory()
        let bytes = try makeLog(directory)
        let file = try RingLogFile(path: directory.file("log"))
        let good = file.records()
        var generator = SeededGenerator(seed: 4)
        for _ in 0..<500 {
            var damaged = bytes
            for _ in 0..<generator.int(in: 1...20) {
                let start = generator.int(in: 4096..<bytes.count)
                let noise = generator.bytes(generator.int(in: 1...200)).prefix(bytes.count - start)
                damaged.replaceSubrange(start..<start + noise.count, with: noise)
            }
            try directory.write(damaged, to: "log")
            #expect(file.records().allSatisfy { good.contains($0) })
        }
    }

    @Test("A slot that was copied over another is not taken for it")
    func movedSlots() throws {
        let directory = try ScratchDirectory()
        let bytes = try makeLog(directory)
        let file = try RingLogFile(path: directory.file("log"))
        let good = file.records()
        try directory.write(Array(bytes[4096..<4096 + 128]), to: "log", at: 4096 + 15 * 128)
        #expect(file.records() == good)
    }

    @Test("After damage to the counters, new records follow the present ones")
    func damagedCounters() throws {
        let directory = try ScratchDirectory()
        _ = try makeLog(directory)
        for value: [UInt8] in [[0, 0, 0, 0, 0, 0, 0, 0], [255, 255, 255, 255, 255, 255, 255, 255]] {
            try directory.write(value + value, to: "log", at: 64)
            let file = try RingLogFile(path: directory.file("log"))
            file.append(LogRecordTests.record("new"))
            #expect(file.records().last?.message == "new")
            #expect(file.records().count >= 2)
        }
    }

    @Test("Every damaged byte of the header is noticed, and the file can be replaced")
    func damagedHeader() throws {
        let directory = try ScratchDirectory()
        let bytes = try makeLog(directory)
        for offset in 0..<24 {
            try directory.write([bytes[offset] ^ 0x10], to: "log", at: offset)
            #expect(throws: RingLogError.self) { try RingLogFile(path: directory.file("log")) }
            #expect(throws: RingLogError.self) { try RingLogFile(readingFrom: directory.file("log")) }
            try directory.write([bytes[offset]], to: "log", at: offset)
        }
        try directory.write([0xff], to: "log", at: 21)
        let fresh = try RingLogFile(path: directory.file("log"), geometry: Self.geometry, ifInvalid: .recreate)
        #expect(fresh.records().isEmpty)
        fresh.append(LogRecordTests.record("again"))
        #expect(try RingLogFile(path: directory.file("log")).records().map(\.message) == ["again"])
        #expect(directory.names == ["log"])
    }

    @Test("Foreign files, other versions, wrong sizes and non-files have distinct errors")
    func otherFiles() throws {
        let directory = try ScratchDirectory()
        func outcome(_ name: String) -> RingLogError? {
            do throws(RingLogError) {
                _ = try RingLogFile(path: directory.file(name))
                return nil
            } catch {
                return error
            }
        }
        try directory.write(Array("# a configuration that nobody wants to lose".utf8), to: "conf")
        #expect(outcome("conf") == .foreign(path: directory.file("conf")))
        try directory.write([1], to: "tiny")
        #expect(outcome("tiny") == .foreign(path: directory.file("tiny")))

        let bytes = try makeLog(directory)
        try directory.write(Array(bytes.dropLast()), to: "short")
        #expect(
            outcome("short")
                == .corrupt(path: directory.file("short"), reason: "has 6143 bytes and should have 6144"))
        var later = bytes
        later[8] = 2
        try directory.write(later, to: "later")
        #expect(outcome("later") == .unsupportedVersion(path: directory.file("later"), version: 2))
        #expect(outcome("") == .notAFile(path: directory.file("")))
        #expect(throws: RingLogError.system(path: directory.file("none"), operation: "open", errno: 2)) {
            try RingLogFile(readingFrom: directory.file("none"))
        }
        // Only what recreating helps against is recreated.
        #expect(throws: RingLogError.notAFile(path: directory.path)) {
            try RingLogFile(path: directory.path, ifInvalid: .recreate)
        }
    }

    @Test("A log can be opened if its creator died before it wrote the header")
    func unfinishedFile() throws {
        let directory = try ScratchDirectory()
        try directory.write([], to: "empty")
        try directory.write([UInt8](repeating: 0, count: 6_144), to: "zero")
        for name in ["empty", "zero"] {
            let file = try RingLogFile(path: directory.file(name), geometry: Self.geometry)
            file.append(LogRecordTests.record("first"))
            #expect(file.records().count == 1)
        }
    }
}
