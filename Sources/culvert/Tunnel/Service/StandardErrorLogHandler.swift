// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnel

/// Writes a line for each event to standard error, for terminals and for the journal.
struct StandardErrorLogHandler: LogHandler {
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]
    /// Whether lines begin with the level as sd-daemon(3) has it, which the journal takes out again.
    private let hasPriorities: Bool
    private let write: @Sendable (String) -> Void

    init(
        logLevel: Logger.Level, hasPriorities: Bool = StandardStream.environment("JOURNAL_STREAM") != nil,
        write: @escaping @Sendable (String) -> Void = { StandardStream.write($0, to: 2) }
    ) {
        self.logLevel = logLevel
        self.hasPriorities = hasPriorities
        self.write = write
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var line = Redactor.redact(event.message.description)
        for (key, value) in Redactor.redact(metadata.merging(event.metadata ?? [:]) { $1 }).sorted(by: {
            $0.key < $1.key
        }) {
            line += " \(key)=\(value)"
        }
        let text = line.replacing("\n", with: " ")
        write((hasPriorities ? "<\(Self.priority(event.level))>" : "\(event.level.rawValue): ") + text + "\n")
    }

    private static func priority(_ level: Logger.Level) -> Int {
        switch level {
        case .critical: 2
        case .error: 3
        case .warning: 4
        case .notice: 5
        case .info: 6
        case .debug, .trace: 7
        }
    }
}
