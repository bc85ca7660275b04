// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnelTesting
import Testing

@testable import PacketTunnel

@Suite("Lines of the log")
struct LogRecordTests {
    static func record(_ message: String, fields: [LogRecord.Field] = []) -> LogRecord {
        LogRecord(
            time: 1_763_739_501_123_456_789, level: .info, origin: .extension, processID: 42, label: "wireguard",
            message: message, fields: fields)
    }

    @Test("A record is written as text")
    func text() {
        let record = Self.record("handshake done", fields: [LogRecord.Field("peer", "3")])
        #expect(record.description == "2025-11-21T15:38:21.123456Z TUNNEL info wireguard: handshake done peer=3")
    }

    @Test("As JSON, which a reader takes back")
    func json() throws {
        let record = Self.record("a \"b\"\n\u{1b}[31m \\ é", fields: [LogRecord.Field("k\t", "v")])
        let expected =
            #"{"sequence":0,"time":"2025-11-21T15:38:21.123456Z","level":"info","origin":"tunnel","pid":42,"#
            + #""label":"wireguard","message":"a \"b\"\n\u001b[31m \\ é","metadata":{"k\u0009":"v"}}"#
        #expect(record.json == expected)
        struct Line: Decodable { var message: String }
        #expect(try MessageCoding.decode(Line.self, from: Array(record.json.utf8)).message == record.message)
    }

    @Test("Control characters do not reach a terminal")
    func controls() {
        let text = Self.record("a\u{1b}[2Jb\nc\u{7f}\u{202e}\u{9b}").description
        #expect(text.hasSuffix("a\\u{1b}[2Jb\n    c\\u{7f}\\u{202e}\\u{9b}"))
    }

    @Test(
        "Times are shown in UTC",
        arguments: [
            (Int64(0), "1970-01-01T00:00:00.000000Z"), (-1, "1969-12-31T23:59:59.999999Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00.000000Z"),
            (4_107_542_399_999_999_000, "2100-02-28T23:59:59.999999Z"), (.max, "2262-04-11T23:47:16.854775Z"),
            (.min, "1677-09-21T00:12:43.145224Z"),
        ])
    func timestamps(nanoseconds: Int64, expected: String) {
        #expect(Timestamp.text(nanoseconds) == expected)
    }

    @Test("An encoded record decodes to the same value, at every level and origin")
    func roundTrip() {
        for level in Logger.Level.allCases {
            for origin in LogOrigin.allCases {
                var record = Self.record("grüezi", fields: [LogRecord.Field("a", ""), LogRecord.Field("", "b")])
                (record.level, record.origin) = (level, origin)
                #expect(LogRecord(decoding: record.encoded(limit: 1_000), sequence: 0) == record)
            }
        }
    }

    @Test("A record fits any limit with room for one, and marks what was cut", arguments: [40, 60, 100, 232, 1_000])
    func cutting(limit: Int) throws {
        var generator = SeededGenerator(seed: UInt64(limit))
        for _ in 0..<200 {
            let message = String(repeating: "é", count: generator.int(in: 0...limit))
            let fields = (0..<generator.int(in: 0...4)).map {
                LogRecord.Field("key\($0)", String(repeating: "ü", count: generator.int(in: 0...limit)))
            }
            let record = Self.record(message, fields: fields)
            let bytes = record.encoded(limit: limit)
            #expect(bytes.count <= limit)
            let decoded = try #require(LogRecord(decoding: bytes, sequence: 1))
            #expect(
                decoded.isCut
                    == (decoded.message != message || decoded.fields != fields || decoded.label != record.label))
            #expect(!decoded.message.contains("\u{fffd}"))
            if decoded.message != message, limit >= 100 { #expect(decoded.message.hasSuffix("bytes in all]")) }
        }
    }

    @Test("Damaged bytes give a record or nothing")
    func damaged() {
        let bytes = Self.record("message", fields: [LogRecord.Field("a", "b")]).encoded(limit: 500)
        var generator = SeededGenerator(seed: 9)
        for count in 0..<bytes.count { #expect(LogRecord(decoding: Array(bytes.prefix(count)), sequence: 1) == nil) }
        for _ in 0..<5_000 {
            var damaged = bytes
            damaged[generator.int(in: 0..<bytes.count)] = UInt8(truncatingIfNeeded: generator.next())
            // An invalid UTF-8 byte takes three bytes.
            let record = LogRecord(decoding: damaged, sequence: 1)
            #expect((record?.encoded(limit: 5_000).count ?? 0) <= 3 * damaged.count)
        }
    }
}
