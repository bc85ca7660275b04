// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses

extension AuditRecord.Action {
    /// Whether a device can cause the action by itself, so that the action may be frequent.
    fileprivate var isRepeatable: Bool { self == .deviceKeyRotated || self == .deviceRenewed }
}

extension GatewayStore {
    /// The time after an entry in which equal events are added to it, in milliseconds.
    private static let repetitionTime: Int64 = 60_000
    /// The number of latest entries of a subject that are compared, because a subject may have very many.
    private static let comparedEntries = 8

    /// Adds an event to a recent entry that has the same action, subject, actor and source.
    /// - Returns: Whether there was such an entry.
    static func countRepetition(_ db: any SQLSession, _ audit: AuditRecord) throws -> Bool {
        guard audit.action.isRepeatable else { return false }
        let time = audit.at.milliseconds
        let row = try db.row(
            """
            SELECT * FROM (
                SELECT * FROM audit WHERE subject = \(audit.subject) ORDER BY number DESC LIMIT \(comparedEntries)) AS latest
            WHERE action = \(audit.action) AND actor = \(audit.actor)
                AND COALESCE(source, '') = \(audit.source?.description ?? "") AND at > \(time - repetitionTime) AND at <= \(time)
            ORDER BY number DESC LIMIT 1
            """)
        guard let entry = try row.map(AuditEntry.init) else { return false }
        // The merged entry has the earlier entry's `from`, and the latest value of each other detail.
        let details = entry.record.details.merging(audit.details) { $1 }
            .merging(entry.record.details.filter { $0.key == "from" }) { $1 }
        try db.execute(
            """
            UPDATE audit SET count = count + 1, details = \(try detailsText(details)) WHERE number = \(entry.number)
            """)
        return true
    }

    static func detailsText(_ details: [String: String]) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(details), as: UTF8.self)
    }
}
