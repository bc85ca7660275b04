// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
import Provisioning

/// The changes of an earlier gateway that a restored backup does not contain.
package struct LaterChanges: Hashable, Sendable {
    /// An access of the backup that ended later, and that the restore has ended again.
    package struct Revocation: Hashable, Sendable {
        /// The kind and ID, such as `device:ID`.
        package var subject: String
        /// The login of a user, or the name of a device or token.
        package var name: String
        /// The state of the restored gateway now.
        package var effect: Effect
    }

    package enum Effect: String, Hashable, Sendable {
        case removed, disabled, revoked
        /// A user or device expires at the earlier time that was set after the backup.
        case expiresEarlier = "expires earlier"
        /// A user has the later password, or none.
        case password = "old password ended"
        /// A device has the later key.
        case key = "old key ended"
    }

    package var revocations: [Revocation] = []
    /// The number of later entries in the earlier audit log, by action.
    package var entries: [AuditRecord.Action: Int] = [:]
    /// The time of the latest entry of the earlier log; `nil` if no entry is later than the backup.
    package var latest: Date?
    /// The time of the first entry, if entries between the backup and this one are missing because the gateway had
    /// deleted them by their age.
    package var begins: Date?
}

extension GatewayStore {
    /// Ends each access that ended in an earlier gateway after the backup from which this store was restored.
    ///
    /// The earlier audit log selects the users, devices, tokens and invitations. Their rows in the earlier database
    /// decide. Every change gets an audit entry.
    /// - Parameters:
    ///   - earlier: The database of the earlier gateway.
    ///   - last: The latest audit entry of the backup.
    /// - Returns: `nil` if the audit log is not that of the gateway in the backup. Nothing is changed then.
    func revoke(
        from earlier: GatewayStore, after last: AuditEntry?, at now: Date
    ) async throws(StoreError) -> LaterChanges? {
        var changes = LaterChanges()
        guard let start = try await firstLaterEntry(in: earlier, after: last, &changes) else { return nil }
        let names = try await earlier.laterEntries(from: start, &changes)
        // The removal of a user removes the user's devices and tokens.
        for kind in ["user", "device", "token", "invitation"] {
            for name in names where name.hasPrefix("\(kind):") {
                guard let id = RandomID(name.dropFirst(kind.count + 1)) else { continue }
                let found: [LaterChanges.Revocation] =
                    switch kind {
                    case "user": try await endAccess(ofUser: id, name, earlier, at: now)
                    case "device": try await endAccess(ofDevice: id, name, earlier, at: now)
                    case "token": try await endAccess(ofToken: id, name, earlier, at: now)
                    default: try await endAccess(ofInvitation: id, name, earlier, at: now)
                    }
                changes.revocations += found
            }
        }
        return changes
    }

    // MARK: - The audit logs

    /// The number of the first entry of the earlier log that the backup does not contain; `nil` for another gateway's log.
    /// Both logs are equal up to the backup, which may end with a `backupMade` that the earlier log does not have.
    private func firstLaterEntry(
        in earlier: GatewayStore, after last: AuditEntry?, _ changes: inout LaterChanges
    ) async throws(StoreError) -> Int64? {
        guard let last else { return 1 }
        var before = last.number + 1
        while let entry = try await earlier.auditEntry("number < \(before) ORDER BY number DESC LIMIT 1") {
            if let own = try await auditEntry("number = \(entry.number)"), own.record.isSameEvent(as: entry.record) {
                return entry.number + 1
            }
            guard entry.number == last.number, last.record.action == .backupMade else { return nil }
            before = last.number
        }
        // No entry is in both logs. An empty log is that of the gateway only if the backup's is empty too.
        if last.number > 1 {
            guard let first = try await earlier.auditEntry("TRUE ORDER BY number LIMIT 1") else { return nil }
            changes.begins = first.record.at
        }
        return last.number
    }

    private func auditEntry(_ condition: SQL) async throws(StoreError) -> AuditEntry? {
        try await database.read { db in try db.row("SELECT * FROM audit WHERE \(condition)").map { try AuditEntry($0) }
        }
    }

    /// Returns the subjects and actors of the entries from this number on, and counts these entries.
    private func laterEntries(
        from number: Int64, _ changes: inout LaterChanges
    ) async throws(StoreError) -> [String] {
        let (names, counts, latest) = try await database.read { db in
            (
                try db.rows(
                    """
                    SELECT subject AS name FROM audit WHERE number >= \(number)
                    UNION SELECT actor FROM audit WHERE number >= \(number) ORDER BY name
                    """
                ).map { try $0["name"] as String },
                try db.rows(
                    "SELECT action, COUNT(*) AS entries FROM audit WHERE number >= \(number) GROUP BY action"
                ).map { try ($0["action"] as AuditRecord.Action, $0["entries"] as Int) },
                try db.figures("SELECT MAX(at) AS latest FROM audit WHERE number >= \(number)")["latest"] as Date?
            )
        }
        changes.entries = Dictionary(counts) { $1 }
        changes.latest = latest
        return names
    }

