// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
package import NetworkAddresses
package import TunnelServer
package import WireGuardCore

/// What makes a creation that is asked for again the same one.
package struct Creation: Hashable, Sendable {
    /// Of the caller and the key that it made up.
    package var key: SecretHash
    /// Of all that was asked for.
    package var request: SecretHash

    package init(key: SecretHash, request: SecretHash) {
        self.key = key
        self.request = request
    }
}

/// A device and whose it is.
package struct DeviceOfUser: Hashable, Sendable {
    package var device: Device
    package var user: User

    package init(device: Device, user: User) {
        self.device = device
        self.user = user
    }
}

/// What a device may have.
package struct DeviceLimits: Hashable, Sendable {
    /// The gateway's own addresses: a device gets one of each of their networks.
    package var servers: [InterfaceAddress]
    /// Addresses that were given back after this are nobody's.
    package var restSince: Date
    /// Devices of a user who has no limit of its own.
    package var devicesPerUser: Int
    package var devices: Int

    package init(servers: [InterfaceAddress], restSince: Date, devicesPerUser: Int, devices: Int) {
        self.servers = servers
        self.restSince = restSince
        self.devicesPerUser = devicesPerUser
        self.devices = devices
    }
}

/// A device that asks to be made.
package struct Enrolment: Sendable {
    package enum Secret: Hashable, Sendable {
        case invitation(SecretHash)
        /// Of scope `enrol`.
        case token(SecretHash)
    }

    package var secret: Secret
    /// Of secret, key and credential: the identical request has the same.
    package var request: SecretHash
    package var deviceID: DeviceID
    package var publicKey: PublicKey
    package var credentialHash: SecretHash
    package var name: String?
    package var platform: String?
    /// When the device ends; nil: never.
    package var expiresAt: Date?
    package var limits: DeviceLimits
    package var now: Date
    package var source: IPAddress?
    /// The number of misuses to record if the invitation was used by another request. If it is 0, nothing is written then.
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

/// What became of it.
package enum EnrolmentOutcome: Sendable {
    case made(DeviceOfUser)
    /// It was made before, by the identical request.
    case repeated(DeviceOfUser)
    case refused(Refusal)

    package enum Refusal: Hashable, Sendable {
        case unknown, expired, revoked, used, userDisabled, userExpired, wrongScope
    }
}

/// A login with the right password, which asks for addresses.
package struct LoginLease: Sendable {
    package var userID: UserID
    /// What the password was compared with: whoever has another one by now is refused.
    package var password: StoredPassword
    /// Devices that have sessions, the oldest session first.
    package var busy: [DeviceID]
    /// What a new device is called by the store.
    package var deviceID: DeviceID
    /// How many devices for logins a user has at most.
    package var sessionsPerUser: Int
    package var limits: DeviceLimits
    package var now: Date
    package var source: Endpoint

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

/// What became of it.
package enum LoginLeaseOutcome: Sendable {
    case given(DeviceOfUser)
    /// The user is gone, or has another password or none.
    case changed
    case userDisabled, userExpired
}

/// A device with all that a peer is made of.
package struct PeerRecord: Hashable, Sendable {
    package var device: Device
    package var user: User
    /// The device's, then its user's.
    package var rules: [AccessRule]

    package init(device: Device, user: User, rules: [AccessRule]) {
        self.device = device
        self.user = user
        self.rules = rules
    }
}

/// What is to be looked for.
package struct Sweep: Hashable, Sendable {
    package var now: Date
    /// Keys of `addKey` slots that were neither put there nor seen since then are forgotten.
    package var idleKeysBefore: Date
    /// Devices of logins that had no session since then go, and their addresses begin to rest.
    package var idleLeasesBefore: Date
    /// Devices that have a session now, whatever the clock says.
    package var busy: [DeviceID]
    /// Entries of the log before it are forgotten; nil: none.
    package var auditBefore: Date?
    /// Creations before it are forgotten.
    package var creationsBefore: Date
    /// How many changes are remembered.
    package var changesKept: Int
    /// Whether the clock shows a time that has persisted, so that expiries that were noted too early are corrected.
    package var isTimeCertain = false
    /// Whether times that are later than now are corrected.
    package var correctsTimes = false
    /// Whether something is written in any case, to find out whether the store accepts writes.
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

/// What was found.
package struct SweepOutcome: Hashable, Sendable {
    package var devices: [DeviceID] = []
    package var users: [UserID] = []
    /// Slots whose key was forgotten.
    package var keys: [DeviceID] = []
    /// Devices of logins that are gone.
    package var leases: [DeviceID] = []
    /// The number of devices and users whose expiry had been noted too early.
    package var readmitted = 0

    package init() {}

    package var isEmpty: Bool {
        devices.isEmpty && users.isEmpty && keys.isEmpty && leases.isEmpty && readmitted == 0
    }
}
