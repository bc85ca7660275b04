// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
public import PacketTunnel
import os

/// Writes what loggers say to the system's unified log, without keys, tokens and passwords.
///
/// The system shows everything, since what is secret was taken out before. It keeps notices and above for days, and
/// info and debug in memory while somebody looks.
public struct UnifiedLogHandler: LogHandler {
    /// The least level that is written.
    public var logLevel: Logging.Logger.Level = .info
    /// What goes with every message.
    public var metadata: Logging.Logger.Metadata = [:]
    /// Gives more that goes with every message.
    public var metadataProvider: Logging.Logger.MetadataProvider?

    private let log: os.Logger
    private let origin: LogOrigin?

    /// A handler for one logger.
    ///
    /// - Parameters:
    ///   - subsystem: the bundle identifier, or another name of that form, to find the messages by.
    ///   - label: the logger's label, which is the category.
    ///   - origin: the kind of this process, whose tag begins each line (`[APP]`, `[TUNNEL]`); nil for none.
    public init(subsystem: String, label: String, origin: LogOrigin? = nil) {
        log = os.Logger(subsystem: subsystem, category: label)
        self.origin = origin
    }

    /// One value of `metadata`.
    public subscript(metadataKey key: String) -> Logging.Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    /// Writes an event.
    public func log(event: LogEvent) {
        let line = RedactedEvent(event, metadata: metadata, provider: metadataProvider)
        var text = (origin.map { "[\($0.tag)] " } ?? "") + line.message
        for field in line.fields { text += " \(field.key)=\(field.value)" }
        let visible = LogText.visible(text)
        log.log(level: Self.type(of: event.level), "\(visible, privacy: .public)")
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
