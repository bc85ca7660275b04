// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
package import Provisioning
package import WireGuardCore

/// The numbers of records in the store.
package struct StoreCounts: Hashable, Sendable {
    package var users = 0
    package var devices = 0
    /// Devices with a key that are neither disabled nor expired, and whose user is neither.
    package var activeDevices = 0
    /// Devices that logins have or recently had.
    package var logins = 0
    package var openInvitations = 0
    package var tokens = 0
    /// The number of the latest change.
    package var sequence: Int64 = 0
    /// The traffic of all devices together, including removed ones.
    package var traffic = Device.Traffic()

    package init() {}
}

/// The state of a gateway.
package struct GatewayStatus: Hashable, Sendable {
    package var counts: StoreCounts
    package var pools: [PoolFigures]
    package var servesWireGuard: Bool
    /// The key of WireGuard. The gateway has it even if it does not serve WireGuard.
    package var serverKey: PublicKey
    package var nextServerKey: PublicKey?
    package var nextServerKeyAt: Date?
    /// The implementation of ChaCha20-Poly1305, such as `boringssl`.
    package var aead: String
    package var now: Date
    /// The problems as texts: parts that are not in effect, changes that are not saved, and limits that the host does not
    /// support.
    package var warnings: [String]

    package init(
        counts: StoreCounts, pools: [PoolFigures], servesWireGuard: Bool, serverKey: PublicKey,
        nextServerKey: PublicKey?, nextServerKeyAt: Date?, aead: String, now: Date, warnings: [String]
    ) {
        self.aead = aead
        self.counts = counts
        self.pools = pools
        self.servesWireGuard = servesWireGuard
        self.serverKey = serverKey
        self.nextServerKey = nextServerKey
        self.nextServerKeyAt = nextServerKeyAt
        self.now = now
        self.warnings = warnings
    }

    /// The largest number of warnings in a reply.
    package static let mostWarnings = 100
}

extension GatewayStatus: Declared {
    package static let message = Message<GatewayStatus> {
        Field("users", \.counts.users, .count)
        Field("devices", \.counts.devices, .count)
        Field("activeDevices", \.counts.activeDevices, .count)
        Field("logins", \.counts.logins, .count, "Devices that logins have or recently had")
        Field("openInvitations", \.counts.openInvitations, .count)
        Field("tokens", \.counts.tokens, .count)
        Field("sequence", \.counts.sequence, .count)
        Field("receivedBytes", \.counts.traffic.received, .count)
        Field("sentBytes", \.counts.traffic.sent, .count)
        // At most one per address family.
        Field("pools", \.pools, .list(of: .resource, count: 0...2))
        Field("servesWireGuard", \.servesWireGuard, .flag)
        Field("serverKey", \.serverKey, .key)
        Field("nextServerKey", \.nextServerKey, .omittable(.key))
        Field("nextServerKeyAt", \.nextServerKeyAt, .omittable(.time))
        Field("aead", \.aead, .line(1...32), "The implementation of ChaCha20-Poly1305, such as boringssl")
        Field("now", \.now, .time)
        Field(
            "warnings", \.warnings, .list(of: .replyText, count: 0...mostWarnings),
            "Parts that are not in effect, changes that are not saved, and limits that the host does not support")
    }
}

/// A new item with its secret, which is shown only in this reply.
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

/// A new item.
package struct Created<Item: Sendable>: Sendable {
    package var item: Item
    /// Whether an earlier request with the same creation key made it.
    package var isRepetition: Bool

    package init(item: Item, isRepetition: Bool) {
        self.item = item
        self.isRepetition = isRepetition
    }
}
