// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging

extension TrustEvaluator {
    /// An observer that logs what happened.
    ///
    /// Hosts that people visit are theirs: what is logged is the pattern of the policy, which the app's makers wrote, and
    /// for other hosts only that they are unlisted. No certificates, names or addresses of servers are logged.
    public static func logging(to logger: Logger) -> Observer {
        { evaluation in
            let pattern = evaluation.pattern.map(\.description) ?? "unlisted"
            for event in evaluation.decision.events {
                var metadata: Logger.Metadata = [
                    "event": "\(event.name)", "policy": "\(pattern)", "environment": "\(evaluation.environment)",
                ]
                switch event {
                case .systemTrustEvaluated(let isTrusted): metadata["trusted"] = "\(isTrusted)"
                case .systemTrustFailed(let failure), .systemTrustFailedPermissive(let failure):
                    metadata["failure"] = "\(failure.code.rawValue)"
                case .chainSummary(let summary):
                    metadata["certificates"] = "\(summary.count)"
                    metadata["key"] = "\(summary.leafKey)"
                    metadata["expires"] = "\(Timestamp.text(summary.leafExpires))"
                case .pinMatched(let pins): metadata["pins"] = "\(pins.count)"
                default: break
                }
                logger.log(level: event.logLevel, "trust pinning: \(event.name)", metadata: metadata)
            }
            let verdict = evaluation.decision.isTrusted ? "trusted" : "refused"
            logger.debug(
                "trust pinning: \(verdict)",
                metadata: [
                    "reason": "\(evaluation.decision.reason.rawValue)", "policy": "\(pattern)",
                    "duration": "\(evaluation.duration)",
                ])
        }
    }
}

extension TrustEvent {
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
