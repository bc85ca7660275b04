// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import Logging
import PacketTunnel

/// Asks a tunnel's service for lines of its log, for users who may not read its file.
struct LogRequest: TunnelMessage {
    struct Line: Codable, Sendable {
        var sequence: UInt64
        var level: String
        /// As it is shown.
        var text: String
    }

    struct Reply: Codable, Sendable {
        /// At most ``mostLines`` of those that were asked for, the oldest first.
        var lines: [Line]
    }

    static let name = "culvert.service.log"
    /// They fit into a message, however long they are.
    static let mostLines = 64

    /// Those after the one with this number.
    var after: UInt64
    /// The least level.
    var level: String
    /// Whether each is a JSON object.
    var json: Bool
}

extension LogRequest.Reply {
    init(_ request: LogRequest, _ log: RingLogFile) {
        let level = Logger.Level(rawValue: request.level) ?? .trace
        let records = log.records().filter { $0.sequence > request.after && $0.level >= level }
        lines = records.prefix(LogRequest.mostLines).map { record in
            LogRequest.Line(
                sequence: record.sequence, level: record.level.rawValue,
                text: request.json ? record.json : record.description)
        }
    }
}

// The log by way of the tunnel's process.
extension LogTool {
    /// Shows what is there, and where it `follows`, what is written until the task is cancelled or the process ends.
    func show(from channel: UnixTunnelChannel, _ name: String, follows: Bool) async throws(CommandProblem) {
        var last: UInt64 = 0
        var isFirst = true
        while true {
            var new: [LogRequest.Line] = []
            do throws(MessageError) {
                while true {
                    let request = LogRequest(after: last, level: level.rawValue, json: json)
                    let lines = try await channel.messages.send(request, timeout: .seconds(10)).lines
                    new += lines
                    last = lines.last?.sequence ?? last
                    guard lines.count == LogRequest.mostLines else { break }
                }
            } catch {
                if Task.isCancelled || (error == .closed && !isFirst) { return }
                throw Self.problem(error, name)
            }
            for line in isFirst ? new.suffix(lines ?? .max)[...] : new[...] { console.line(coloured(line)) }
            isFirst = false
            guard follows, (try? await Task.sleep(for: .milliseconds(500))) != nil else { return }
        }
    }

    private func coloured(_ line: LogRequest.Line) -> String {
        json ? line.text : coloured(line.text, Logger.Level(rawValue: line.level) ?? .info)
    }

    private static func problem(_ error: MessageError, _ name: String) -> CommandProblem {
        switch error {
        case .closed: CommandProblem(ExitStatus.notFound, "tunnel '\(name)' is not up, and only root may read its log")
        case .notPermitted(let reason): CommandProblem(ExitStatus.notPermitted, "\(reason)\n  fix: run as root")
        default: CommandProblem(ExitStatus.failure, "\(name): \(error)")
        }
    }
}
