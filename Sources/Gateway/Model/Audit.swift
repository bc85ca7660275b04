// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
package import NetworkAddresses
package import Provisioning

/// An event for the audit log.
package struct AuditRecord: Hashable, Sendable {
    package enum Action: String, Hashable, Sendable, CaseIterable {
        case userAdded, userChanged, userRemoved
        case deviceEnrolled, deviceAdded, deviceChanged, deviceRemoved, deviceRenewed, deviceKeyRotated, deviceExpired
        case userExpired, keyExpired
        case tokenAdded, tokenRevoked, invitationAdded, invitationRevoked, invitationMisused
        case rulesChanged
        case cooldownsCleared
        case serverKeyAnnounced, serverKeySwitched, serverKeyRotationCancelled
        case backupMade, restored, backupKeyActivated
        case proofRefused
        case loginAccepted, loginRefused, loginEnded
    }

    package var at: Date
    /// The actor: `admin:ID`, `readOnly:ID`, `user:ID`, `device:ID`, `local:UID` or `gateway`.
    package var actor: String
    /// The address of the request; `nil` for a local request.
    package var source: IPAddress?
    package var action: Action
    /// The kind and ID of the subject, such as `device:ID`.
    package var subject: String
    /// Further facts, without secrets.
    package var details: [String: String]

    package init(
        at: Date, actor: String, source: IPAddress?, action: Action, subject: String, details: [String: String] = [:]
    ) {
        self.at = at
        self.actor = actor
        self.source = source
        self.action = action
        self.subject = subject
        self.details = details
    }
}

/// An entry of the audit log.
package struct AuditEntry: Hashable, Sendable {
    /// The number of the entry. Later entries have higher numbers.
    package let number: Int64
    package let record: AuditRecord
    /// The number of equal events within a minute. ``record`` has the time of the first one.
    package let count: Int

    package init(number: Int64, record: AuditRecord, count: Int = 1) {
        self.number = number
        self.record = record
        self.count = count
    }
}

extension AuditEntry: Declared {
    package static let message = Message<AuditEntry> {
        Field("number", \.number, .count)
        Field("at", \.record.at, .time, column: "at")
        Field("action", \.record.action, .choice, column: "action")
        Field("subject", \.record.subject, .shown { $0 }, column: "subject")
        Field("actor", \.record.actor, .shown { $0 }, column: "actor")
        Field("source", \.record.source, .omittable(.address), column: "source")
        Field("details", \.record.details, .texts)
        Field(
            "count", \.count, .count, column: "count",
            "The number of equal events within a minute of the first, whose time is `at`")
    }
}

/// Selects entries of the audit log.
package struct AuditFilter: Hashable, Sendable {
    package var action: AuditRecord.Action?
    package var subject: String?
    package var actor: String?

    package init(action: AuditRecord.Action? = nil, subject: String? = nil, actor: String? = nil) {
        self.action = action
        self.subject = subject
        self.actor = actor
    }
}
