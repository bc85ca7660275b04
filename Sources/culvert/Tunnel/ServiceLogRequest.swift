// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import Logging
import PacketTunnel

/// Asks a tunnel's service for lines of its log, for users who may not read the log's file. A service answers it even
/// for users who may send nothing to the provider; the host answers PacketTunnel's `LogRequest`, for other users.
struct ServiceLogRequest: TunnelMessage {
    struct Line: Codable, Sendable {
        var sequence: UInt64
        var level: String
        /// The line as it is printed.
        var text: String
    }

    struct Reply: Codable, Sendable {
        /// The oldest ``mostLines`` of the requested lines, or all of them, the oldest first.
        var lines: [Line]
    }

    static let name = "culvert.service.log"
    /// The most lines in a reply. A message has room for this many lines of any length.
    static let mostLines = 64

    /// The sequence number after which the lines begin.
    var after: UInt64
    /// The least level.
    var level: String
    /// Whether each line is a JSON object.
    var json: Bool
}

extension ServiceLogRequest.Reply {
    init(_ request: ServiceLogRequest, _ log: RingLogFile) {
        let level = Logger.Level(rawValue: request.level) ?? .trace
        let records = log.records().filter { $0.sequence > request.after && $0.level >= level }
        lines = records.prefix(ServiceLogRequest.mostLines).map { record in
            ServiceLogRequest.Line(
                sequence: record.sequence, level: record.level.rawValue,
                text: request.json ? record.json : record.description)
        }
    }
}

// Prints the log that the tunnel's process sends.
extension LogTool {
    /// Prints the log; if it `follows`, also each new line until the task is cancelled or the process ends.
    func show(from channel: UnixTunnelChannel, _ name: String, follows: Bool) async throws(CommandProblem) {
        var last: UInt64 = 0
        var isFirst = true
        while true {
            var new: [ServiceLogRequest.Line] = []
            do throws(MessageError) {
                while true {
                    let request = ServiceLogRequest(after: last, level: level.rawValue, json: json)
                    let lines = try await channel.messages.send(request, timeout: .seconds(10)).lines
                    new += lines
                    last = lines.last?.sequence ?? last
                    guard lines.count == ServiceLogRequest.mostLines else { break }
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

    private func coloured(_ line: ServiceLogRequest.Line) -> String {
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
