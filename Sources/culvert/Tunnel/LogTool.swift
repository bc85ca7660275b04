// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import Logging
import PacketTunnel
import TunnelSystem

/// Implements `culvert log`.
struct LogTool: Sendable {
    var runtime: RuntimeDirectory
    var console: Console
    var level: Logger.Level = .trace
    var json = false
    var lines: Int?

    /// Opens the log of a tunnel; `nil` opens the only one.
    func open(_ tunnel: String?) throws(CommandProblem) -> RingLogFile {
        let logs = try runtime.logs()
        var name: String?
        if let tunnel { name = try TunnelName.of(argument: tunnel) } else if logs.count == 1 { name = logs.first }
        guard let name else {
            throw CommandProblem(
                logs.isEmpty ? ExitStatus.notFound : ExitStatus.usage,
                logs.isEmpty ? "there is no log in \(runtime.path)" : "name one of: \(logs.joined(separator: ", "))")
        }
        guard logs.contains(name) else {
            throw CommandProblem(ExitStatus.notFound, "tunnel '\(name)' has no log in \(runtime.path)")
        }
        do throws(RingLogError) {
            return try RingLogFile(readingFrom: runtime.log(name))
        } catch {
            throw CommandProblem(ExitStatus.failure, "\(error)")
        }
    }

    /// The tunnel whose log this user may not read but may get from its process; `nil` otherwise.
    func tunnelToAsk(_ tunnel: String?) throws(CommandProblem) -> String? {
        guard let tunnel else { return nil }
        let name = try TunnelName.of(argument: tunnel)
        let log = runtime.log(name)
        guard unsafe access(log, F_OK) == 0, unsafe access(log, R_OK) != 0 else { return nil }
        return name
    }

    /// Prints the log.
    /// - Returns: the number of the last record.
    func show(_ file: RingLogFile) -> UInt64 {
        let records = file.records()
        for record in selected(records) { console.line(line(record)) }
        return records.last?.sequence ?? 0
    }

    /// Prints new records until the task is cancelled.
    func follow(_ file: RingLogFile, after last: UInt64) async {
        for await record in file.follow(after: last) where record.level >= level {
            console.line(line(record))
        }
    }

    /// Writes the log to a new file.
    func export(_ file: RingLogFile, to path: String) throws(CommandProblem) {
        let text = selected(file.records()).map { (json ? $0.json : $0.description) + "\n" }.joined()
        let descriptor = SystemCall.open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
        guard descriptor >= 0 else {
            throw CommandProblem(
                SystemError.isDenied(errno) ? ExitStatus.notPermitted : ExitStatus.usage,
                "\(path): \(SystemError.words(errno))")
        }
        defer { close(descriptor) }
        guard SystemCall.writeAll(descriptor, Array(text.utf8)) else {
            throw CommandProblem(ExitStatus.failure, "\(path): \(SystemError.words(errno))")
        }
    }

    private func selected(_ records: [LogRecord]) -> ArraySlice<LogRecord> {
        records.filter { $0.level >= level }.suffix(lines ?? .max)
    }

    /// A record as a line: JSON, or text with the level in its colour.
    func line(_ record: LogRecord) -> String {
        json ? record.json : coloured(record.description, record.level)
    }

    /// Colours a line by its level, if colours are on.
    func coloured(_ text: String, _ level: Logger.Level) -> String {
        let word = " \(level.rawValue) "
        guard console.isLive, let colour = Self.colour(level), let range = text.firstRange(of: word) else {
            return text
        }
        return text.replacingCharacters(range, with: " " + Paint(console)(level.rawValue, colour) + " ")
    }

    private static func colour(_ level: Logger.Level) -> Paint.Colour? {
        switch level {
        case .trace, .debug: .grey
        case .info: nil
        case .notice: .cyan
        case .warning: .yellow
        case .error, .critical: .red
        }
    }
}

extension String {
    fileprivate func replacingCharacters(_ range: Range<String.Index>, with text: String) -> String {
        String(self[..<range.lowerBound]) + text + String(self[range.upperBound...])
    }
}
