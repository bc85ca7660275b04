// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging

/// Which process wrote a line of the log.
public enum LogOrigin: UInt8, Hashable, Sendable, CaseIterable {
    /// Another one.
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

/// One line of the log, as the ring file keeps it.
public struct LogRecord: Hashable, Sendable {
    /// One value that came with the message.
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

    /// The position in the log, counted from 1 over all processes; later lines have greater ones, with gaps.
    public internal(set) var sequence: UInt64 = 0
    /// When it was written: nanoseconds since 1970-01-01 00:00:00 UTC.
    public var time: Int64
    /// How much it matters.
    public var level: Logger.Level
    /// Which process wrote it.
    public var origin: LogOrigin
    /// That process's number.
    public var processID: Int32
    /// The label of the logger.
    public var label: String
    /// The message; what was cut off at its end is said there.
    public var message: String
    /// The metadata, in order of its keys.
    public var fields: [Field]
    /// Whether the message or the fields were too long to be kept whole.
    public internal(set) var isCut = false

    /// A record that is not in a log yet.
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
        var line = "\(Timestamp.text(time)) \(origin.tag) \(level.rawValue) \(label): \(message)"
        for field in fields { line += " \(field.key)=\(field.value)" }
        if isCut { line += " [cut]" }
        return LogText.visible(line)
    }

    /// One line of JSON, with the keys `sequence`, `time`, `level`, `origin`, `pid`, `label`, `message`, and where it
    /// applies `metadata` and `cut`.
    public var json: String {
        var line = #"{"sequence":\#(sequence),"time":"\#(Timestamp.text(time))","level":"\#(level.rawValue)","#
        line += #""origin":"\#(origin.tag.lowercased())","pid":\#(processID),"#
        line += #""label":\#(LogText.json(label)),"message":\#(LogText.json(message))"#
        if !fields.isEmpty {
            let members = fields.map { "\(LogText.json($0.key)):\(LogText.json($0.value))" }
            line += #","metadata":{\#(members.joined(separator: ","))}"#
        }
        if isCut { line += #","cut":true"# }
        return line + "}"
    }
}

/// Text that is safe to print.
package enum LogText {
    /// `text` with control characters as `\u{1b}`, and with line breaks that are followed by spaces.
    package static func visible(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: isControl) else { return text }
        var visible = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\n": visible += "\n    "
            case "\t": visible += " "
            case _ where isControl(scalar): visible += "\\u{\(String(scalar.value, radix: 16))}"
            default: visible.unicodeScalars.append(scalar)
            }
        }
        return visible
    }

    /// `text` as a JSON string.
    static func json(_ text: String) -> String {
        var json = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": json += "\\\""
            case "\\": json += "\\\\"
            case "\n": json += "\\n"
            case _ where isControl(scalar):
                let digits = String(scalar.value, radix: 16)
                json += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: json.unicodeScalars.append(scalar)
            }
        }
        return json + "\""
    }

    /// C0, DEL and C1, and the marks that change the direction of text around them.
    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7f..<0xa0, 0x202a...0x202e, 0x2066...0x2069: true
        default: false
        }
    }
}

/// Moments as text, in UTC.
enum Timestamp {
    /// ISO 8601 with microseconds.
    static func text(_ nanoseconds: Int64) -> String {
        let day: Int64 = 86_400 * 1_000_000_000
        var (days, rest) = nanoseconds.quotientAndRemainder(dividingBy: day)
        if rest < 0 { (days, rest) = (days - 1, rest + day) }
        let (year, month, dayOfMonth) = civil(daysSince1970: Int(days))
        let seconds = Int(rest / 1_000_000_000)
        let time = [seconds / 3600, seconds / 60 % 60, seconds % 60].map { padded($0, 2) }.joined(separator: ":")
        let date = "\(padded(year, 4))-\(padded(month, 2))-\(padded(dayOfMonth, 2))"
        return "\(date)T\(time).\(padded(Int(rest % 1_000_000_000) / 1_000, 6))Z"
    }

    /// The Gregorian date, counted in eras of 400 years that begin on the first of March.
    private static func civil(daysSince1970: Int) -> (year: Int, month: Int, day: Int) {
        let days = daysSince1970 + 719_468
        let era = (days >= 0 ? days : days - 146_096) / 146_097
        let dayOfEra = days - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shifted = (5 * dayOfYear + 2) / 153
        let month = shifted < 10 ? shifted + 3 : shifted - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shifted + 2) / 5 + 1)
    }

    private static func padded(_ value: Int, _ width: Int) -> String {
        let digits = String(value)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
}
