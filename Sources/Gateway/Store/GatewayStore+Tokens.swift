// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
import Provisioning

extension GatewayStore {
    // MARK: - Tokens

    /// - Parameter slot: The device whose key a token of scope `addKey` sets. The device is added and removed together
    ///   with the token.
    package func add(
        _ token: Token, slot: Device?, _ limits: DeviceLimits, _ creation: Creation?, _ audit: AuditRecord
    ) async throws(StoreError) -> Created<Token> {
        try await database.write { db in
            try Self.made(db, creation, token.id, at: audit.at) {
                try Self.token(db, "id = \($0)")
            } make: {
                if let slot {
                    guard let user = try Self.user(db, slot.userID) else { throw StoreError.notFound }
                    try Self.checkRoom(db, for: user, limits)
                    try Self.insert(db, slot, by: "token:\(token.id)", nil)
                    try Self.recordChange(db, .device(slot.id), at: audit.at)
                }
                try db.execute(
                    """
                    INSERT INTO tokens (id, scope, user_id, device_id, name, hash, hint, created_at, expires_at)
                    VALUES (
                        \(token.id), \(token.scope), \(token.userID), \(token.deviceID), \(token.name), \(token.hash),
                        \(token.hint), \(token.createdAt), \(token.expiresAt))
                    """)
                try Self.log(db, audit)
                return token
            }
        }
    }

    package func revoke(token id: TokenID, _ audit: AuditRecord) async throws(StoreError) -> Token {
        try await database.write { db in
            guard var token = try Self.token(db, "id = \(id)") else { throw StoreError.notFound }
            guard token.revokedAt == nil else { return token }
            token.revokedAt = audit.at
            try db.execute(
                "UPDATE tokens SET revoked_at = \(audit.at) WHERE id = \(id)")
            if let slot = token.deviceID { try Self.removeDevice(db, slot, at: audit.at) }
            try Self.log(db, audit)
            return try Self.token(db, "id = \(id)") ?? token
        }
    }

    package func token(_ hash: SecretHash) async throws(StoreError) -> Token? {
        try await database.read { db in try Self.token(db, "hash = \(hash)") }
    }

    package func token(_ id: TokenID) async throws(StoreError) -> Token? {
        try await database.read { db in try Self.token(db, "id = \(id)") }
    }

    private static func token(_ db: any SQLSession, _ condition: SQL) throws -> Token? {
        try db.row("SELECT * FROM tokens WHERE \(condition)").map(Token.init)
    }

    package func tokens(_ page: PageRequest) async throws(StoreError) -> Page<Token> {
        try await database.read { db in try Self.page(db, "tokens", page) { try Token($0) } }
    }

    /// Records the use of a token, without an audit entry.
    package func recordUse(of token: TokenID, at now: Date) async throws(StoreError) {
        _ = try await database.write { db in
            try db.execute(
                "UPDATE tokens SET last_used_at = \(now) WHERE id = \(token)")
        }
    }

    // MARK: - Invitations

    package func add(
        _ invitation: IssuedInvitation, _ creation: Creation?, _ audit: AuditRecord
    ) async throws(StoreError) -> Created<IssuedInvitation> {
        try await database.write { db in
            try Self.made(db, creation, invitation.id, at: audit.at) {
                try Self.invitation(db, $0)
            } make: {
                try db.execute(
                    """
                    INSERT INTO invitations (id, user_id, device_name, hash, hint, created_at, expires_at)
                    VALUES (
                        \(invitation.id), \(invitation.userID), \(invitation.deviceName), \(invitation.hash),
                        \(invitation.hint), \(invitation.createdAt), \(invitation.expiresAt))
                    """)
                try Self.log(db, audit)
                return invitation
            }
        }
    }

    package func revoke(
        invitation id: InvitationID, _ audit: AuditRecord
    ) async throws(StoreError) -> IssuedInvitation {
        try await database.write { db in
            guard var invitation = try Self.invitation(db, id) else { throw StoreError.notFound }
            guard invitation.revokedAt == nil else { return invitation }
            invitation.revokedAt = audit.at
            try db.execute(
                "UPDATE invitations SET revoked_at = \(audit.at) WHERE id = \(id)")
            try Self.log(db, audit)
            return invitation
        }
    }

    package func invitation(_ id: InvitationID) async throws(StoreError) -> IssuedInvitation? {
        try await database.read { db in try Self.invitation(db, id) }
    }

    private static func invitation(_ db: any SQLSession, _ id: InvitationID) throws -> IssuedInvitation? {
        try db.row("SELECT * FROM invitations WHERE id = \(id)")
            .map(IssuedInvitation.init)
    }

    package func invitations(_ page: PageRequest) async throws(StoreError) -> Page<IssuedInvitation> {
        try await database.read { db in try Self.page(db, "invitations", page) { try IssuedInvitation($0) } }
    }
}

extension Token {
    init(_ row: SQLRow) throws {
        try self.init(
            id: row["id"], scope: row["scope"], userID: row["user_id"], deviceID: row["device_id"], name: row["name"],
            hash: row["hash"], hint: row["hint"], createdAt: row["created_at"], expiresAt: row["expires_at"],
            lastUsedAt: row["last_used_at"], revokedAt: row["revoked_at"])
    }
}

extension IssuedInvitation {
    init(_ row: SQLRow) throws {
        try self.init(
            id: row["id"], userID: row["user_id"], deviceName: row["device_name"], hash: row["hash"], hint: row["hint"],
            createdAt: row["created_at"], expiresAt: row["expires_at"], usedAt: row["used_at"],
            deviceID: row["device_id"], revokedAt: row["revoked_at"], misuses: row["misuses"])
    }
}
