// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CommandLineTesting
import Foundation
import Logging
import PacketTunnel
import Testing

@testable import culvert

@Suite("culvert log", .timeLimit(.minutes(2)))
struct LogToolTests {
    private let folder: ScratchFolder
    private let captured = CapturedConsole()

    init() throws { folder = try ScratchFolder() }

    private func tool(isLive: Bool = false, _ change: (inout LogTool) -> Void = { _ in }) -> LogTool {
        var tool = LogTool(runtime: RuntimeDirectory(path: folder.path), console: captured.console(isLive: isLive))
        change(&tool)
        return tool
    }

    @discardableResult
    private func makeLog(_ name: String = "wg0") throws -> RingLogFile {
        let file = try RingLogFile(path: folder.path + "/\(name).log")
        for (index, level) in [Logger.Level.debug, .info, .warning, .error].enumerated() {
            file.append(record(level, "message \(index)"))
        }
        return file
    }

    private func record(_ level: Logger.Level, _ message: String) -> LogRecord {
        LogRecord(time: 0, level: level, origin: .daemon, processID: 1, label: "wg0", message: message)
    }

    @Test("All of it, by level, and the last lines")
    func selection() throws {
        try makeLog()
        let all = tool()
        #expect(all.show(try all.open("wg0")) == 4)
        #expect(captured.output.split(separator: "\n").count == 4)
        #expect(captured.output.hasPrefix("1970-01-01T00:00:00.000000Z DAEMON debug wg0: message 0\n"))
        let some = CapturedConsole()
        var tool = tool { $0.level = .info }
        tool.console = some.console()
        tool.lines = 2
        _ = tool.show(try tool.open(nil))
        #expect(some.output.split(separator: "\n").map { $0.suffix(1) } == ["2", "3"])
        #expect(!some.output.contains("\u{1b}"))
    }

    @Test("Levels have colours on a terminal; JSON has none")
    func forms() throws {
        let live = tool(isLive: true)
        #expect(live.line(record(.error, "x")).contains(" \u{1b}[31merror\u{1b}[0m wg0: x"))
        #expect(!live.line(record(.info, "x")).contains("\u{1b}"))
        let json = tool(isLive: true) { $0.json = true }
        let object = try JSONSerialization.jsonObject(with: Data(json.line(record(.error, "x")).utf8)) as? [String: Any]
        #expect(object?["level"] as? String == "error" && object?["message"] as? String == "x")
    }

    @Test("A followed log prints the existing records once, then the new ones")
    func follow() async throws {
        let file = try makeLog()
        let tool = tool { $0.level = .warning }
        let opened = try tool.open("wg0")
        let last = tool.show(opened)
        file.append(record(.error, "between"))
        let following = Task { await tool.follow(opened, after: last) }
        file.append(record(.info, "not this"))
        file.append(record(.critical, "later"))
        #expect(await captured.waits { $0.contains("later") })
        following.cancel()
        await following.value
        #expect(
            captured.output.split(separator: "\n").compactMap { $0.components(separatedBy: "wg0: ").last }
                == ["message 2", "message 3", "between", "later"])
    }

    @Test("A log is exported to a new file that only its owner can read")
    func export() throws {
        try makeLog()
        let tool = tool()
        let path = folder.path + "/out.txt"
        try tool.export(try tool.open("wg0"), to: path)
        let text = try String(contentsOfFile: path, encoding: .utf8)
        #expect(text.split(separator: "\n").count == 4)
        #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600)
        #expect(throws: CommandProblem.self) { try tool.export(try tool.open("wg0"), to: path) }
    }

    @Test("No log, or several logs, is an error")
    func choice() throws {
        func status(_ name: String?) -> Int32? {
            do throws(CommandProblem) { _ = try tool().open(name) } catch { return error.status }
            return nil
        }
        #expect(status(nil) == ExitStatus.notFound)
        try makeLog()
        #expect(status(nil) == nil)
        #expect(status("./wg0.conf") == nil)
        #expect(status("wg1") == ExitStatus.notFound)
        try makeLog("wg1")
        #expect(status(nil) == ExitStatus.usage)
        #expect(status("../x") == ExitStatus.usage)
        try folder.write("no log", to: "wg2.log")
        #expect(status("wg2") == ExitStatus.failure)
    }
}
