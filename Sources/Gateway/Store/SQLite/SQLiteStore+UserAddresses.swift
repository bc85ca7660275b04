// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import GRDB
import NetworkAddresses
import Provisioning
import TunnelServer

// A user's fixed addresses are rows of `addresses` with an owner. Only logins of this user get them.

extension SQLiteStore {
    /// Makes these the fixed addresses of a user. Devices of the user's logins without them are removed.
    /// - Throws: `.exists(.address)` if a device or another user has an address, if it rests, or if no device can have it.
    static func setAddresses(
        _ db: Database, of user: UserID, _ addresses: [IPAddress], _ limits: DeviceLimits, at time: Date
    ) throws {
        let wanted = addresses.map(\.data)
        try db.execute(
            literal: """
                UPDATE addresses SET owner_id = NULL WHERE owner_id = \(user.description) AND address NOT IN \(wanted)
                """)
        let ranges = limits.servers.compactMap { try? AddressRange(server: $0) }
        for address in addresses {
            guard let range = ranges.first(where: { $0.contains(address) }),
                try reserve(db, address, range, for: user, restSince: limits.restSince)
            else { throw StoreError.exists(.address(address)) }
        }
        guard !addresses.isEmpty else { return }
        var devices = try Row.fetchAll(
            db,
            literal: """
                SELECT * FROM devices WHERE kind = \(Device.Kind.login.rawValue) AND user_id = \(user.description)
                """
        ).map { try Device($0) }
        try attach(db, to: &devices)
        for device in devices where !addresses.allSatisfy(device.addresses.contains) {
            try removeDevice(db, device.id, at: time)
        }
    }

    /// Makes a user the owner of an address.
    /// - Returns: Whether the address was available.
    private static func reserve(
        _ db: Database, _ address: IPAddress, _ range: AddressRange, for user: UserID, restSince: Date
    ) throws -> Bool {
        try db.execute(
            literal: """
                INSERT INTO addresses (address, network, family, released_at, owner_id) VALUES (
                    \(address.data), \(range.network.description), \(address.isIPv6 ? 6 : 4), 0, \(user.description))
                ON CONFLICT (address) DO UPDATE SET owner_id = excluded.owner_id
                WHERE owner_id = excluded.owner_id OR (
                    owner_id IS NULL AND (
                        released_at <= \(restSince.milliseconds) OR (device_id IS NULL AND user_id = excluded.owner_id)
                        OR device_id IN (
                            SELECT id FROM devices
                            WHERE kind = \(Device.Kind.login.rawValue) AND devices.user_id = \(user.description))))
                """)
        return db.changesCount == 1
    }

    /// The fixed addresses of a user that a login can have in the gateway's present networks.
    static func addresses(of user: User, _ limits: DeviceLimits) -> [IPAddress] {
        let ranges = limits.servers.compactMap { try? AddressRange(server: $0) }
        return user.addresses.filter { address in ranges.contains { $0.contains(address) } }
    }

    /// Reads users with their fixed addresses.
    /// - Parameters:
    ///   - rest: The end of the query.
    ///   - areAll: Whether these are all users.
    static func users(_ db: Database, _ rest: SQL, areAll: Bool = false) throws -> [User] {
        var users = try Row.fetchAll(db, literal: "SELECT * FROM users \(rest)").map { try User($0) }
        guard !users.isEmpty else { return [] }
        let ids = users.map(\.id.description)
        let condition: SQL = areAll ? "owner_id IS NOT NULL" : "owner_id IN \(ids)"
        var addresses: [UserID: [IPAddress]] = [:]
        for row in try Row.fetchAll(
            db, literal: "SELECT owner_id, address FROM addresses WHERE \(condition) ORDER BY family")
        {
            let fields = Fields(row)
            addresses[try fields.id("owner_id"), default: []].append(try fields.address("address"))
        }
        guard !addresses.isEmpty else { return users }
        for index in users.indices { users[index].addresses = addresses[users[index].id] ?? [] }
        return users
    }
}
