// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
import GRDB
import Provisioning

extension SQLiteStore {
    // MARK: - Tokens

    package func add(
        _ token: Token, slot: Device?, _ limits: DeviceLimits, _ creation: Creation?, _ audit: AuditRecord
    ) async throws(StoreError) -> Created<Token> {
        try await write { db in
            if let id = try Self.repeated(db, creation, token.id, at: audit.at) {
                guard let before = try Self.token(db, "id = \(id.description)") else {
                    throw StoreError.creationConflict(subject: id.description)
                }
                return Created(item: before, isRepetition: true)
            }
            if let slot {
                guard let user = try Self.user(db, slot.userID) else { throw StoreError.notFound }
                try Self.checkRoom(db, for: user, limits)
                try Self.insert(db, slot, by: "token:\(token.id)", nil)
                try Self.note(db, .device(slot.id), at: audit.at)
            }
            try db.execute(
                literal: """
                    INSERT INTO tokens (id, scope, user_id, device_id, name, hash, hint, created_at, expires_at)
                    VALUES (
                        \(token.id.description), \(token.scope.rawValue), \(token.userID?.description),
                        \(token.deviceID?.description), \(token.name), \(token.hash.data), \(token.hint),
                        \(token.createdAt.milliseconds), \(token.expiresAt?.milliseconds))
                    """)
            try Self.log(db, audit)
            return Created(item: token, isRepetition: false)
        }
    }

    package func revoke(token id: TokenID, _ audit: AuditRecord) async throws(StoreError) -> Token {
        try await write { db in
            guard var token = try Self.token(db, "id = \(id.description)") else { throw StoreError.notFound }
            guard token.revokedAt == nil else { return token }
            token.revokedAt = audit.at
            try db.execute(
                literal: "UPDATE tokens SET revoked_at = \(audit.at.milliseconds) WHERE id = \(id.description)")
            if let slot = token.deviceID { try Self.removeDevice(db, slot, at: audit.at) }
            try Self.log(db, audit)
            return try Self.token(db, "id = \(id.description)") ?? token
        }
    }

    package func token(_ hash: SecretHash) async throws(StoreError) -> Token? {
        try await read { db in try Self.token(db, "hash = \(hash.data)") }
    }

    package func token(_ id: TokenID) async throws(StoreError) -> Token? {
        try await read { db in try Self.token(db, "id = \(id.description)") }
    }

    private static func token(_ db: Database, _ condition: SQL) throws -> Token? {
        try Row.fetchOne(db, literal: "SELECT * FROM tokens WHERE \(condition)").map(Token.init)
    }

    package func tokens(_ page: PageRequest) async throws(StoreError) -> Page<Token> {
        try await read { db in
            try Self.page(db, "tokens", page) { row in
                let token = try Token(row)
                return (token, token.createdAt, token.id)
            }
        }
    }

    package func noteUse(of token: TokenID, at now: Date) async throws(StoreError) {
        try await write { db in
            try db.execute(
                literal: "UPDATE tokens SET last_used_at = \(now.milliseconds) WHERE id = \(token.description)")
        }
    }

    // MARK: - Invitations

    package func add(
        _ invitation: IssuedInvitation, _ creation: Creation?, _ audit: AuditRecord
    ) async throws(StoreError) -> Created<IssuedInvitation> {
        try await write { db in
            if let id = try Self.repeated(db, creation, invitation.id, at: audit.at) {
                guard let before = try Self.invitation(db, id) else {
                    throw StoreError.creationConflict(subject: id.description)
                }
                return Created(item: before, isRepetition: true)
            }
            try db.execute(
                literal: """
                    INSERT INTO invitations (id, user_id, device_name, hash, hint, created_at, expires_at)
                    VALUES (
                        \(invitation.id.description), \(invitation.userID.description), \(invitation.deviceName),
                        \(invitation.hash.data), \(invitation.hint), \(invitation.createdAt.milliseconds),
                        \(invitation.expiresAt.milliseconds))
                    """)
            try Self.log(db, audit)
            return Created(item: invitation, isRepetition: false)
        }
    }

    package func revoke(
        invitation id: InvitationID, _ audit: AuditRecord
    ) async throws(StoreError) -> IssuedInvitation {
        try await write { db in
            guard var invitation = try Self.invitation(db, id) else { throw StoreError.notFound }
            guard invitation.revokedAt == nil else { return invitation }
            invitation.revokedAt = audit.at
            try db.execute(
                literal: "UPDATE invitations SET revoked_at = \(audit.at.milliseconds) WHERE id = \(id.description)")
            try Self.log(db, audit)
            return invitation
        }
    }

    package func invitation(_ id: InvitationID) async throws(StoreError) -> IssuedInvitation? {
        try await read { db in try Self.invitation(db, id) }
    }

    private static func invitation(_ db: Database, _ id: InvitationID) throws -> IssuedInvitation? {
        try Row.fetchOne(db, literal: "SELECT * FROM invitations WHERE id = \(id.description)")
            .map(IssuedInvitation.init)
    }

    package func invitations(_ page: PageRequest) async throws(StoreError) -> Page<IssuedInvitation> {
        try await read { db in
            try Self.page(db, "invitations", page) { row in
                let invitation = try IssuedInvitation(row)
                return (invitation, invitation.createdAt, invitation.id)
            }
        }
    }
}
