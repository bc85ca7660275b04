// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
package import NetworkAddresses
package import TunnelServer
package import WireGuardCore

/// Identifies a creation, so that a repeated request is recognised.
package struct Creation: Hashable, Sendable {
    /// The hash of the caller and the creation key that the caller chose.
    package var key: SecretHash
    /// The hash of the request's content.
    package var request: SecretHash

    package init(key: SecretHash, request: SecretHash) {
        self.key = key
        self.request = request
    }
}

/// A device and its user.
package struct DeviceOfUser: Hashable, Sendable {
    package var device: Device
    package var user: User

    package init(device: Device, user: User) {
        self.device = device
        self.user = user
    }
}

/// The limits and address ranges for a device.
package struct DeviceLimits: Hashable, Sendable {
    /// The gateway's own addresses: a device gets one address of each of their networks.
    package var servers: [InterfaceAddress]
    /// Addresses that were released after this time are in cooldown.
    package var restSince: Date
    /// The largest number of devices of a user who has no individual limit.
    package var devicesPerUser: Int
    package var devices: Int

    package init(servers: [InterfaceAddress], restSince: Date, devicesPerUser: Int, devices: Int) {
        self.servers = servers
        self.restSince = restSince
        self.devicesPerUser = devicesPerUser
        self.devices = devices
    }
}

/// A request for a new device.
package struct Enrolment: Sendable {
    package enum Secret: Hashable, Sendable {
        case invitation(SecretHash)
        /// A token of scope `enrol`.
        case token(SecretHash)
    }

    package var secret: Secret
    /// The hash of secret, key and credential. A repetition of the request has the same hash.
    package var request: SecretHash
    package var deviceID: DeviceID
    package var publicKey: PublicKey
    package var credentialHash: SecretHash
    package var name: String?
    package var platform: String?
    /// The expiry of the device; `nil` if it does not expire.
    package var expiresAt: Date?
    package var limits: DeviceLimits
    package var now: Date
    package var source: IPAddress?
    /// The number of misuses to record if another request has used the invitation. If it is 0, a misuse writes nothing.
    package var misuses = 1

    package init(
        secret: Secret, request: SecretHash, deviceID: DeviceID, publicKey: PublicKey, credentialHash: SecretHash,
        name: String?, platform: String?, expiresAt: Date?, limits: DeviceLimits, now: Date, source: IPAddress?
    ) {
        self.secret = secret
        self.request = request
        self.deviceID = deviceID
        self.publicKey = publicKey
        self.credentialHash = credentialHash
        self.name = name
        self.platform = platform
        self.expiresAt = expiresAt
        self.limits = limits
        self.now = now
        self.source = source
    }
}

/// The result of an enrolment.
package enum EnrolmentOutcome: Sendable {
    case made(DeviceOfUser)
    /// An earlier, identical request made the device.
    case repeated(DeviceOfUser)
    case refused(Refusal)

    package enum Refusal: Hashable, Sendable {
        case unknown, expired, revoked, used, userDisabled, userExpired, wrongScope
    }
}

/// A login with the correct password, which requests addresses.
package struct LoginLease: Sendable {
    package var userID: UserID
    /// The password that was compared. If the user has another password now, the login is refused.
    package var password: StoredPassword
    /// Devices that have sessions, the oldest session first.
    package var busy: [DeviceID]
    /// The ID for a new device.
    package var deviceID: DeviceID
    /// The largest number of login devices that a user may have.
    package var sessionsPerUser: Int
    package var limits: DeviceLimits
    package var now: Date
    package var source: Endpoint
    /// The device of the login's ticket, or `nil` for a login without a ticket.
    package var resumed: ResumedDevice?

    /// A device to which a session is bound that begins again.
    package struct ResumedDevice: Sendable {
        package var id: DeviceID
        /// Whether the device's current session is the one that begins again.
        package var isOwnSession: Bool
    }

    package init(
        userID: UserID, password: StoredPassword, busy: [DeviceID], deviceID: DeviceID, sessionsPerUser: Int,
        limits: DeviceLimits, now: Date, source: Endpoint
    ) {
        self.userID = userID
        self.password = password
        self.busy = busy
        self.deviceID = deviceID
        self.sessionsPerUser = sessionsPerUser
        self.limits = limits
        self.now = now
        self.source = source
    }
}

/// The result of a login's request for addresses.
package enum LoginLeaseOutcome: Sendable {
    case given(DeviceOfUser)
    /// The user was removed, or has another password or none.
    case changed
    case userDisabled, userExpired
    /// The device of the login's ticket was removed or revoked.
    case deviceGone
}

/// A device with everything that a peer needs.
package struct PeerRecord: Hashable, Sendable {
    package var device: Device
    package var user: User
    /// The device's rules, followed by its user's rules.
    package var rules: [AccessRule]

    package init(device: Device, user: User, rules: [AccessRule]) {
        self.device = device
        self.user = user
        self.rules = rules
    }
}

/// The work of a sweep and its times.
package struct Sweep: Hashable, Sendable {
    package var now: Date
    /// `addKey` keys that were neither set nor in use since this time are removed.
    package var idleKeysBefore: Date
    /// Devices of logins that had no session since this time are removed, and the cooldown of their addresses starts.
    package var idleLeasesBefore: Date
    /// The devices that have a session now. They are kept even if their idle time has passed by the clock.
    package var busy: [DeviceID]
    /// Audit entries before this time are deleted; `nil` to keep all.
    package var auditBefore: Date?
    /// Creations before this time are deleted.
    package var creationsBefore: Date
    /// The number of latest changes that are kept.
    package var changesKept: Int
    /// Whether the current time has persisted, so that expiries that were recorded too early are corrected.
    package var isTimeCertain = false
    /// Whether times that are later than now are corrected.
    package var correctsTimes = false
    /// Whether to write even if nothing has changed, to test whether the store accepts writes.
    package var isProbe = false

    package init(
        now: Date, idleKeysBefore: Date, idleLeasesBefore: Date = .distantPast, busy: [DeviceID] = [],
        auditBefore: Date?,
        creationsBefore: Date,
        changesKept: Int = 100_000
    ) {
        self.now = now
        self.idleKeysBefore = idleKeysBefore
        self.idleLeasesBefore = idleLeasesBefore
        self.busy = busy
        self.auditBefore = auditBefore
        self.creationsBefore = creationsBefore
        self.changesKept = changesKept
    }
}

/// The result of a sweep.
package struct SweepOutcome: Hashable, Sendable {
    package var devices: [DeviceID] = []
    package var users: [UserID] = []
    /// Slots whose key was removed.
    package var keys: [DeviceID] = []
    /// Devices of logins that were removed.
    package var leases: [DeviceID] = []
    /// The number of devices and users whose expiry had been recorded too early.
    package var readmitted = 0

    package init() {}

    package var isEmpty: Bool {
        devices.isEmpty && users.isEmpty && keys.isEmpty && leases.isEmpty && readmitted == 0
    }
}
