// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
package import NetworkAddresses
package import Provisioning
package import WireGuardCore

/// A WireGuard peer of the gateway, or a place for a session of the login tunnel.
package struct Device: Hashable, Sendable {
    /// The origin of the device's key.
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        /// The device made the key, enrolled, and has a credential.
        case enrolled
        /// An administrator exported a configuration for a stock client.
        case exported
        /// A PIA client made the key for the slot of an `addKey` token.
        case addKey
        /// The device has no key. Logins of its user use it, one session at a time. It is removed after some time
        /// without a session.
        case login
    }

    package let id: DeviceID
    package var userID: UserID
    package let kind: Kind
    package var name: String
    package var notes: String
    /// The platform that the device reports, such as `linux`.
    package var platform: String?
    /// `nil` for a login's device, and for an `addKey` slot that has no key yet or whose key has expired.
    package var publicKey: PublicKey?
    /// The time at which the key was set.
    package var keyAt: Date?
    package var credentialHash: SecretHash?
    /// The hash of the rotation request that set ``publicKey``, by which a repetition of the request is recognised;
    /// `nil` if no rotation has set the key.
    package var rotationHash: SecretHash?
    /// At most one address of each family. No other device has the same address.
    package var addresses: [IPAddress]
    /// The networks behind the device.
    package var subnets: [IPPrefix]
    package var isEnabled: Bool
    package var expiresAt: Date?
    /// The expiry that an administrator has set, or `nil`. A renewal cannot exceed it.
    package var expiryLimit: Date?
    /// Whether the store has recorded the expiry. A recorded expiry stays in effect if the clock is set back, until the
    /// new time has persisted for ten minutes.
    package var hasExpired = false
    /// Whether the store has this state; `false` while an end of access is in effect but not written yet.
    package var isSaved = true
    package let createdAt: Date
    /// The time of the last handshake or packet, as reported by the runtime.
    package var lastSeenAt: Date?
    package var lastEndpoint: Endpoint?
    package var traffic: Traffic

    /// Numbers of bytes since the device was added.
    package struct Traffic: Hashable, Sendable {
        /// Bytes received from the device.
        package var received: UInt64
        /// Bytes sent to the device.
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

    /// Whether the device is enabled and has not expired. Its user may still be disabled or have expired.
    package func isActive(at now: Date) -> Bool { isEnabled && !hasExpired && expiresAt.map { now < $0 } ?? true }
}

/// A device that an administrator makes for a stock client. The gateway never gets its private key. The user, the name
/// and the key are required. The gateway chooses addresses that are missing.
package typealias DeviceDraft = FieldValues<Device>

/// The members of a device that can be changed.
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
            .create("The public key; the gateway never gets the private key"))
        Field("keyAt", \.keyAt, .omittable(.time))
        Field("addresses", \.addresses, .list(of: .address, count: 0...2), options: .create, column: "addresses")
        Field(
            "subnets", \.subnets, .list(of: .network, count: 0...32), options: [.create, .patch],
            .create("Networks behind the device"))
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

/// The traffic of one device since the runtime's last report.
package struct DeviceActivity: Hashable, Sendable {
    package var deviceID: DeviceID
    /// The number of bytes to add to the counters.
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