    // MARK: - Ends of access

    private static func record(_ action: AuditRecord.Action, _ subject: String, _ now: Date) -> AuditRecord {
        AuditRecord(
            at: now, actor: "local", source: nil, action: action, subject: subject, details: ["cause": "restore"])
    }

    private func endAccess(
        ofUser id: UserID, _ subject: String, _ earlier: GatewayStore, at now: Date
    ) async throws(StoreError) -> [LaterChanges.Revocation] {
        guard let user = try await user(id) else { return [] }
        guard let later = try await earlier.user(id) else {
            try await remove(user: id, Self.record(.userRemoved, subject, now))
            return [.init(subject: subject, name: user.login, effect: .removed)]
        }
        var (update, effects): (UserUpdate, [LaterChanges.Effect]) = (UserUpdate(), [])
        if user.isEnabled, !later.isEnabled {
            update.isEnabled = false
            effects.append(.disabled)
        }
        if let end = later.expiresAt, end < user.expiresAt ?? .distantFuture {
            update.expiresAt = .some(end)
            effects.append(.expiresEarlier)
        }
        if user.password != nil, user.password != later.password {
            update.password = .some(later.password)
            effects.append(.password)
        }
        guard !effects.isEmpty else { return [] }
        _ = try await self.update(user: id, update, Self.record(.userChanged, subject, now))
        return effects.map { .init(subject: subject, name: user.login, effect: $0) }
    }

    private func endAccess(
        ofDevice id: DeviceID, _ subject: String, _ earlier: GatewayStore, at now: Date
    ) async throws(StoreError) -> [LaterChanges.Revocation] {
        guard let device = try await device(id)?.device else { return [] }
        guard let later = try await earlier.device(id)?.device else {
            try await remove(device: id, of: nil, Self.record(.deviceRemoved, subject, now))
            return [.init(subject: subject, name: device.name, effect: .removed)]
        }
        var (update, effects): (DeviceUpdate, [LaterChanges.Effect]) = (DeviceUpdate(), [])
        if device.isEnabled, !later.isEnabled {
            update.isEnabled = false
            effects.append(.disabled)
        }
        if let end = later.expiresAt, end < device.expiresAt ?? .distantFuture {
            update.expiresAt = .some(end)
            effects.append(.expiresEarlier)
        }
        if !effects.isEmpty {
            _ = try await change(
                device: id, .update(update, noLimits), Self.record(.deviceChanged, subject, now))
        }
        if let key = device.publicKey, let new = later.publicKey, key != new, let request = later.rotationHash {
            _ = try await change(
                device: id, .rotation(from: key, to: new, by: request), Self.record(.deviceKeyRotated, subject, now))
            effects.append(.key)
        }
        return effects.map { .init(subject: subject, name: device.name, effect: $0) }
    }

    private func endAccess(
        ofToken id: TokenID, _ subject: String, _ earlier: GatewayStore, at now: Date
    ) async throws(StoreError) -> [LaterChanges.Revocation] {
        guard let token = try await token(id), token.revokedAt == nil else { return [] }
        if let later = try await earlier.token(id), later.revokedAt == nil { return [] }
        _ = try await revoke(token: id, Self.record(.tokenRevoked, subject, now))
        return [.init(subject: subject, name: token.name, effect: .revoked)]
    }

    /// Revokes an invitation that was used or revoked.
    private func endAccess(
        ofInvitation id: InvitationID, _ subject: String, _ earlier: GatewayStore, at now: Date
    ) async throws(StoreError) -> [LaterChanges.Revocation] {
        guard let invitation = try await invitation(id), invitation.usedAt == nil, invitation.revokedAt == nil else {
            return []
        }
        if let later = try await earlier.invitation(id), later.usedAt == nil, later.revokedAt == nil { return [] }
        _ = try await revoke(invitation: id, Self.record(.invitationRevoked, subject, now))
        return [.init(subject: subject, name: invitation.deviceName, effect: .revoked)]
    }
}

extension AuditRecord {
    /// Whether two logs have the same event. Equal events that were counted later change the details.
    fileprivate func isSameEvent(as other: AuditRecord) -> Bool {
        at.milliseconds == other.at.milliseconds && action == other.action && subject == other.subject
            && actor == other.actor
    }
}
