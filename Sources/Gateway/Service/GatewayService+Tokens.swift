// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Provisioning
import Synchronization
import TunnelSystem

extension GatewayService {
    private static let rememberedFor: Int64 = 600_000_000_000

    package func tokens(_ page: PageRequest, _ caller: Caller) async throws(GatewayError) -> Page<Token> {
        try caller.check(.read)
        var found = try await stored("token", try await store.tokens(page))
        found.items = found.items.map(inEffect)
        return found
    }

    package func addToken(
        _ draft: TokenDraft, creationKey: String? = nil, _ caller: Caller
    ) async throws(GatewayError) -> Issued<Token> {
        try caller.check(.manage)
        let now = now
        try check(draft, TokenDraft.message)
        let needsUser = draft.scope == .enrol || draft.scope == .addKey
        if needsUser { try checkWireGuard() }
        guard (draft.userID != nil) == needsUser else {
            throw .invalid(
                field: "user", problem: needsUser ? "must be present for this scope" : "must be absent for this scope")
        }
        var random = random
        let secret = BearerSecret(.token, using: &random)
        let id = TokenID(using: &random)
        var slot: Device?
        if draft.scope == .addKey, let user = draft.userID {
            slot = Device(
                id: DeviceID(using: &random), userID: user, kind: .addKey, name: draft.name, publicKey: nil,
                createdAt: now)
        }
        let lifetime = draft.lifetimeSeconds ?? settings.tokenLifetimeSeconds
        let token = Token(
            id: id, scope: draft.scope, userID: draft.userID, deviceID: slot?.id, name: draft.name,
            hash: SecretHash(secret), hint: secret.hint, createdAt: now,
            expiresAt: lifetime > 0 ? now.addingTimeInterval(Double(lifetime)) : nil)
        let creation = try creation(creationKey, "token \(TokenDraft.message.encode(draft).line)", caller)
        var details = ["scope": draft.scope.rawValue, "name": draft.name]
        details["user"] = draft.userID?.description
        let audit = record(.tokenAdded, "token:\(id)", caller, details)
        let limits = limits(at: now)
        let device = slot
        let made = try await changed("user", try await store.add(token, slot: device, limits, creation, audit))
        return try issued(
            Created(item: inEffect(made.item), isRepetition: made.isRepetition), secret, creation, made.item.id)
    }

    /// Revokes a token, and removes the device of its slot. The revocation is in effect even if the database refuses
    /// writes.
    package func revokeToken(_ id: TokenID, _ caller: Caller) async throws(GatewayError) -> Token {
        try caller.check(.manage)
        let found = try await stored("token", try await store.token(id))
        guard let found else { throw .notFound("token") }
        let audit = record(.tokenRevoked, "token:\(id)", caller)
        let saved = try await endAccess(.revokedToken(id, found.hash, slot: found.deviceID), audit) {
            () async throws(GatewayError) in
            try await self.changed("token", try await self.store.revoke(token: id, audit))
        }
        return inEffect(saved ?? found)
    }

    package func invitations(
        _ page: PageRequest, _ caller: Caller
    ) async throws(GatewayError) -> Page<IssuedInvitation> {
        try caller.check(.read)
        var found = try await stored("invitation", try await store.invitations(page))
        found.items = found.items.map(inEffect)
        return found
    }

    package func addInvitation(
        _ draft: InvitationDraft, creationKey: String? = nil, _ caller: Caller
    ) async throws(GatewayError) -> Issued<IssuedInvitation> {
        try caller.check(.manage)
        try checkWireGuard()
        let now = now
        try check(draft, InvitationDraft.message)
        var random = random
        let secret = BearerSecret(.invitation, using: &random)
        let lifetime = draft.lifetimeSeconds ?? settings.invitationLifetimeSeconds
        let invitation = IssuedInvitation(
            id: InvitationID(using: &random), userID: draft.userID, deviceName: draft.deviceName,
            hash: SecretHash(secret), hint: secret.hint, createdAt: now,
            expiresAt: now.addingTimeInterval(Double(lifetime)))
        let creation = try creation(creationKey, "invitation \(InvitationDraft.message.encode(draft).line)", caller)
        let audit = record(
            .invitationAdded, "invitation:\(invitation.id)", caller, ["user": draft.userID.description])
        let made = try await stored("user", try await store.add(invitation, creation, audit))
        return try issued(
            Created(item: inEffect(made.item), isRepetition: made.isRepetition), secret, creation, made.item.id)
    }

    /// Revokes an invitation. The revocation is in effect even if the database refuses writes.
    package func revokeInvitation(
        _ id: InvitationID, _ caller: Caller
    ) async throws(GatewayError) -> IssuedInvitation {
        try caller.check(.manage)
        let found = try await stored("invitation", try await store.invitation(id))
        guard let found else { throw .notFound("invitation") }
        let audit = record(.invitationRevoked, "invitation:\(id)", caller)
        let saved = try await endAccess(.revokedInvitation(id, found.hash), audit) { () async throws(GatewayError) in
            try await self.written("invitation", try await self.store.revoke(invitation: id, audit))
        }
        return inEffect(saved ?? found)
    }

    /// Returns a new item with its secret. The store contains no secrets. For a repeated request, the secret is kept in
    /// memory for ten minutes, and is unavailable afterwards.
    private func issued<Item>(
        _ made: Created<Item>, _ secret: BearerSecret, _ creation: Creation?, _ id: RandomID
    ) throws(GatewayError) -> Issued<Item> {
        let time = nanoseconds
        let remembered = state.withLock { state -> BearerSecret? in
            guard let creation else { return secret }
            guard made.isRepetition else {
                state.secrets[creation.key] = RememberedSecret(secret: secret, until: time + Self.rememberedFor)
                return secret
            }
            guard let known = state.secrets[creation.key], known.until > time else { return nil }
            return known.secret
        }
        guard let remembered else { throw .creationConflict(subject: id.description) }
        return Issued(item: made.item, secret: remembered, isRepetition: made.isRepetition)
    }
}
