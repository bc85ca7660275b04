// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
public import Logging
import TunnelSystem

/// Writes what loggers say to a RingLogFile, without keys, tokens and passwords.
///
/// ```swift
/// let file = try RingLogFile(path: path, ifInvalid: .recreate)
/// LoggingSystem.bootstrap { label in RingLogHandler(label: label, file: file, origin: .extension) }
/// ```
public struct RingLogHandler: LogHandler {
    /// The least level that is written.
    public var logLevel: Logger.Level
    /// What goes with every message.
    public var metadata: Logger.Metadata = [:]
    /// Gives more that goes with every message.
    public var metadataProvider: Logger.MetadataProvider?

    private let label: String
    private let file: RingLogFile
    private let origin: LogOrigin
    private let now: @Sendable () -> Int64

    /// A handler for one logger.
    /// - Parameters:
    ///   - label: the logger's label.
    ///   - file: where to write, open for writing.
    ///   - origin: the kind of this process.
    ///   - logLevel: the least level that is written.
    ///   - metadataProvider: gives what goes with every message.
    public init(
        label: String, file: RingLogFile, origin: LogOrigin, logLevel: Logger.Level = .info,
        metadataProvider: Logger.MetadataProvider? = nil
    ) {
        self.init(
            label: label, file: file, origin: origin, logLevel: logLevel, metadataProvider: metadataProvider,
            now: ProcessEnvironment.wallClock)
    }

    /// A handler with a wall clock of its own: nanoseconds since 1970.
    package init(
        label: String, file: RingLogFile, origin: LogOrigin, logLevel: Logger.Level,
        metadataProvider: Logger.MetadataProvider? = nil, now: @escaping @Sendable () -> Int64
    ) {
        self.label = label
        self.file = file
        self.origin = origin
        self.logLevel = logLevel
        self.metadataProvider = metadataProvider
        self.now = now
    }

    /// One value of `metadata`.
    public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    /// Writes an event.
    public func log(event: LogEvent) {
        let line = RedactedEvent(event, metadata: metadata, provider: metadataProvider)
        file.append(
            LogRecord(
                time: now(), level: event.level, origin: origin, processID: getpid(), label: Redactor.redact(label),
                message: line.message, fields: line.fields))
    }
}

/// What an event says, without secrets: everything that leaves a handler of this package comes through here.
package struct RedactedEvent {
    package let message: String
    /// In order of their keys.
    package let fields: [LogRecord.Field]

    package init(_ event: LogEvent, metadata: Logger.Metadata, provider: Logger.MetadataProvider?) {
        message = Redactor.redact(event.message.description)
        var all = metadata
        if let provider { all.merge(provider.get()) { _, later in later } }
        if let own = event.metadata { all.merge(own) { _, later in later } }
        if let error = event.error, all["error"] == nil { all["error"] = "\(error)" }
        fields = Redactor.redact(all).map { LogRecord.Field($0.key, "\($0.value)") }.sorted { $0.key < $1.key }
    }
}
