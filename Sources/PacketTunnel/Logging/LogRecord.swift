// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
import TunnelSystem

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The kind of the process that wrote a line of the log.
public enum LogOrigin: UInt8, Hashable, Sendable, CaseIterable {
    /// Any other process.
    case other = 0
    /// The app.
    case app = 1
    /// The packet-tunnel extension.
    case `extension` = 2
    /// The service on Linux.
    case daemon = 3
    /// A command.
    case command = 4

    /// The tag in the text of the log.
    public var tag: String {
        switch self {
        case .other: "OTHER"
        case .app: "APP"
        case .extension: "TUNNEL"
        case .daemon: "DAEMON"
        case .command: "COMMAND"
        }
    }
}

/// One line of the log, as it is stored in the ring file.
public struct LogRecord: Hashable, Sendable {
    /// A value of the message's metadata.
    public struct Field: Hashable, Sendable {
        /// Its name.
        public var key: String
        /// Its text.
        public var value: String

        /// A field.
        public init(_ key: String, _ value: String) {
            self.key = key
            self.value = value
        }
    }

    /// The position in the log, counted from 1 across all processes. Numbers increase, with gaps.
    public internal(set) var sequence: UInt64 = 0
    /// The time of writing: nanoseconds since 1970-01-01 00:00:00 UTC.
    public var time: Int64
    /// The severity.
    public var level: Logger.Level
    /// The kind of the process that wrote it.
    public var origin: LogOrigin
    /// The process ID of the writer.
    public var processID: Int32
    /// The label of the logger.
    public var label: String
    /// The message; if it was cut, its end states this.
    public var message: String
    /// The metadata, in order of its keys.
    public var fields: [Field]
    /// Whether the message or the fields were too long to be kept whole.
    public internal(set) var isCut = false

    /// Creates a record that no log contains yet.
    public init(
        time: Int64, level: Logger.Level, origin: LogOrigin, processID: Int32, label: String, message: String,
        fields: [Field] = []
    ) {
        self.time = time
        self.level = level
        self.origin = origin
        self.processID = processID
        self.label = label
        self.message = message
        self.fields = fields
    }
}

// MARK: - For people and programs

extension LogRecord: CustomStringConvertible {
    /// One line of text: `2026-11-21T15:38:21.123456Z TUNNEL info wireguard: message key=value`.
    ///
    /// Control characters are shown and not sent to the terminal; further lines of a message are indented.
    public var description: String {
        var line = "\(Timestamp.text(time)) \(origin.tag) \(level.rawValue) \(label): \(messageAndFields)"
        if isCut { line += " [cut]" }
        return LogText.visible(line)
    }

    /// The message and its fields: `message key=value`. It may contain control characters.
    package var messageAndFields: String { fields.reduce(message) { "\($0) \($1.key)=\($1.value)" } }

    /// One line of JSON with the keys `sequence`, `time`, `level`, `origin`, `pid`, `label` and `message`, and, if
    /// there is something to report, `metadata` and `cut`.
    public var json: String {
        var members: [(String, JSON)] = [
            ("sequence", .integer(sequence)), ("time", .string(Timestamp.text(time))),
            ("level", .string(level.rawValue)), ("origin", .string(origin.tag.lowercased())),
            ("pid", .integer(processID)), ("label", .string(label)), ("message", .string(message)),
        ]
        if !fields.isEmpty { members.append(("metadata", .object(of: fields.map { ($0.key, .string($0.value)) }))) }
        if isCut { members.append(("cut", true)) }
        return JSON.object(of: members).line
    }
}

/// Text that is safe to print.
package enum LogText {
    /// Returns `text` with control characters escaped, as in `\u{1b}`, and with spaces after each line break.
    package static func visible(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: \.isControl) else { return text }
        var visible = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\n": visible += "\n    "
            case "\t": visible += " "
            case _ where scalar.isControl: visible += "\\u{\(String(scalar.value, radix: 16))}"
            default: visible.unicodeScalars.append(scalar)
            }
        }
        return visible
    }
}

/// Moments as text, in UTC.
enum Timestamp {
    /// ISO 8601 with microseconds.
    static func text(_ nanoseconds: Int64) -> String {
        var (seconds, rest) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        if rest < 0 { (seconds, rest) = (seconds - 1, rest + 1_000_000_000) }
        let whole = Date(timeIntervalSince1970: Double(seconds)).formatted(.iso8601)
        return "\(whole.dropLast()).\(String(1_000_000 + rest / 1_000).dropFirst())Z"
    }
}
