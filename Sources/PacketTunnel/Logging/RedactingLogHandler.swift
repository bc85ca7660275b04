// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
public import Logging
import TunnelSystem

/// Passes log events to sinks, without keys, tokens and passwords.
///
/// ```swift
/// let file = try RingLogFile(path: path, ifInvalid: .recreate)
/// LoggingSystem.bootstrap { label in RedactingLogHandler(label: label, origin: .extension, sinks: [file]) }
/// ```
public struct RedactingLogHandler: LogHandler {
    /// The least level that is written.
    public var logLevel: Logger.Level
    /// Metadata of every event.
    public var metadata: Logger.Metadata = [:]
    /// Returns further metadata of an event; called once for each event.
    public var metadataProvider: Logger.MetadataProvider?

    private let label: String
    private let origin: LogOrigin
    private let sinks: [any LogSink]
    private let now: @Sendable () -> Int64

    /// A handler for one logger.
    /// - Parameters:
    ///   - label: the logger's label.
    ///   - origin: the kind of this process.
    ///   - logLevel: the least level that is written.
    ///   - metadataProvider: returns further metadata of an event.
    ///   - sinks: the destinations of each event, such as a ``RingLogFile`` that is open for writing, or a ``StandardErrorSink``.
    public init(
        label: String, origin: LogOrigin = .other, logLevel: Logger.Level = .info,
        metadataProvider: Logger.MetadataProvider? = nil, sinks: [any LogSink]
    ) {
        self.init(
            label: label, origin: origin, logLevel: logLevel, metadataProvider: metadataProvider, sinks: sinks,
            now: ProcessEnvironment.wallClock)
    }

    /// A handler with its own wall clock: nanoseconds since 1970.
    package init(
        label: String, origin: LogOrigin, logLevel: Logger.Level, metadataProvider: Logger.MetadataProvider? = nil,
        sinks: [any LogSink], now: @escaping @Sendable () -> Int64
    ) {
        self.label = Redactor.redact(label)
        self.origin = origin
        self.logLevel = logLevel
        self.metadataProvider = metadataProvider
        self.sinks = sinks
        self.now = now
    }

    /// Creates a handler that writes to standard error.
    ///
    /// The environment variable `CULVERT_LOG` names its lowest level: trace, debug, info, notice, warning, error or
    /// critical. The default is info.
    public static func standardError(label: String) -> RedactingLogHandler {
        RedactingLogHandler(label: label, logLevel: StandardErrorSink.level, sinks: [StandardErrorSink()])
    }

    /// One value of `metadata`.
    public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    /// Redacts an event once, and passes it to each sink.
    public func log(event: LogEvent) {
        var all = metadata
        if let metadataProvider { all.merge(metadataProvider.get()) { _, later in later } }
        if let own = event.metadata { all.merge(own) { _, later in later } }
        if let error = event.error, all["error"] == nil { all["error"] = "\(error)" }
        let fields = Redactor.redact(all).map { LogRecord.Field($0.key, "\($0.value)") }.sorted { $0.key < $1.key }
        let record = LogRecord(
            time: now(), level: event.level, origin: origin, processID: getpid(), label: label,
            message: Redactor.redact(event.message.description), fields: fields)
        for sink in sinks { sink.write(record) }
    }
}

/// A destination of log lines.
public protocol LogSink: Sendable {
    /// Writes a line whose secrets were removed. Any thread may call it, also concurrently. Failures are not reported.
    func write(_ record: LogRecord)
}

extension RingLogFile: LogSink {
    /// Appends the line.
    public func write(_ record: LogRecord) { append(record) }
}
