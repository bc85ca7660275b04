// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
public import Logging
import TunnelSystem

/// Writes what loggers say to standard error, for services and commands, without keys, tokens and passwords.
///
/// Under systemd each line begins with the priority that its journal reads, `<3>` for an error; elsewhere it begins with
/// the level's name. Control characters are shown and not sent.
public struct StandardErrorLogHandler: LogHandler {
    /// How lines begin.
    public enum Style: Hashable, Sendable {
        /// With a priority for the journal.
        case journal
        /// With the level's name.
        case plain
    }

    /// The variable of the environment that names the least level that is written.
    public static let levelVariable = "CULVERT_LOG"

    /// The least level that is written.
    public var logLevel: Logger.Level
    /// What goes with every message.
    public var metadata: Logger.Metadata = [:]
    /// Gives more that goes with every message.
    public var metadataProvider: Logger.MetadataProvider?

    private let label: String
    private let style: Style
    private let write: @Sendable ([UInt8]) -> Void

    /// A handler for one logger.
    ///
    /// Its level is what `CULVERT_LOG` names, one of trace, debug, info, notice, warning, error and critical, and
    /// otherwise info. Its style is the journal's when systemd says that standard error goes there.
    public init(label: String) {
        self.init(label: label, environment: ProcessEnvironment.value)
    }

    /// A handler for one logger in another environment, or to another place.
    package init(
        label: String, environment: (String) -> String?,
        write: @escaping @Sendable ([UInt8]) -> Void = writeToStandardError
    ) {
        self.label = label
        logLevel = Self.level(named: environment(Self.levelVariable)) ?? .info
        style = environment("JOURNAL_STREAM")?.isEmpty == false ? .journal : .plain
        self.write = write
    }

    /// The level of a name, in upper or lower case; nil when there is none.
    public static func level(named name: String?) -> Logger.Level? {
        name.flatMap { Logger.Level(rawValue: $0.lowercased()) }
    }

    /// One value of `metadata`.
    public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    /// Writes an event, in one call for all its lines.
    public func log(event: LogEvent) {
        let line = RedactedEvent(event, metadata: metadata, provider: metadataProvider)
        var text = "\(Redactor.redact(label)): \(line.message)"
        for field in line.fields { text += " \(field.key)=\(field.value)" }
        text = LogText.visible(text)
        switch style {
        case .plain: text = "\(event.level.rawValue): \(text)\n"
        case .journal:
            // The journal makes an entry of each line, and each has its own priority.
            text = text.split(separator: "\n").map { "<\(Self.priority(of: event.level))>\($0)\n" }.joined()
        }
        write(Array(text.utf8))
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

/// Writes all bytes to descriptor 2, unless it fails: there is nobody to tell.
@Sendable package func writeToStandardError(_ bytes: [UInt8]) {
    SystemCall.writeAll(2, bytes)
}
