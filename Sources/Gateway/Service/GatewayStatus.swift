// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
package import Provisioning
package import WireGuardCore

/// How many of everything there are.
package struct StoreCounts: Hashable, Sendable {
    package var users = 0
    package var devices = 0
    /// With a key, and neither disabled nor expired.
    package var activeDevices = 0
    /// Devices that logins have, or have had lately.
    package var logins = 0
    package var openInvitations = 0
    package var tokens = 0
    /// The last change.
    package var sequence: Int64 = 0
    /// All devices' together, those that are gone included.
    package var traffic = Device.Traffic()

    package init() {}
}

/// How a gateway is.
package struct GatewayStatus: Hashable, Sendable {
    package var counts: StoreCounts
    package var pools: [PoolFigures]
    package var servesWireGuard: Bool
    /// WireGuard's, which it has for the time when it is served.
    package var serverKey: PublicKey
    package var nextServerKey: PublicKey?
    package var nextServerKeyAt: Date?
    package var now: Date

    package init(
        counts: StoreCounts, pools: [PoolFigures], servesWireGuard: Bool, serverKey: PublicKey,
        nextServerKey: PublicKey?, nextServerKeyAt: Date?, now: Date
    ) {
        self.counts = counts
        self.pools = pools
        self.servesWireGuard = servesWireGuard
        self.serverKey = serverKey
        self.nextServerKey = nextServerKey
        self.nextServerKeyAt = nextServerKeyAt
        self.now = now
    }
}

extension GatewayStatus: Declared {
    package static let message = Message<GatewayStatus> {
        Field("users", \.counts.users, .count)
        Field("devices", \.counts.devices, .count)
        Field("activeDevices", \.counts.activeDevices, .count)
        Field("logins", \.counts.logins, .count, "Devices that logins have, or have had lately")
        Field("openInvitations", \.counts.openInvitations, .count)
        Field("tokens", \.counts.tokens, .count)
        Field("sequence", \.counts.sequence, .count)
        Field("receivedBytes", \.counts.traffic.received, .count)
        Field("sentBytes", \.counts.traffic.sent, .count)
        // No more than one per address family.
        Field("pools", \.pools, .list(of: .resource, count: 0...2))
        Field("servesWireGuard", \.servesWireGuard, .flag)
        Field("serverKey", \.serverKey, .key)
        Field("nextServerKey", \.nextServerKey, .omittable(.key))
        Field("nextServerKeyAt", \.nextServerKeyAt, .omittable(.time))
        Field("now", \.now, .time)
    }
}

/// Something that was made, with its secret, which is told this once.
package struct Issued<Item: Sendable>: Sendable {
    package var item: Item
    package var secret: BearerSecret
    /// Whether an earlier request with the same creation key made it.
    package var isRepetition: Bool

    package init(item: Item, secret: BearerSecret, isRepetition: Bool) {
        self.item = item
        self.secret = secret
        self.isRepetition = isRepetition
    }
}

/// Something that was made.
package struct Created<Item: Sendable>: Sendable {
    package var item: Item
    /// Whether an earlier request with the same creation key made it.
    package var isRepetition: Bool

    package init(item: Item, isRepetition: Bool) {
        self.item = item
        self.isRepetition = isRepetition
    }
}
