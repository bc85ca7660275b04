// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// The addresses that users have, or had recently. After a restart, other users do not get them until they have rested.
struct AddressFile: ServerFile, Hashable, Sendable {
    struct Entry: Hashable, Sendable, Codable {
        var address: IPAddress
        var login: String?
        /// The time since which no session has the address, in seconds since 1970; `nil` while a session has it.
        var since: Int64?
    }

    var version = 1
    var addresses: [Entry] = []

    static let name = "addresses.json"
}
