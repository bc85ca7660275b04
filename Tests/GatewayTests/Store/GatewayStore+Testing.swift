// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import GRDB
import NetworkAddresses
import Testing

@testable import Gateway

extension GatewayStore {
    /// The connections of SQLite.
    var connections: any DatabaseWriter {
        get throws { try #require(database as? SQLiteDatabase).connections }
    }

    /// Makes the database refuse writes, as on a full disk. Reads and transactions that change nothing succeed.
    /// - Note: The store must be a file: a store in memory reads and writes with the same connection.
    func refuseWrites(_ refuses: Bool) async throws {
        try await connections.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA query_only = \(refuses ? "ON" : "OFF")")
        }
    }

    /// The first changes after this one, in their order.
    func changes(after sequence: Int64, limit: Int) async throws -> [Change] {
        try await database.read { db in
            try db.rows("SELECT * FROM changes WHERE sequence > \(sequence) ORDER BY sequence LIMIT \(limit)")
                .map { try Change($0) }
        }
    }

    /// All rows of addresses, ordered by address.
    func leases() async throws -> [AddressLease] {
        try await database.read { db in
            try db.rows("SELECT * FROM addresses ORDER BY address").map { row in
                try AddressLease(address: row["address"], deviceID: row["device_id"], releasedAt: row["released_at"])
            }
        }
    }
}

/// An address that a device has or had.
struct AddressLease: Hashable {
    let address: IPAddress
    /// The device, or `nil` for an address that is in cooldown or available.
    var deviceID: DeviceID?
    /// The time of the release.
    var releasedAt: Date?
}
