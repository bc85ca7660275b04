// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
package import NetworkAddresses
import Provisioning
import TunnelServer

// Each address has at most one row, which contains its device. The first device that inserts the row gets the address.

extension GatewayStore {
    /// Assigns a device one address of each network. Addresses in `wanted` are preferred.
    /// - Parameter owner: The user whose fixed addresses these are.
    static func assignAddresses(
        _ db: any SQLSession, to device: DeviceID, wanted: [IPAddress], of owner: UserID? = nil, _ limits: DeviceLimits
    ) throws -> [IPAddress] {
        let ranges = try limits.servers.map { server in
            do { return try AddressRange(server: server) } catch {
                throw StoreError.unavailable("the gateway's addresses: \(error)")
            }
        }
        if let address = wanted.first(where: { wanted in !ranges.contains { $0.contains(wanted) } }) {
            throw StoreError.exists(.address(address))
        }
        return try ranges.map { range in
            if let address = wanted.first(where: range.contains) {
                guard try claim(db, address, range, for: device, of: owner, restSince: limits.restSince) else {
                    throw StoreError.exists(.address(address))
                }
                return address
            }
            return try ownAtRest(db, range, for: device, limits)
                ?? rested(db, range, for: device, until: limits.restSince)
                ?? unused(db, range, for: device)
                // Shorten a cooldown rather than refuse the device.
                ?? rested(db, range, for: device, until: .distantFuture)
                ?? { throw try full(db, range, restSince: limits.restSince) }()
        }
    }

    /// Claims this address if it is available.
    private static func claim(
        _ db: any SQLSession, _ address: IPAddress, _ range: AddressRange, for device: DeviceID, of owner: UserID?,
        restSince: Date
    ) throws -> Bool {
        if let owner {
            return try db.execute(
                """
                UPDATE addresses SET device_id = \(device), released_at = NULL, user_id = NULL
                WHERE address = \(address) AND owner_id = \(owner) AND device_id IS NULL
                """) == 1
        }
        return try db.execute(
            """
            INSERT INTO addresses (address, network, family, device_id)
            VALUES (\(address), \(range.network), \(family(range)), \(device))
            ON CONFLICT (address) DO UPDATE SET device_id = excluded.device_id, released_at = NULL, user_id = NULL
            WHERE addresses.device_id IS NULL AND addresses.owner_id IS NULL AND addresses.released_at <= \(restSince)
            """) == 1
    }

    /// Claims the address that was released first, if it was not released after `latest`.
    private static func rested(
        _ db: any SQLSession, _ range: AddressRange, for device: DeviceID, until latest: Date, _ condition: SQL = "TRUE"
    ) throws -> IPAddress? {
        // Exclude the gateway's own address, which may have changed since the release.
        let row = try db.row(
            """
            UPDATE addresses SET device_id = \(device), released_at = NULL, user_id = NULL
            WHERE address = (
                SELECT address FROM addresses
                WHERE network = \(range.network) AND device_id IS NULL AND owner_id IS NULL
                    AND \(condition)
                    AND released_at <= \(latest) AND address <> \(range.server)
                ORDER BY released_at, address LIMIT 1)
            RETURNING address
            """)
        return try row.map { try $0["address"] }
    }

    /// Claims the address that the device's user released first, if the user's devices and addresses in cooldown
    /// together exceed the limit of devices. A user who repeatedly enrols and revokes devices thus occupies no more of
    /// the pool.
    private static func ownAtRest(
        _ db: any SQLSession, _ range: AddressRange, for device: DeviceID, _ limits: DeviceLimits
    ) throws -> IPAddress? {
        let row = try db.row(
            """
            SELECT users.id AS user_id, users.device_limit,
                (SELECT COUNT(*) FROM devices WHERE devices.user_id = users.id) AS devices,
                (SELECT COUNT(*) FROM addresses
                    WHERE addresses.user_id = users.id AND network = \(range.network)
                        AND addresses.device_id IS NULL AND addresses.owner_id IS NULL
                        AND released_at > \(limits.restSince)) AS resting
            FROM users WHERE users.id = (SELECT devices.user_id FROM devices WHERE devices.id = \(device))
            """)
        guard let row else { return nil }
        let (devices, resting, limit): (Int, Int, Int?) = try (row["devices"], row["resting"], row["device_limit"])
        guard resting > 0, devices + resting > limit ?? limits.devicesPerUser else { return nil }
        let user: UserID = try row["user_id"]
        return try rested(db, range, for: device, until: .distantFuture, "user_id = \(user)")
    }

