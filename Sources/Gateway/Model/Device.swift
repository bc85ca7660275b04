// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
package import NetworkAddresses
package import Provisioning
package import WireGuardCore

/// A WireGuard peer of the gateway, or a place for a session of the login tunnel.
package struct Device: Hashable, Sendable {
    /// Where its key was made.
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        /// By the device, which enrolled and has a credential.
        case enrolled
        /// Where an administrator exported a configuration for a stock client.
        case exported
        /// By one of PIA's clients: the slot of an `addKey` token.
        case addKey
        /// It has no key: a user's logins have it, one session at a time, and it goes when none has had it for a while.
        case login
    }

    package let id: DeviceID
    package var userID: UserID
    package let kind: Kind
    package var name: String
    package var notes: String
    /// What the device says it is, such as `linux`.
    package var platform: String?
    /// Nil for an `addKey` slot whose key has expired, or has not come yet, and for a login's.
    package var publicKey: PublicKey?
    /// When the key came.
    package var keyAt: Date?
    package var credentialHash: SecretHash?
    /// What the request was that made ``publicKey`` the key, where that was a rotation: its repetition is known by it.
    package var rotationHash: SecretHash?
    /// At most one of each family, in no other device's hands.
    package var addresses: [IPAddress]
    /// Networks behind it.
    package var subnets: [IPPrefix]
    package var isEnabled: Bool
    package var expiresAt: Date?
    /// The expiry that an administrator has set, or `nil`. A renewal ends there at the latest.
    package var expiryLimit: Date?
    /// Whether the store has noted the expiry, which then lasts even if the clock is set back.
    package var hasExpired = false
    /// Whether the store has this state. `false` while the end of access is in effect and not written yet.
    package var isSaved = true
    package let createdAt: Date
    /// When the last handshake or packet was, as the runtime has told.
    package var lastSeenAt: Date?
    package var lastEndpoint: Endpoint?
    package var traffic: Traffic

    /// Bytes, for as long as the device has been known.
    package struct Traffic: Hashable, Sendable {
        /// From the device.
        package var received: UInt64
        /// To the device.
        package var sent: UInt64

        package init(received: UInt64 = 0, sent: UInt64 = 0) {
            self.received = received
            self.sent = sent
        }
    }

    package init(
        id: DeviceID, userID: UserID, kind: Kind, name: String, notes: String = "", platform: String? = nil,
        publicKey: PublicKey?, keyAt: Date? = nil, credentialHash: SecretHash? = nil, addresses: [IPAddress] = [],
        subnets: [IPPrefix] = [], isEnabled: Bool = true, expiresAt: Date? = nil, createdAt: Date,
        lastSeenAt: Date? = nil, lastEndpoint: Endpoint? = nil, traffic: Traffic = Traffic()
    ) {
        self.id = id
        self.userID = userID
        self.kind = kind
        self.name = name
        self.notes = notes
        self.platform = platform
        self.publicKey = publicKey
        self.keyAt = keyAt
        self.credentialHash = credentialHash
        self.addresses = addresses
        self.subnets = subnets
        self.isEnabled = isEnabled
        self.expiresAt = expiresAt
        self.createdAt = createdAt
        self.lastSeenAt = lastSeenAt
        self.lastEndpoint = lastEndpoint
        self.traffic = traffic
    }

    /// Whether it is let in as far as it goes by the device itself.
    package func isActive(at now: Date) -> Bool { isEnabled && !hasExpired && expiresAt.map { now < $0 } ?? true }
}

/// A device that an administrator makes for a stock client: the private key stays where it was generated. The user, the name and
/// the key are required. The gateway chooses addresses that are not given.
package typealias DeviceDraft = FieldValues<Device>

/// The members of a device that change.
package typealias DeviceUpdate = FieldValues<Device>

extension FieldValues<Device> {
    package init(
        userID: UserID, name: String, publicKey: PublicKey, addresses: [IPAddress] = [], subnets: [IPPrefix] = [],
        expiresAt: Date? = nil
    ) {
        self.init()
        self.userID = userID
        self.name = name
        self.publicKey = .some(publicKey)
        self.addresses = addresses
        self.subnets = subnets
        self.expiresAt = .some(expiresAt)
    }
}

extension Device: Declared {
    package static let message = Message<Device> {
        Field("id", \.id, .id, column: "id")
        Field("user", \.userID, .id, options: .required)
        Field("kind", \.kind, .choice, column: "kind")
        Field("name", \.name, .line(1...64), options: [.required, .patch], column: "name")
        Field("notes", \.notes, .line(0...500), options: [.create, .patch, .redacted])
        Field("platform", \.platform, .omittable(.line(1...32)))
        Field(
            "publicKey", \.publicKey, .omittable(.key), options: .required,
            .create("Its private key stays where it was made"))
        Field("keyAt", \.keyAt, .omittable(.time))
        Field("addresses", \.addresses, .list(of: .address, count: 0...2), options: .create, column: "addresses")
        Field(
            "subnets", \.subnets, .list(of: .network, count: 0...32), options: [.create, .patch],
            .create("Networks behind it"))
        Field("isEnabled", \.isEnabled, .flag, options: .patch, column: "enabled", auditName: "enabled")
        Field(
            "expiresAt", \.expiresAt, .nullable(.time, omitted: "never"), options: [.create, .patch],
            .patch("null for never"))
        Field("createdAt", \.createdAt, .time)
        Field("lastSeenAt", \.lastSeenAt, .omittable(.time), column: "last seen")
        Field("lastEndpoint", \.lastEndpoint, .omittable(.shown { "\($0)" }))
        Field("receivedBytes", \.traffic.received, .count, column: "received")
        Field("sentBytes", \.traffic.sent, .count, column: "sent")
        Field("isSaved", \.savedMember, .omittable(.flag), .isSaved)
    }

    private var savedMember: Bool? { isSaved ? nil : false }
}

/// What the runtime has counted of one device since it told the last time.
package struct DeviceActivity: Hashable, Sendable {
    package var deviceID: DeviceID
    /// To be added to what was counted before.
    package var traffic: Device.Traffic
    package var lastSeenAt: Date?
    package var endpoint: Endpoint?

    package init(deviceID: DeviceID, traffic: Device.Traffic, lastSeenAt: Date? = nil, endpoint: Endpoint? = nil) {
        self.deviceID = deviceID
        self.traffic = traffic
        self.lastSeenAt = lastSeenAt
        self.endpoint = endpoint
    }
}
