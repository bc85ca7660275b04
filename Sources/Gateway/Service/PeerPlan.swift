// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
package import NetworkAddresses
package import TunnelServer
package import WireGuardCore

/// A device as the runtime needs it: a peer, its sources, its rules.
package struct PeerPlan: Equatable, Sendable {
    package var deviceID: DeviceID
    /// The device's user; `nil` if a user's end of access does not matter.
    package var userID: UserID?
    /// The time at which the device stops being a peer, or `nil`.
    package var expiresAt: Date?
    /// `nil` without a key, and if the device or its user is disabled or its expiry was noted. The device is then not a peer.
    package var publicKey: PublicKey?
    package var presharedKey: PresharedKey?
    /// Of a login's device, what a session's password was compared with. Nil for others, and where the device or its user is
    /// disabled, has expired or has no password: then there is no session.
    package var password: StoredPassword?
    /// The peer's own addresses.
    package var addresses: [IPAddress]
    /// Networks behind it.
    package var subnets: [IPPrefix]
    /// The device's rules, then its user's.
    package var rules: [AccessRule]

    package init(
        deviceID: DeviceID, publicKey: PublicKey?, presharedKey: PresharedKey?, password: StoredPassword? = nil,
        addresses: [IPAddress], subnets: [IPPrefix], rules: [AccessRule], userID: UserID? = nil,
        expiresAt: Date? = nil
    ) {
        self.deviceID = deviceID
        self.userID = userID
        self.expiresAt = expiresAt
        self.publicKey = publicKey
        self.password = password
        self.presharedKey = presharedKey
        self.addresses = addresses
        self.subnets = subnets
        self.rules = rules
    }
}

/// What has become of devices since a change that the runtime has seen.
package struct PeerChanges: Sendable {
    /// The last change that is in it: what to ask with the next time.
    package var sequence: Int64
    /// Whether ``peers`` is all there is, and whatever is not in it is to go.
    package var isComplete: Bool
    /// Devices that are different, as they are now.
    package var peers: [PeerPlan]
    /// Devices that are gone.
    package var removed: [DeviceID]
    /// Whether the gateway's own keys are others.
    package var serverKeysChanged: Bool

    package init(
        sequence: Int64, isComplete: Bool, peers: [PeerPlan], removed: [DeviceID], serverKeysChanged: Bool
    ) {
        self.sequence = sequence
        self.isComplete = isComplete
        self.peers = peers
        self.removed = removed
        self.serverKeysChanged = serverKeysChanged
    }
}
