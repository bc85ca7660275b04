// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
import GRDB
package import NetworkAddresses
import Provisioning
import TunnelServer

// An address is somebody's because its row says so, and there is one row for each address: whoever inserts it first has it.
// Nothing is locked, so that several gateways can share one store.

extension SQLiteStore {
    /// Gives a device an address of each network, of `wanted` where that has one.
    /// - Parameter owner: The user whose own addresses these are.
    static func giveAddresses(
        _ db: Database, to device: DeviceID, wanted: [IPAddress], of owner: UserID? = nil, _ limits: DeviceLimits
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
                guard try take(db, address, range, for: device, of: owner, restSince: limits.restSince) else {
                    throw StoreError.exists(.address(address))
                }
                return address
            }
            return try ownAtRest(db, range, for: device, limits)
                ?? rested(db, range, for: device, until: limits.restSince)
                ?? unused(db, range, for: device)
                // Refusing a device would be worse than a short rest.
                ?? rested(db, range, for: device, until: .distantFuture)
                ?? { throw try full(db, range, restSince: limits.restSince) }()
        }
    }

    /// Takes this address if it is nobody's.
    private static func take(
        _ db: Database, _ address: IPAddress, _ range: AddressRange, for device: DeviceID, of owner: UserID?,
        restSince: Date
    ) throws -> Bool {
        if let owner {
            try db.execute(
                literal: """
                    UPDATE addresses SET device_id = \(device.description), released_at = NULL, user_id = NULL
                    WHERE address = \(address.data) AND owner_id = \(owner.description) AND device_id IS NULL
                    """)
            return db.changesCount == 1
        }
        try db.execute(
            literal: """
                INSERT INTO addresses (address, network, family, device_id)
                VALUES (\(address.data), \(range.network.description), \(family(range)), \(device.description))
                ON CONFLICT (address) DO UPDATE SET device_id = excluded.device_id, released_at = NULL, user_id = NULL
                WHERE device_id IS NULL AND owner_id IS NULL AND released_at <= \(restSince.milliseconds)
                """)
        return db.changesCount == 1
    }

    /// Takes the address that was released first, if that was not after `latest`.
    private static func rested(
        _ db: Database, _ range: AddressRange, for device: DeviceID, until latest: Date, _ condition: SQL = "TRUE"
    ) throws -> IPAddress? {
        // The network may have become another one since it was given back.
        let row = try Row.fetchOne(
            db,
            literal: """
                UPDATE addresses SET device_id = \(device.description), released_at = NULL, user_id = NULL
                WHERE address = (
                    SELECT address FROM addresses
                    WHERE network = \(range.network.description) AND device_id IS NULL AND owner_id IS NULL
                        AND \(condition)
                        AND released_at <= \(latest.milliseconds) AND address <> \(range.server.data)
                    ORDER BY released_at, address LIMIT 1)
                RETURNING address
                """)
        return try row.map { try Fields($0).address("address") }
    }

    /// Takes the address that the device's user released first, if the number of the user's devices and resting addresses
    /// exceeds the limit of devices. So a user who enrols and revokes in a loop occupies no more of the pool.
    private static func ownAtRest(
        _ db: Database, _ range: AddressRange, for device: DeviceID, _ limits: DeviceLimits
    ) throws -> IPAddress? {
        let row = try Row.fetchOne(
            db,
            literal: """
                SELECT users.id AS user_id, users.device_limit,
                    (SELECT COUNT(*) FROM devices WHERE devices.user_id = users.id) AS devices,
                    (SELECT COUNT(*) FROM addresses
                        WHERE addresses.user_id = users.id AND network = \(range.network.description)
                            AND addresses.device_id IS NULL AND addresses.owner_id IS NULL
                            AND released_at > \(limits.restSince.milliseconds)) AS resting
                FROM users WHERE users.id = (SELECT devices.user_id FROM devices WHERE devices.id = \(device.description))
                """)
        guard let fields = row.map(Fields.init) else { return nil }
        let (devices, resting) = (try fields.count("devices"), try fields.count("resting"))
        let limit = try fields.optional("device_limit", as: Int64.self) ?? Int64(limits.devicesPerUser)
        guard resting > 0, devices + resting > UInt64(clamping: limit) else { return nil }
        let user = try fields.text("user_id")
        return try rested(db, range, for: device, until: .distantFuture, "user_id = \(user)")
    }

    /// The lowest that nobody has had yet.
    private static func unused(_ db: Database, _ range: AddressRange, for device: DeviceID) throws -> IPAddress? {
        let network = range.network.description
        var candidate: UInt128? = range.usable.lowerBound
        if let row = try Row.fetchOne(db, literal: "SELECT next FROM pools WHERE network = \(network)") {
            let next = try Fields(row).optional("next", as: Data.self).flatMap { IPAddress(bytes: $0) }
            candidate = next.map { max($0.value, range.usable.lowerBound) }
        } else {
            try db.execute(literal: "INSERT INTO pools (network, next) VALUES (\(network), NULL)")
        }
        var found: IPAddress?
        while found == nil, let value = candidate, range.usable.contains(value) {
            candidate = value < range.usable.upperBound ? value + 1 : nil
            let address = range.address(value)
            guard address != range.server else { continue }
            try db.execute(
                literal: """
                    INSERT INTO addresses (address, network, family, device_id)
                    VALUES (\(address.data), \(network), \(family(range)), \(device.description))
                    ON CONFLICT (address) DO NOTHING
                    """)
            if db.changesCount == 1 { found = address }
        }
        let next = candidate.map { range.address($0).data }
        try db.execute(literal: "UPDATE pools SET next = \(next) WHERE network = \(network)")
        return found
    }

    private static func family(_ range: AddressRange) -> Int { range.network.isIPv6 ? 6 : 4 }

    private static func full(_ db: Database, _ range: AddressRange, restSince: Date) throws -> StoreError {
        let figures = try figures(db, range, restSince: restSince)
        return .poolFull(range.network, inUse: figures.inUse, resting: figures.resting)
    }

    private static func figures(_ db: Database, _ range: AddressRange, restSince: Date) throws -> PoolFigures {
        let row = try Row.fetchOne(
            db,
            literal: """
                SELECT COUNT(COALESCE(device_id, owner_id)) AS used,
                    COUNT(*) FILTER (WHERE owner_id IS NULL AND released_at > \(restSince.milliseconds)) AS resting
                FROM addresses WHERE network = \(range.network.description)
                """)
        let fields = row.map(Fields.init)
        return PoolFigures(
            network: range.network, capacity: range.capacity,
            inUse: Int(clamping: try fields?.value("used", as: Int64.self) ?? 0),
            resting: Int(clamping: try fields?.value("resting", as: Int64.self) ?? 0))
    }

    /// The device's addresses begin to rest.
    static func releaseAddresses(_ db: Database, of device: DeviceID, at time: Date) throws {
        try db.execute(
            literal: """
                UPDATE addresses SET device_id = NULL, released_at = \(time.milliseconds),
                    user_id = (SELECT user_id FROM devices WHERE devices.id = \(device.description))
                WHERE device_id = \(device.description)
                """)
    }

    package func pools(
        _ servers: [InterfaceAddress], restSince: Date
    ) async throws(StoreError) -> [PoolFigures] {
        try await read { db in
            try servers.compactMap { server in
                guard let range = try? AddressRange(server: server) else { return nil }
                return try Self.figures(db, range, restSince: restSince)
            }
        }
    }

    package func leases(_ page: PageRequest) async throws(StoreError) -> Page<AddressLease> {
        let after = page.after.flatMap { try? IPAddress($0) }?.data ?? Data()
        return try await read { db in
            let leases = try Row.fetchAll(
                db,
                literal: "SELECT * FROM addresses WHERE address > \(after) ORDER BY address LIMIT \(page.limit + 1)"
            ).map { row in
                let fields = Fields(row)
                return AddressLease(
                    address: try fields.address("address"), deviceID: try fields.optionalID("device_id"),
                    releasedAt: try fields.optionalTime("released_at"))
            }
            let items = Array(leases.prefix(page.limit))
            return Page(items: items, next: leases.count > page.limit ? items.last?.address.description : nil)
        }
    }

    // MARK: - Networks behind devices

    /// Puts these in the place of a device's subnets.
    static func setSubnets(_ db: Database, of device: DeviceID, _ subnets: [IPPrefix], _ limits: DeviceLimits) throws {
        try db.execute(literal: "DELETE FROM subnets WHERE device_id = \(device.description)")
        for subnet in subnets {
            if limits.servers.contains(where: { $0.network.contains(subnet) || subnet.contains($0.network) }) {
                throw StoreError.exists(.subnet(subnet))
            }
            let first = subnet.address
            let last = IPAddress(
                isIPv6: subnet.isIPv6,
                value: first.value | ((UInt128(1) << UInt128(first.bitWidth - subnet.length)) &- 1))
            let family = subnet.isIPv6 ? 6 : 4
            let overlaps = try Row.fetchOne(
                db,
                literal: """
                    SELECT 1 FROM subnets WHERE family = \(family) AND first <= \(last.data) AND last >= \(first.data)
                    """)
            guard overlaps == nil else { throw StoreError.exists(.subnet(subnet)) }
            try db.execute(
                literal: """
                    INSERT INTO subnets (network, family, first, last, device_id) VALUES (
                        \(subnet.description), \(family), \(first.data), \(last.data), \(device.description))
                    """)
        }
    }
}
