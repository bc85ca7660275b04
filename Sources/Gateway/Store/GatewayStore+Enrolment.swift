// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning
import WireGuardCore

extension GatewayStore {
    /// The number of misuses of an invitation that each get an audit entry. Later misuses are only counted, so that an
    /// attacker cannot fill the disk.
    private static let loggedMisuses = 20

    /// Makes a device with an invitation or a token, in one transaction: checks the secret and the limits, assigns
    /// addresses, inserts the device, records the change and adds an audit entry.
    /// - Throws: `.poolFull`, `.deviceLimit`, `.gatewayFull`, `.exists(.key)`, `.exists(.credential)`. The secret can
    ///   then be used again.
    package func enrol(_ enrolment: Enrolment) async throws(StoreError) -> EnrolmentOutcome {
        if enrolment.misuses == 0, try await database.read({ db in try Self.isMisuse(db, enrolment) }) {
            return .refused(.used)
        }
        return try await database.write { db in
            switch enrolment.secret {
            case .invitation(let hash): try Self.enrol(db, enrolment, withInvitation: hash)
            case .token(let hash): try Self.enrol(db, enrolment, withToken: hash)
            }
        }
    }

    private static func isMisuse(_ db: any SQLSession, _ enrolment: Enrolment) throws -> Bool {
        guard case .invitation(let hash) = enrolment.secret,
            let row = try db.row("SELECT * FROM invitations WHERE hash = \(hash)")
        else { return false }
        let invitation = try IssuedInvitation(row)
        return try invitation.usedAt != nil && madeBefore(db, invitation, row, enrolment) == nil
    }

    /// The device that an earlier, identical request made, if the device still has the same key and credential.
    private static func madeBefore(
        _ db: any SQLSession, _ invitation: IssuedInvitation, _ row: SQLRow, _ enrolment: Enrolment
    ) throws -> DeviceOfUser? {
        guard try row["request_hash"] as SecretHash? == enrolment.request, let id = invitation.deviceID,
            let before = try device(db, "id = \(id)"),
            before.device.publicKey == enrolment.publicKey,
            before.device.credentialHash == enrolment.credentialHash
        else { return nil }
        return before
    }

    private static func enrol(
        _ db: any SQLSession, _ enrolment: Enrolment, withInvitation hash: SecretHash
    ) throws -> EnrolmentOutcome {
        guard let row = try db.row("SELECT * FROM invitations WHERE hash = \(hash)") else {
            return .refused(.unknown)
        }
        let invitation = try IssuedInvitation(row)
        if invitation.usedAt != nil {
            if let before = try madeBefore(db, invitation, row, enrolment) { return .repeated(before) }
            try recordMisuse(db, invitation, enrolment)
            return .refused(.used)
        }
        if invitation.revokedAt != nil { return .refused(.revoked) }
        if invitation.expiresAt <= enrolment.now { return .refused(.expired) }
        let name = enrolment.name ?? (invitation.deviceName.isEmpty ? nil : invitation.deviceName)
        let outcome = try make(db, enrolment, for: invitation.userID, name, by: "invitation:\(invitation.id)")
        guard case .made(let made) = outcome else { return outcome }
        try db.execute(
            """
            UPDATE invitations SET used_at = \(enrolment.now), request_hash = \(enrolment.request),
                device_id = \(made.device.id)
            WHERE id = \(invitation.id)
            """)
        return outcome
    }

    private static func recordMisuse(_ db: any SQLSession, _ invitation: IssuedInvitation, _ enrolment: Enrolment)
        throws
    {
        guard enrolment.misuses > 0 else { return }
        try db.execute(
            """
            UPDATE invitations SET misuses = misuses + \(enrolment.misuses) WHERE id = \(invitation.id)
            """)
        guard invitation.misuses < loggedMisuses else { return }
        try log(
            db,
            AuditRecord(
                at: enrolment.now, actor: "invitation:\(invitation.id)", source: enrolment.source,
                action: .invitationMisused, subject: "invitation:\(invitation.id)",
                details: [
                    "device": invitation.deviceID?.description ?? "removed", "key": enrolment.publicKey.base64,
                    "misuses": "\(invitation.misuses + enrolment.misuses)",
                ]))
    }

    private static func enrol(
        _ db: any SQLSession, _ enrolment: Enrolment, withToken hash: SecretHash
    ) throws -> EnrolmentOutcome {
        guard let row = try db.row("SELECT * FROM tokens WHERE hash = \(hash)") else {
            return .refused(.unknown)
        }
        let token = try Token(row)
        guard token.scope == .enrol, let user = token.userID else { return .refused(.wrongScope) }
        if token.revokedAt != nil { return .refused(.revoked) }
        if token.isExpired(at: enrolment.now) { return .refused(.expired) }
        let maker = "token:\(token.id)"
        if let before = try device(
            db, "request_hash = \(enrolment.request) AND made_by = \(maker) AND user_id = \(user)"),
            before.device.publicKey == enrolment.publicKey
        {
            return .repeated(before)
        }
        return try make(db, enrolment, for: user, enrolment.name, by: maker)
    }

    private static func make(
        _ db: any SQLSession, _ enrolment: Enrolment, for userID: UserID, _ name: String?, by maker: String
    ) throws -> EnrolmentOutcome {
        guard let user = try user(db, userID) else { return .refused(.unknown) }
        guard user.isEnabled else { return .refused(.userDisabled) }
        guard user.isActive(at: enrolment.now) else { return .refused(.userExpired) }
        try checkRoom(db, for: user, enrolment.limits)
        var device = Device(
            id: enrolment.deviceID, userID: userID, kind: .enrolled, name: name ?? user.login,
            platform: enrolment.platform, publicKey: enrolment.publicKey, keyAt: enrolment.now,
            credentialHash: enrolment.credentialHash, expiresAt: enrolment.expiresAt, createdAt: enrolment.now)
        try insert(db, device, by: maker, enrolment.request)
        device.addresses = try assignAddresses(db, to: device.id, wanted: [], enrolment.limits)
        try recordChange(db, .device(device.id), at: enrolment.now)
        try log(
            db,
            AuditRecord(
                at: enrolment.now, actor: maker, source: enrolment.source, action: .deviceEnrolled,
                subject: "device:\(device.id)",
                details: [
                    "user": user.id.description, "name": device.name, "key": enrolment.publicKey.base64,
                    "addresses": device.addresses.map(\.description).joined(separator: " "),
                ]))
        return .made(DeviceOfUser(device: device, user: user))
    }
}
