// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
public import Logging
import TunnelSystem

/// Writes log lines to standard error, for services and commands.
///
/// If systemd passes standard error to its journal, each line begins with a priority that the journal reads, such as
/// `<3>` for an error. Otherwise it begins with the name of the level. Control characters are escaped.
public struct StandardErrorSink: LogSink {
    /// The environment variable that names the lowest level to write.
    public static let levelVariable = "CULVERT_LOG"

    private let isJournal: Bool
    private let output: @Sendable ([UInt8]) -> Void

    /// A sink whose style depends on `JOURNAL_STREAM` in the environment.
    public init() {
        self.init(environment: ProcessEnvironment.value) { bytes in SystemCall.writeAll(2, bytes) }
    }

    /// A sink in another environment, with another output.
    package init(environment: (String) -> String?, output: @escaping @Sendable ([UInt8]) -> Void) {
        isJournal = environment("JOURNAL_STREAM")?.isEmpty == false
        self.output = output
    }

    /// The least level that the environment names. The default is info.
    public static var level: Logger.Level { level(named: ProcessEnvironment.value(levelVariable)) ?? .info }

    /// The level of a name, in upper or lower case; `nil` if there is no such level.
    public static func level(named name: String?) -> Logger.Level? {
        name.flatMap { Logger.Level(rawValue: $0.lowercased()) }
    }

    /// Writes a record, in one call for all its lines.
    public func write(_ record: LogRecord) {
        let text = LogText.visible("\(record.label): \(record.messageAndFields)")
        guard isJournal else { return output(Array("\(record.level.rawValue): \(text)\n".utf8)) }
        // The journal makes a separate entry of each line, so each line needs its priority.
        let priority = "<\(Self.priority(of: record.level))>"
        output(Array(text.split(separator: "\n").map { "\(priority)\($0)\n" }.joined().utf8))
    }

    /// The priority of syslog.
    static func priority(of level: Logger.Level) -> Int {
        switch level {
        case .trace, .debug: 7
        case .info: 6
        case .notice: 5
        case .warning: 4
        case .error: 3
        case .critical: 2
        }
    }
}