    /// Claims the lowest address that was never used.
    private static func unused(_ db: any SQLSession, _ range: AddressRange, for device: DeviceID) throws -> IPAddress? {
        let network = range.network
        var candidate: UInt128? = range.usable.lowerBound
        if let row = try db.row("SELECT next FROM pools WHERE network = \(network)") {
            let next: IPAddress? = try row["next"]
            candidate = next.map { max($0.value, range.usable.lowerBound) }
        } else {
            try db.execute("INSERT INTO pools (network, next) VALUES (\(network), NULL)")
        }
        var found: IPAddress?
        while found == nil, let value = candidate, range.usable.contains(value) {
            candidate = value < range.usable.upperBound ? value + 1 : nil
            let address = range.address(value)
            guard address != range.server else { continue }
            let inserted = try db.execute(
                """
                INSERT INTO addresses (address, network, family, device_id)
                VALUES (\(address), \(network), \(family(range)), \(device))
                ON CONFLICT (address) DO NOTHING
                """)
            if inserted == 1 { found = address }
        }
        let next = candidate.map { range.address($0) }
        try db.execute("UPDATE pools SET next = \(next) WHERE network = \(network)")
        return found
    }

    private static func family(_ range: AddressRange) -> Int { range.network.isIPv6 ? 6 : 4 }

    private static func full(_ db: any SQLSession, _ range: AddressRange, restSince: Date) throws -> StoreError {
        let figures = try figures(db, range, restSince: restSince)
        return .poolFull(range.network, inUse: figures.inUse, resting: figures.resting)
    }

    private static func figures(_ db: any SQLSession, _ range: AddressRange, restSince: Date) throws -> PoolFigures {
        let row = try db.figures(
            """
            SELECT COUNT(COALESCE(device_id, owner_id)) AS used,
                COUNT(*) FILTER (WHERE owner_id IS NULL AND released_at > \(restSince)) AS resting
            FROM addresses WHERE network = \(range.network)
            """)
        return try PoolFigures(
            network: range.network, capacity: range.capacity, inUse: row["used"], resting: row["resting"])
    }

    /// Releases the device's addresses, which starts their cooldown.
    static func releaseAddresses(_ db: any SQLSession, of device: DeviceID, at time: Date) throws {
        try db.execute(
            """
            UPDATE addresses SET device_id = NULL, released_at = \(time),
                user_id = (SELECT user_id FROM devices WHERE devices.id = \(device))
            WHERE device_id = \(device)
            """)
    }

    /// Returns the use of the pool of each network.
    /// - Parameter restSince: Addresses that were released after this time are in cooldown.
    package func pools(
        _ servers: [InterfaceAddress], restSince: Date
    ) async throws(StoreError) -> [PoolFigures] {
        try await database.read { db in
            try servers.compactMap { server in
                guard let range = try? AddressRange(server: server) else { return nil }
                return try Self.figures(db, range, restSince: restSince)
            }
        }
    }

    // MARK: - Networks behind devices

    /// Replaces the subnets of a device with these.
    static func setSubnets(_ db: any SQLSession, of device: DeviceID, _ subnets: [IPPrefix], _ limits: DeviceLimits)
        throws
    {
        try db.execute("DELETE FROM subnets WHERE device_id = \(device)")
        for subnet in subnets {
            if limits.servers.contains(where: { $0.network.contains(subnet) || subnet.contains($0.network) }) {
                throw StoreError.exists(.subnet(subnet))
            }
            let first = subnet.address
            let last = IPAddress(
                isIPv6: subnet.isIPv6,
                value: first.value | ((UInt128(1) << UInt128(first.bitWidth - subnet.length)) &- 1))
            let family = subnet.isIPv6 ? 6 : 4
            let overlaps = try db.row(
                """
                SELECT 1 FROM subnets WHERE family = \(family) AND first <= \(last) AND last >= \(first) LIMIT 1
                """)
            guard overlaps == nil else { throw StoreError.exists(.subnet(subnet)) }
            try db.execute(
                """
                INSERT INTO subnets (network, family, first, last, device_id) VALUES (
                    \(subnet), \(family), \(first), \(last), \(device))
                """)
        }
    }
}
