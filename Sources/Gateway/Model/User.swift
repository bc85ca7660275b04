// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
package import NetworkAddresses
package import Provisioning

/// A person who has devices.
package struct User: Hashable, Sendable {
    package let id: UserID
    /// The login, which is unique among all users.
    package var login: String
    package var name: String
    package var notes: String
    package var isEnabled: Bool
    /// The expiry of the account; `nil` if it does not expire.
    package var expiresAt: Date?
    /// The largest number of devices; `nil` for the limit in the gateway's settings.
    package var deviceLimit: Int?
    /// The hash of the password for the login tunnel; `nil` for a user without a password.
    package var password: StoredPassword?
    /// The fixed addresses of the user's logins, at most one of each family. No device and no other user gets them.
    package var addresses: [IPAddress] = []
    /// Whether the store has recorded the expiry. A recorded expiry stays in effect if the clock is set back, until the
    /// new time has persisted for ten minutes.
    package var hasExpired = false
    /// Whether the store has this state; `false` while an end of access is in effect but not written yet.
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

    /// Whether the user is enabled and has not expired, so that the user's devices are admitted.
    package func isActive(at now: Date) -> Bool { isEnabled && !hasExpired && expiresAt.map { now < $0 } ?? true }
}

/// A hashed password with the parameters of the hash, as text that the store does not interpret. It is never printed.
package struct StoredPassword: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    package let text: String

    package init(text: String) { self.text = text }

    package var description: String { "(password)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// A user to make: the members of ``User/message`` that a creation can have. `login` is required.
package typealias UserDraft = FieldValues<User>

/// The members of a user that can be changed.
package typealias UserUpdate = FieldValues<User>

extension FieldValues<User> {
    package init(login: String, deviceLimit: Int? = nil, addresses: [IPAddress] = []) {
        self.init()
        self.login = login
        self.deviceLimit = .some(deviceLimit)
        self.addresses = addresses
    }
}

extension User: Declared {
    package static let message = Message<User> {
        Field("id", \.id, .id, column: "id")
        Field(
            "login", \.login, .login, options: [.required, .patch], column: "login",
            .create("Unique among all users"))
        Field("name", \.name, .line(0...64), options: [.create, .patch], column: "name")
        Field("notes", \.notes, .line(0...500), options: [.create, .patch, .redacted])
        Field("isEnabled", \.isEnabled, .flag, options: .patch, column: "enabled", auditName: "enabled")
        Field(
            "expiresAt", \.expiresAt, .nullable(.time, omitted: "never"), options: [.create, .patch], column: "expires",
            .patch("null for never"))
        Field(
            "deviceLimit", \.deviceLimit, .nullable(.integer(0...1_000_000), omitted: "default"),
            options: [.create, .patch],
            column: "devices", .patch("null for the limit in the gateway's settings"))
        Field("hasPassword", \.hasPassword, .flag, column: "password")
        Field(
            "addresses", \.addresses, .list(of: .address, count: 0...2), options: [.create, .patch],
            column: "addresses",
            "The fixed addresses of the user's logins, at most one of each family")
        Field("createdAt", \.createdAt, .time)
        Field("isSaved", \.savedMember, .omittable(.flag), .isSaved)
        Field(hidden: "password", \.password)
    }

    private var hasPassword: Bool { password != nil }
    private var savedMember: Bool? { isSaved ? nil : false }
}

extension FieldNote {
    /// The note of the member that replies have while a change is in effect but not written.
    static let isSaved: FieldNote = "false while the end of access is in effect but not written to the database"
}
