// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
public import PacketTunnel
import os

/// Writes log lines to the system's unified log.
///
/// The system shows each line completely, because ``RedactingLogHandler`` has removed the secrets. It keeps notices and
/// more severe lines for days, and info and debug lines in memory while a program reads them.
public struct UnifiedLogSink: LogSink {
    private let log: os.Logger

    /// A sink for one category.
    ///
    /// - Parameters:
    ///   - subsystem: The bundle identifier, or another name of that form, by which the messages can be found.
    ///   - category: the logger's label.
    public init(subsystem: String, category: String) {
        log = os.Logger(subsystem: subsystem, category: category)
    }

    /// Writes a line. It begins with the tag of its origin, such as `[APP]` or `[TUNNEL]`, unless that is `other`.
    public func write(_ record: LogRecord) {
        let tag = record.origin == .other ? "" : "[\(record.origin.tag)] "
        let visible = LogText.visible(tag + record.messageAndFields)
        log.log(level: Self.type(of: record.level), "\(visible, privacy: .public)")
    }

    private static func type(of level: Logging.Logger.Level) -> OSLogType {
        switch level {
        case .trace, .debug: .debug
        case .info: .info
        case .notice, .warning: .default
        case .error: .error
        case .critical: .fault
        }
    }
}
