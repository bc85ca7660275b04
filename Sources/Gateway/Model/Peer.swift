// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
package import NetworkAddresses
package import TunnelServer
package import WireGuardCore

/// The data of a device that the runtime needs: its key or its user's password, the sources of its packets, and its
/// rules.
package struct Peer: Equatable, Sendable {
    package var deviceID: DeviceID
    /// The device's user; `nil` for a peer that keeps its access when its user's access ends.
    package var userID: UserID?
    /// The time at which the device loses its access, or `nil`.
    package var expiresAt: Date?
    /// The key of a WireGuard peer; `nil` if the device has none, if it or its user is disabled, or if an expiry was
    /// recorded.
    package var publicKey: PublicKey?
    package var presharedKey: PresharedKey?
    /// The password of a login's device; `nil` for other devices, and if the device or its user is disabled, has
    /// expired or has no password. A session ends when this is no longer the password with which it began.
    package var password: StoredPassword?
    /// The addresses of the device and the networks behind it. Packets of the device with other sources are dropped.
    package var sources: [IPPrefix]
    /// The device's rules, followed by its user's rules.
    package var rules: [AccessRule]
    /// Whether the store has recorded a handshake or a packet of the device.
    package var hasBeenSeen: Bool
    /// The endpoint at which a device with a key was last seen; `nil` if the store has recorded none.
    package var formerEndpoint: FormerEndpoint?

    package init(
        deviceID: DeviceID, userID: UserID? = nil, expiresAt: Date? = nil, publicKey: PublicKey?,
        presharedKey: PresharedKey? = nil, password: StoredPassword? = nil, sources: [IPPrefix],
        rules: [AccessRule] = [], hasBeenSeen: Bool = true, formerEndpoint: FormerEndpoint? = nil
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
        self.formerEndpoint = formerEndpoint
    }
}

/// The endpoint of an authenticated device, and the last time at which the store recorded that the device was online.
package struct FormerEndpoint: Equatable, Sendable {
    package var endpoint: Endpoint
    package var seenAt: Date

    package init(_ endpoint: Endpoint, seenAt: Date) { (self.endpoint, self.seenAt) = (endpoint, seenAt) }
}
