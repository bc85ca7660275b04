// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
package import Provisioning

/// A bearer secret of the API.
package struct Token: Hashable, Sendable {
    /// The operations that a token permits. No token permits the operations of a device, which need the device's
    /// credential.
    package enum Scope: String, Hashable, Sendable, CaseIterable {
        case admin
        case readOnly
        /// Makes devices for its user.
        case enrol
        /// The `pt` of PIA's clients: registers keys in one slot of its user, and permits nothing else.
        case addKey
    }

    package let id: TokenID
    package let scope: Scope
    /// The user of a token with scope `enrol` or `addKey`.
    package let userID: UserID?
    /// The slot of an `addKey` token.
    package let deviceID: DeviceID?
    package var name: String
    package let hash: SecretHash
    /// The first characters of the secret.
    package let hint: String
    package let createdAt: Date
    package let expiresAt: Date?
    package var lastUsedAt: Date?
    package var revokedAt: Date?
    /// Whether the store has this state; `false` while the revocation is in effect but not written yet.
    package var isSaved = true

    package init(
        id: TokenID, scope: Scope, userID: UserID?, deviceID: DeviceID? = nil, name: String, hash: SecretHash,
        hint: String, createdAt: Date, expiresAt: Date?, lastUsedAt: Date? = nil, revokedAt: Date? = nil
    ) {
        self.id = id
        self.scope = scope
        self.userID = userID
        self.deviceID = deviceID
        self.name = name
        self.hash = hash
        self.hint = hint
        self.createdAt = createdAt
        self.expiresAt = expiresAt
        self.lastUsedAt = lastUsedAt
        self.revokedAt = revokedAt
    }

    package func isExpired(at now: Date) -> Bool { expiresAt.map { $0 <= now } ?? false }
}

extension Token: Declared {
    package static let message = Message<Token> {
        Field("id", \.id, .id, column: "id")
        Field("scope", \.scope, .choice, column: "scope")
        Field("user", \.userID, .omittable(.id))
        Field("device", \.deviceID, .omittable(.id))
        Field("name", \.name, .line(1...64), column: "name")
        Field("hint", \.hint, .shown { $0 }, column: "begins with", "The first characters of the secret")
        Field("createdAt", \.createdAt, .time)
        Field("expiresAt", \.expiresAt, .omittable(.time), column: "expires")
        Field("lastUsedAt", \.lastUsedAt, .omittable(.time), column: "last used")
        Field("revokedAt", \.revokedAt, .omittable(.time), column: "revoked")
        Field("isSaved", \.savedMember, .omittable(.flag), .isSaved)
    }

    private var savedMember: Bool? { isSaved ? nil : false }
}

/// A token to make.
package struct TokenDraft: Hashable, Sendable {
    package var scope: Token.Scope
    package var userID: UserID?
    package var name: String
    /// The lifetime in seconds; `nil` for the lifetime in the settings.
    package var lifetimeSeconds: Int?

    package init(scope: Token.Scope, userID: UserID? = nil, name: String, lifetimeSeconds: Int? = nil) {
        self.scope = scope
        self.userID = userID
        self.name = name
        self.lifetimeSeconds = lifetimeSeconds
    }

    package static let message = CompleteMessage<TokenDraft>(
        TokenDraft.init(scope:userID:name:lifetimeSeconds:),
        TypedField("scope", \.scope, .choice),
        TypedField("user", \.userID, .omittable(.id), "Required for the scopes enrol and addKey, and only for them"),
        TypedField("name", \.name, .line(1...64)),
        TypedField("lifetimeSeconds", \.lifetimeSeconds, .nullable(.lifetime(from: 1), omitted: "default")))
}

/// An invitation, as the gateway stores it: a secret that makes one device of a user.
package struct IssuedInvitation: Hashable, Sendable {
    package let id: InvitationID
    package let userID: UserID
    /// The name of a device that does not choose one. If it is empty, the device gets its user's login as its name.
    package let deviceName: String
    package let hash: SecretHash
    package let hint: String
    package let createdAt: Date
    package let expiresAt: Date
    package var usedAt: Date?
    /// The device that the invitation made, until that device is removed.
    package var deviceID: DeviceID?
    package var revokedAt: Date?
    /// The number of later requests with the invitation, without repetitions of the request that made its device.
    package var misuses: Int
    /// Whether the store has this state; `false` while the revocation is in effect but not written yet.
    package var isSaved = true

    package init(
        id: InvitationID, userID: UserID, deviceName: String, hash: SecretHash, hint: String, createdAt: Date,
        expiresAt: Date, usedAt: Date? = nil, deviceID: DeviceID? = nil, revokedAt: Date? = nil, misuses: Int = 0
    ) {
        self.id = id
        self.userID = userID
        self.deviceName = deviceName
        self.hash = hash
        self.hint = hint
        self.createdAt = createdAt
        self.expiresAt = expiresAt
        self.usedAt = usedAt
        self.deviceID = deviceID
        self.revokedAt = revokedAt
        self.misuses = misuses
    }
}

extension IssuedInvitation: Declared {
    package static let message = Message<IssuedInvitation> {
        Field("id", \.id, .id, column: "id")
        Field("user", \.userID, .id, column: "user")
        Field("deviceName", \.deviceName, .line(0...64))
        Field("hint", \.hint, .shown { $0 }, column: "begins with")
        Field("createdAt", \.createdAt, .time)
        Field("expiresAt", \.expiresAt, .time, column: "expires")
        Field("usedAt", \.usedAt, .omittable(.time), column: "used")
        Field("device", \.deviceID, .omittable(.id), column: "device")
        Field("revokedAt", \.revokedAt, .omittable(.time), column: "revoked")
        Field(
            "misuses", \.misuses, .count, column: "misuses",
            "Attempts to use the invitation again, other than repetitions of the request that made its device")
        Field("isSaved", \.savedMember, .omittable(.flag), .isSaved)
    }

    private var savedMember: Bool? { isSaved ? nil : false }
}

/// An invitation to make.
package struct InvitationDraft: Hashable, Sendable {
    package var userID: UserID
    package var deviceName: String
    package var lifetimeSeconds: Int?

    package init(userID: UserID, deviceName: String = "", lifetimeSeconds: Int? = nil) {
        self.userID = userID
        self.deviceName = deviceName
        self.lifetimeSeconds = lifetimeSeconds
    }

    package static let message = CompleteMessage<InvitationDraft>(
        InvitationDraft.init(userID:deviceName:lifetimeSeconds:),
        TypedField("user", \.userID, .id),
        TypedField("deviceName", \.deviceName, .line(0...64), absent: ""),
        TypedField("lifetimeSeconds", \.lifetimeSeconds, .nullable(.lifetime(from: 1), omitted: "default")))
}
