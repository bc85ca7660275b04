// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnelTesting
import Testing

@testable import PacketTunnel

@Suite("Log handlers")
struct LogHandlerTests {
    private static let key = "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="

    private struct Failure: Error, CustomStringConvertible {
        var description: String { "token=abc" }
    }

    private func makeLogger(_ file: RingLogFile, level: Logger.Level = .info) -> Logger {
        Logger(label: "culvert.tunnel") { label in
            RedactingLogHandler(label: label, origin: .daemon, logLevel: level, sinks: [file], now: { 1_000 })
        }
    }

    @Test("A logger's message is in the file, with its metadata")
    func ringFile() throws {
        let directory = try ScratchDirectory()
        let file = try RingLogFile(path: directory.file("log"))
        var logger = makeLogger(file)
        logger[metadataKey: "tunnel"] = "office"
        logger[metadataKey: "n"] = "1"
        logger.debug("too quiet")
        logger.warning("hello", metadata: ["n": "2"])
        let record = try #require(file.records().first)
        #expect(file.records().count == 1)
        #expect(record.level == .warning)
        #expect(record.origin == .daemon)
        #expect(record.label == "culvert.tunnel")
        #expect(record.message == "hello")
        #expect(record.time == 1_000)
        #expect(record.processID > 0)
        #expect(record.fields == [LogRecord.Field("n", "2"), LogRecord.Field("tunnel", "office")])
    }

    @Test("A copy of a logger has its own metadata and level")
    func valueSemantics() throws {
        let directory = try ScratchDirectory()
        let file = try RingLogFile(path: directory.file("log"))
        let first = makeLogger(file)
        var second = first
        second.logLevel = .error
        second[metadataKey: "only"] = "second"
        #expect(first.logLevel == .info)
        #expect(first[metadataKey: "only"] == nil)
        first.info("first")
        second.info("second")
        #expect(file.records().map(\.message) == ["first"])
    }

    @Test("No secret reaches the file: not in message, metadata, error, provider or label")
    func redaction() throws {
        let directory = try ScratchDirectory()
        let file = try RingLogFile(path: directory.file("log"))
        let provider = Logger.MetadataProvider { ["provided": .string(Self.key), "password": "hunter2"] }
        var logger = Logger(label: "token=abc \(Self.key)") { label in
            RedactingLogHandler(label: label, origin: .app, metadataProvider: provider, sinks: [file])
        }
        logger[metadataKey: "own"] = .array([.string("PrivateKey = \(Self.key)")])
        logger.error("pt=hunter2 \(Self.key)", error: Failure(), metadata: ["x": .dictionary(["psk": "hunter2"])])
        logger.error("\(String(repeating: "long ", count: 5_000))\(Self.key)")
        let bytes = try directory.read("log")
        for secret in [Self.key, "hunter2", "token=abc", String(Self.key.prefix(12))] {
            let pattern = Array(secret.utf8)
            #expect(
                !bytes.indices.dropLast(pattern.count).contains {
                    bytes[$0] == pattern[0] && bytes[$0..<$0 + pattern.count].elementsEqual(pattern)
                })
        }
        #expect(file.records().count == 2)
        #expect(file.records()[0].fields.contains(LogRecord.Field("error", "token=[redacted]")))
    }

    @Test("An event is redacted once, and each sink gets the same record")
    func sinks() {
        struct Recorder: LogSink {
            let records = Eavesdropper<LogRecord>()
            func write(_ record: LogRecord) { records.observe(record) }
        }
        let (first, second, calls) = (Recorder(), Recorder(), Eavesdropper<Void>())
        let provider = Logger.MetadataProvider {
            calls.observe(())
            return ["token": "hunter2"]
        }
        let logger = Logger(label: "culvert") { label in
            RedactingLogHandler(label: label, logLevel: .warning, metadataProvider: provider, sinks: [first, second])
        }
        logger.info("too quiet")
        logger.warning("pt=hunter2")
        #expect(first.records.messages == second.records.messages)
        #expect(first.records.messages.map(\.message) == ["pt=[redacted]"])
        #expect(first.records.messages.map(\.fields) == [[LogRecord.Field("token", "[redacted]")]])
        #expect(first.records.messages.map(\.origin) == [.other])
        #expect(calls.count == 1)
    }

    // MARK: - Standard error

    private func lines(_ environment: [String: String], _ body: (Logger) -> Void) -> [String] {
        let written = Eavesdropper<[UInt8]>()
        body(
            Logger(label: "culvert") { label in
                RedactingLogHandler(
                    label: label, logLevel: StandardErrorSink.level(named: environment["CULVERT_LOG"]) ?? .info,
                    sinks: [StandardErrorSink(environment: { environment[$0] }, output: { written.observe($0) })])
            })
        return written.messages.map { String(decoding: $0, as: UTF8.self) }
    }

    @Test("On a terminal lines begin with the level, in a service with the journal's priority")
    func styles() {
        #expect(lines([:]) { $0.error("bad", metadata: ["n": "1"]) } == ["error: culvert: bad n=1\n"])
        let journal = ["JOURNAL_STREAM": "8:1", "CULVERT_LOG": "trace"]
        let all = lines(journal) { logger in
            for level in Logger.Level.allCases { logger.log(level: level, "x") }
        }
        #expect(all == ["<7>", "<7>", "<6>", "<5>", "<4>", "<3>", "<2>"].map { $0 + "culvert: x\n" })
        #expect(lines(journal) { $0.error("a\nb") } == ["<3>culvert: a\n<3>    b\n"])
    }

    @Test("The environment sets the level")
    func level() {
        func levels(_ value: String?) -> [String] {
            lines(value.map { ["CULVERT_LOG": $0] } ?? [:]) { logger in
                for level in Logger.Level.allCases { logger.log(level: level, "x") }
            }.map { String($0.prefix { $0 != ":" }) }
        }
        #expect(levels(nil) == ["info", "notice", "warning", "error", "critical"])
        #expect(levels("nonsense") == levels(nil))
        #expect(levels("ERROR") == ["error", "critical"])
        #expect(levels("trace").count == 7)
    }

    @Test("Standard error gets no secrets and no control characters")
    func standardErrorIsClean() {
        let written = lines([:]) { $0.info("\u{1b}[2J \(Self.key) token=abc", metadata: ["psk": "abc"]) }
        #expect(written == ["info: culvert: \\u{1b}[2J [redacted key] token=[redacted] psk=[redacted]\n"])
    }
}
