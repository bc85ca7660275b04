// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging

extension TrustEvaluator {
    /// Returns an observer that logs all events.
    ///
    /// To protect users, the host is not logged. For a listed host, the pattern of its policy is logged, which is part
    /// of the app; other hosts are logged as unlisted. If no pin of a listed host matches, the hashes of the server's
    /// keys are logged. Certificates, names and addresses of servers are never logged.
    public static func logging(to logger: Logger) -> Observer {
        { activity in
            for line in activity.logLines {
                logger.log(level: line.level, "trust pinning: \(line.text)", metadata: line.metadata)
            }
        }
    }
}

extension TrustActivity {
    /// A log message.
    struct LogLine: Sendable {
        var level: Logger.Level
        var text: String
        var metadata: Logger.Metadata
    }

    /// The log messages of the event.
    var logLines: [LogLine] {
        switch self {
        case .judged(let evaluation):
            let pattern = evaluation.pattern?.description
            var lines = evaluation.decision.events.map { event in
                var metadata = event.metadata(evaluation.decision, isListed: pattern != nil)
                metadata["policy"] = "\(pattern ?? "unlisted")"
                return LogLine(level: event.logLevel, text: event.name, metadata: metadata)
            }
            lines.append(
                LogLine(
                    level: .debug, text: evaluation.decision.isTrusted ? "trusted" : "refused",
                    metadata: [
                        "reason": "\(evaluation.decision.reason.rawValue)", "policy": "\(pattern ?? "unlisted")",
                        "duration": "\(evaluation.duration)",
                    ]))
            return lines.map(inEnvironment)
        case .identity(let event, _):
            var metadata: Logger.Metadata = [:]
            var level = Logger.Level.warning
            var name = event.trustEvent?.name ?? ""
            switch event {
            case .used, .missing: level = event.trustEvent?.logLevel ?? level
            case .renewalRequired(let hosts, let end):
                name = "mtlsRenewalRequired"
                metadata = [
                    "hosts": "\(hosts.map(\.description).joined(separator: " "))", "expires": "\(Timestamp.text(end))",
                ]
            case .unloadable(let hosts, let error):
                name = "mtlsIdentityUnloadable"
                level = .error
                metadata = ["hosts": "\(hosts.map(\.description).joined(separator: " "))", "failure": "\(error)"]
            }
            metadata["event"] = "\(name)"
            return [inEnvironment(LogLine(level: level, text: name, metadata: metadata))]
        }
    }

    private func inEnvironment(_ line: LogLine) -> LogLine {
        var line = line
        line.metadata["environment"] = "\(environment)"
        return line
    }
}

extension TrustEvent {
    /// - Parameter isListed: Whether a pattern matches the host, so that its keys do not reveal an unlisted host.
    fileprivate func metadata(_ decision: TrustDecision, isListed: Bool) -> Logger.Metadata {
        var metadata: Logger.Metadata = ["event": "\(name)"]
        switch self {
        case .systemTrustEvaluated(let isTrusted): metadata["trusted"] = "\(isTrusted)"
        case .systemTrustFailed(let failure), .systemTrustFailedPermissive(let failure):
            metadata["failure"] = "\(failure.code.rawValue)"
        case .chainSummary(let summary):
            metadata["certificates"] = "\(summary.count)"
            metadata["key"] = "\(summary.leafKey)"
            metadata["expires"] = "\(Timestamp.text(summary.leafExpires))"
        case .pinMatched(let pins): metadata["pins"] = "\(pins.count)"
        case .pinMismatch, .pinMismatchAllowedByFallback, .pinMismatchPermissive, .pinMismatchAudited:
            if isListed {
                metadata["presented"] = "\(decision.presentedKeys.map(\.description).joined(separator: " "))"
            }
        default: break
        }
        return metadata
    }

    var logLevel: Logger.Level {
        switch self {
        case .policyMissing, .systemTrustFailed, .systemTrustFailedPermissive, .pinMismatch, .mtlsIdentityMissing,
            .hostInvalid, .chainRefused:
            .error
        case .pinMismatchAllowedByFallback, .pinMismatchPermissive, .pinMismatchAudited, .pinSetEmpty, .pinSetExpired,
            .onlyBackupMatched:
            .warning
        case .pinMatched, .mtlsIdentityUsed: .info
        case .systemTrustEvaluated, .chainSummary: .debug
        }
    }
}
