// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
public import Logging
import NetworkExtension
public import PacketTunnel

/// The log that an app and its extension share, without keys, tokens and passwords. It consists of a ring file in the
/// container of their app group, which both write and the app shows, and of the system's unified log.
///
/// ```swift
/// let log = SharedLog(appGroup: "group.com.example.app", subsystem: "com.example.app")
/// let logger = log.logger("app", origin: .app)
/// logger.info("the app has started")
/// ```
///
/// If the file cannot be opened, the tunnel runs nevertheless: lines are written only to the unified log, and
/// ``problem`` has the reason.
public struct SharedLog: Sendable {
    /// The file; `nil` if there is a ``problem``.
    public let file: RingLogFile?
    /// The reason for a missing file.
    public let problem: TunnelError?
    private let subsystem: String

    /// The name of the file in its folder.
    public static let fileName = "tunnel-log.ring"

    /// Opens the log in the container of an app group.
    /// - Parameters:
    ///   - appGroup: The group in the entitlements of both; `nil` for no group, and then there is no file.
    ///   - subsystem: The name of both in the unified log, such as the app's bundle identifier.
    public init(appGroup: String?, subsystem: String) {
        let folder = appGroup.flatMap {
            FileManager.default.containerURL(forSecurityApplicationGroupIdentifier: $0)?.path
        }
        guard let folder else {
            let what = appGroup.map { "the app group '\($0)' has no container" } ?? "no app group is named"
            self.init(
                file: nil, subsystem: subsystem,
                problem: TunnelError(
                    .storage, what, fix: "give app and extension the same app group in their entitlements"))
            return
        }
        self.init(folder: folder, subsystem: subsystem)
    }

    /// Opens the log in another folder, which must exist. For a system extension, which shares no container with its
    /// app.
    public init(folder: String, subsystem: String) {
        do throws(RingLogError) {
            let file = try RingLogFile(path: "\(folder)/\(Self.fileName)", ifInvalid: .recreate)
            self.init(file: file, subsystem: subsystem, problem: nil)
        } catch {
            self.init(file: nil, subsystem: subsystem, problem: TunnelError(.storage, "\(error)"))
        }
    }

    private init(file: RingLogFile?, subsystem: String, problem: TunnelError?) {
        (self.file, self.subsystem, self.problem) = (file, subsystem, problem)
        if let problem { logger("log", origin: .other).error("there is no log file: \(problem)") }
    }

    /// Returns a logger that writes to it.
    /// - Parameters:
    ///   - label: The topic of the lines.
    ///   - origin: The kind of this process. The lines contain its tag.
    ///   - level: The lowest level to log.
    public func logger(_ label: String, origin: LogOrigin, level: Logger.Level = .info) -> Logger {
        Logger(label: label) { label in
            var sinks: [any LogSink] = [UnifiedLogSink(subsystem: subsystem, category: label)]
            if let file { sinks.append(file) }
            return RedactingLogHandler(label: label, origin: origin, logLevel: level, sinks: sinks)
        }
    }
}

extension NetworkExtensionManagerOptions {
    /// Makes the manager write to this log. On a simulator its tunnels write to it too and answer requests for its lines, as
    /// they do in an extension.
    public mutating func keep(_ log: SharedLog, level: Logger.Level = .info) {
        self.log = log.file
        logger = log.logger("tunnel.manager", origin: .app, level: level)
    }
}

extension NetworkExtensionOptions {
    /// Makes the host and the provider write to this log, and lets the app request its lines from the tunnel.
    public mutating func keep(_ log: SharedLog, level: Logger.Level = .info) {
        self.log = log.file
        logger = log.logger("tunnel", origin: .extension, level: level)
    }
}
