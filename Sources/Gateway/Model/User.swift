// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials

/// A person of the team, who has devices.
package struct User: Hashable, Sendable {
    package let id: UserID
    /// What nobody else is called: 1 to 128 bytes without control characters.
    package var login: String
    package var name: String
    package var notes: String
    package var isEnabled: Bool
    /// When it ends; nil: never.
    package var expiresAt: Date?
    /// How many devices there may be; nil: as many as the gateway's settings say.
    package var deviceLimit: Int?
    /// What the login tunnel's server compares a password with; nil for a user without a password.
    package var password: StoredPassword?
    /// Whether the store has noted the expiry, which then lasts even if the clock is set back.
    package var hasExpired = false
    /// Whether the store has this state. `false` while the end of access is in effect and not written yet.
    package var isSaved = true
    package let createdAt: Date

    package init(
        id: UserID, login: String, name: String = "", notes: String = "", isEnabled: Bool = true,
        expiresAt: Date? = nil,
        deviceLimit: Int? = nil, password: StoredPassword? = nil, createdAt: Date
    ) {
        self.id = id
        self.login = login
        self.name = name
        self.notes = notes
        self.isEnabled = isEnabled
        self.expiresAt = expiresAt
        self.deviceLimit = deviceLimit
        self.password = password
        self.createdAt = createdAt
    }

    /// Whether devices of this user are let in.
    package func isActive(at now: Date) -> Bool { isEnabled && !hasExpired && expiresAt.map { now < $0 } ?? true }
}

/// A hashed password with all that it takes to compare another one: text that the store does not look into. Never printed.
package struct StoredPassword: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    package let text: String

    package init(text: String) { self.text = text }

    package var description: String { "(password)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// A user to be made.
package struct UserDraft: Hashable, Sendable {
    package var login: String
    package var name: String
    package var notes: String
    package var expiresAt: Date?
    package var deviceLimit: Int?

    package init(
        login: String, name: String = "", notes: String = "", expiresAt: Date? = nil, deviceLimit: Int? = nil
    ) {
        self.login = login
        self.name = name
        self.notes = notes
        self.expiresAt = expiresAt
        self.deviceLimit = deviceLimit
    }
}

/// What is to become different; nil leaves it as it is, `.some(nil)` takes it away.
package struct UserUpdate: Hashable, Sendable {
    package var login: String?
    package var name: String?
    package var notes: String?
    package var isEnabled: Bool?
    package var expiresAt: Date??
    package var deviceLimit: Int??
    package var password: StoredPassword??

    package init() {}
}
