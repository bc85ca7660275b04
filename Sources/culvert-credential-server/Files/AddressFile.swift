// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// The addresses that users have, had recently, or get next. After a restart, other users do not get them until they have rested.
struct AddressFile: ServerFile, Hashable, Sendable {
    struct Entry: Hashable, Sendable, Codable {
        var address: IPAddress
        /// The user; `nil` for an address that any user gets next.
        var login: String?
        /// The time since which no session has the address, in seconds since 1970; `nil` while a session has it, or may get it.
        var since: Int64?
    }

    var version = 1
    var addresses: [Entry] = []
    /// Whether the server still served when it wrote the file. Then each of the addresses may have been in use until the server's end.
    var isRunning: Bool?
    /// The time since which all other addresses rest, in seconds since 1970; `nil` if they need no rest.
    var othersSince: Int64?

    /// The ID of the system's boot in which the file was written; `nil` if it is not known.
    var boot: String?
    /// The time of that boot by the wall clock with which the file was written, in seconds since 1970.
    var bootedAt: Int64?

    static let name = "addresses.json"

    /// The name of the copy of a damaged file.
    static func unreadable(_ number: Int) -> String {
        number == 1 ? "addresses.unreadable.json" : "addresses.unreadable-\(number).json"
    }
}
