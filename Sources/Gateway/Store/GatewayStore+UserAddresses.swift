// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning
import TunnelServer

// A user's fixed addresses are rows of `addresses` with an owner. Only logins of this user get them.

extension GatewayStore {
    /// Replaces the fixed addresses of a user. Removes devices of the user's logins that do not have the new addresses.
    /// - Throws: `.exists(.address)` if a device or another user has one of the addresses, if one is in cooldown, or if
    ///   no device can have one.
    static func setAddresses(
        _ db: any SQLSession, of user: UserID, _ addresses: [IPAddress], _ limits: DeviceLimits, at time: Date
    ) throws {
        try db.execute(
            """
            UPDATE addresses SET owner_id = NULL WHERE owner_id = \(user) AND address NOT IN \(addresses)
            """)
        let ranges = limits.servers.compactMap { try? AddressRange(server: $0) }
        for address in addresses {
            guard let range = ranges.first(where: { $0.contains(address) }),
                try reserve(db, address, range, for: user, restSince: limits.restSince)
            else { throw StoreError.exists(.address(address)) }
        }
        guard !addresses.isEmpty else { return }
        var devices = try db.rows(
            """
            SELECT * FROM devices WHERE kind = \(Device.Kind.login) AND user_id = \(user)
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
        _ db: any SQLSession, _ address: IPAddress, _ range: AddressRange, for user: UserID, restSince: Date
    ) throws -> Bool {
        try db.execute(
            """
            INSERT INTO addresses (address, network, family, released_at, owner_id) VALUES (
                \(address), \(range.network), \(address.isIPv6 ? 6 : 4), 0, \(user))
            ON CONFLICT (address) DO UPDATE SET owner_id = excluded.owner_id
            WHERE addresses.owner_id = excluded.owner_id OR (
                addresses.owner_id IS NULL AND (
                    addresses.released_at <= \(restSince)
                    OR (addresses.device_id IS NULL AND addresses.user_id = excluded.owner_id)
                    OR addresses.device_id IN (
                        SELECT id FROM devices
                        WHERE kind = \(Device.Kind.login) AND devices.user_id = \(user))))
            """) == 1
    }

    /// The fixed addresses of a user that are in the gateway's current networks.
    static func addresses(of user: User, _ limits: DeviceLimits) -> [IPAddress] {
        let ranges = limits.servers.compactMap { try? AddressRange(server: $0) }
        return user.addresses.filter { address in ranges.contains { $0.contains(address) } }
    }

    /// Reads users with their fixed addresses.
    /// - Parameters:
    ///   - rest: The rest of the query, after the name of the table.
    ///   - areAll: Whether these are all users.
    static func users(_ db: any SQLSession, _ rest: SQL, areAll: Bool = false) throws -> [User] {
        var users = try db.rows("SELECT * FROM users \(rest)").map { try User($0) }
        guard !users.isEmpty else { return [] }
        let ids = users.map(\.id)
        // Avoid a list where possible: only a statement without a list is prepared once and reused.
        let condition: SQL =
            areAll ? "owner_id IS NOT NULL" : ids.count == 1 ? "owner_id = \(ids[0])" : "owner_id IN \(ids)"
        var addresses: [UserID: [IPAddress]] = [:]
        for row in try db.rows(
            "SELECT owner_id, address FROM addresses WHERE \(condition) ORDER BY family")
        {
            try addresses[row["owner_id"], default: []].append(row["address"])
        }
        guard !addresses.isEmpty else { return users }
        for index in users.indices { users[index].addresses = addresses[users[index].id] ?? [] }
        return users
    }
}
