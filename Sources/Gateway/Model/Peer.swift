// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
package import NetworkAddresses
package import TunnelServer
package import WireGuardCore

/// A device as the runtime needs it: its keys or its user's password, the sources of its packets, and its rules.
package struct Peer: Equatable, Sendable {
    package var deviceID: DeviceID
    /// The device's user; `nil` if a user's end of access does not matter.
    package var userID: UserID?
    /// The time at which the device loses its access, or `nil`.
    package var expiresAt: Date?
    /// The key of a peer of WireGuard. `nil` without a key, and if the device or its user is disabled or its expiry was noted.
    package var publicKey: PublicKey?
    package var presharedKey: PresharedKey?
    /// The password that a session's password was compared with. `nil` if the device is not a login's, and if the device or its user
    /// is disabled, has expired or has no password: then there is no session.
    package var password: StoredPassword?
    /// The addresses of the device, and the networks behind it. Its packets have no other sources.
    package var sources: [IPPrefix]
    /// The device's rules, then its user's.
    package var rules: [AccessRule]
    /// Whether the store has a handshake or a packet of the device.
    package var hasBeenSeen: Bool

    package init(
        deviceID: DeviceID, userID: UserID? = nil, expiresAt: Date? = nil, publicKey: PublicKey?,
        presharedKey: PresharedKey? = nil, password: StoredPassword? = nil, sources: [IPPrefix],
        rules: [AccessRule] = [], hasBeenSeen: Bool = true
    ) {
        self.deviceID = deviceID
        self.userID = userID
        self.expiresAt = expiresAt
        self.publicKey = publicKey
        self.presharedKey = presharedKey
        self.password = password
        self.sources = sources
        self.rules = rules
        self.hasBeenSeen = hasBeenSeen
    }
}
