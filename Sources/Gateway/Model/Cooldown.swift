// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
package import NetworkAddresses
package import Provisioning

/// A recently released address, which no device gets unless all other addresses are in use.
package struct Cooldown: Hashable, Sendable {
    package let address: IPAddress
    package let network: IPPrefix
    /// The user whose device had the address; `nil` if an earlier version has released it.
    package let userID: UserID?
    /// The login of that user; `nil` if the user was removed.
    package let login: String?
    package let releasedAt: Date

    package init(address: IPAddress, network: IPPrefix, userID: UserID?, login: String?, releasedAt: Date) {
        self.address = address
        self.network = network
        self.userID = userID
        self.login = login
        self.releasedAt = releasedAt
    }
}

/// A cooldown with its end by the gateway's settings, as replies contain it.
package struct CooldownEntry: Declared {
    let cooldown: Cooldown
    let endsAt: Date

    package static let message = Message<CooldownEntry> {
        Field("address", \.cooldown.address, .address, column: "address")
        Field("network", \.cooldown.network, .network, column: "network")
        Field("user", \.cooldown.userID, .omittable(.id), "The user whose device had the address")
        Field(
            "login", \.cooldown.login, .omittable(.shown { $0 }), column: "user",
            "The login of this user, unless the user was removed")
        Field("releasedAt", \.cooldown.releasedAt, .time, column: "released")
        Field("endsAt", \.endsAt, .time, column: "ends")
    }
}

/// Selects cooldowns; all of them if both values are `nil`.
package struct CooldownFilter: Hashable, Sendable {
    package var userID: UserID?
    package var address: IPAddress?

    package init(userID: UserID? = nil, address: IPAddress? = nil) {
        self.userID = userID
        self.address = address
    }
}
