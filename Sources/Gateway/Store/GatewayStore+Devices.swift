// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning

extension GatewayStore {
    // MARK: - Reading

    package func device(_ id: DeviceID) async throws(StoreError) -> DeviceOfUser? {
        try await database.read { db in try Self.device(db, "id = \(id)") }
    }

    package func device(credential: SecretHash) async throws(StoreError) -> DeviceOfUser? {
        try await database.read { db in try Self.device(db, "credential_hash = \(credential)") }
    }

    /// Returns a page of devices, ordered by the time of their creation.
    package func devices(
        of user: UserID?, _ page: PageRequest
    ) async throws(StoreError) -> Page<Device> {
        try await database.read { db in
            var part = try Self.page(
                db, "devices", where: user.map { "user_id = \($0)" } ?? "TRUE", page
            ) { try Device($0) }
            try Self.attach(db, to: &part.items)
            return part
        }
    }

    static func device(_ db: any SQLSession, _ condition: SQL) throws -> DeviceOfUser? {
        guard let row = try db.row("SELECT * FROM devices WHERE \(condition)") else { return nil }
        var devices = [try Device(row)]
        try attach(db, to: &devices)
        guard let user = try user(db, devices[0].userID) else { return nil }
        return DeviceOfUser(device: devices[0], user: user)
    }

    /// Reads the addresses and subnets of devices, which are in other tables.
    static func attach(_ db: any SQLSession, to devices: inout [Device], areAll: Bool = false) throws {
        let ids = devices.map(\.id)
        // Avoid a list where possible: only a statement without a list is prepared once and reused.
        let condition: SQL =
            areAll ? "device_id IS NOT NULL" : ids.count == 1 ? "device_id = \(ids[0])" : "device_id IN \(ids)"
        var addresses: [DeviceID: [IPAddress]] = [:]
        for row in try db.rows(
            "SELECT device_id, address FROM addresses WHERE \(condition) ORDER BY family")
        {
            try addresses[row["device_id"], default: []].append(row["address"])
        }
        var subnets: [DeviceID: [IPPrefix]] = [:]
        for row in try db.rows(
            "SELECT device_id, network FROM subnets WHERE \(condition) ORDER BY family, first")
        {
            try subnets[row["device_id"], default: []].append(row["network"])
        }
        for index in devices.indices {
            devices[index].addresses = addresses[devices[index].id] ?? []
            devices[index].subnets = subnets[devices[index].id] ?? []
        }
    }

    // MARK: - Making and removing

    /// - Throws: `.deviceLimit`, `.gatewayFull`.
    static func checkRoom(_ db: any SQLSession, for user: User, _ limits: DeviceLimits) throws {
        let row = try db.figures(
            """
            SELECT (SELECT COUNT(*) FROM devices WHERE user_id = \(user.id)) AS own,
                (SELECT COUNT(*) FROM devices) AS whole
            """)
        let (own, whole): (Int, Int) = try (row["own"], row["whole"])
        let limit = user.deviceLimit ?? limits.devicesPerUser
        guard own < limit else { throw StoreError.deviceLimit(limit) }
        guard whole < limits.devices else { throw StoreError.gatewayFull(limits.devices) }
    }

    static func insert(_ db: any SQLSession, _ device: Device, by maker: String?, _ request: SecretHash?) throws {
        try db.execute(
            """
            INSERT INTO devices (
                id, user_id, kind, name, notes, platform, public_key, key_at, credential_hash, made_by, request_hash,
                enabled, expires_at, expiry_limit, created_at
            ) VALUES (
                \(device.id), \(device.userID), \(device.kind), \(device.name), \(device.notes),
                \(device.platform), \(device.publicKey), \(device.keyAt), \(device.credentialHash), \(maker),
                \(request), \(device.isEnabled), \(device.expiresAt), \(device.expiryLimit),
                \(device.createdAt))
            """)
    }

    /// Adds a device whose key was made elsewhere.
    /// - Parameter device: A device with the addresses that it must have. The store chooses the other addresses.
    package func add(
        _ device: Device, _ limits: DeviceLimits, _ creation: Creation?, _ audit: AuditRecord
    ) async throws(StoreError) -> Created<DeviceOfUser> {
        try await database.write { db in
            try Self.made(db, creation, device.id, at: audit.at) {
                try Self.device(db, "id = \($0)")
            } make: {
                guard let user = try Self.user(db, device.userID) else { throw StoreError.notFound }
                try Self.checkRoom(db, for: user, limits)
                try Self.insert(db, device, by: nil, nil)
                var device = device
                device.addresses = try Self.assignAddresses(db, to: device.id, wanted: device.addresses, limits)
                try Self.setSubnets(db, of: device.id, device.subnets, limits)
                try Self.recordChange(db, .device(device.id), at: audit.at)
                try Self.log(db, audit)
                return DeviceOfUser(device: device, user: user)
            }
        }
    }

    /// - Parameter owner: The only user whose device may be removed, or `nil` for any user.
    package func remove(
        device id: DeviceID, of owner: UserID?, _ audit: AuditRecord
    ) async throws(StoreError) {
        try await database.write { db in
            guard let found = try Self.device(db, "id = \(id)"), owner == nil || owner == found.user.id
            else { throw StoreError.notFound }
            try Self.removeDevice(db, id, at: audit.at)
            try Self.log(db, audit)
        }
    }

    /// Removes a device. The totals keep its traffic.
    static func removeDevice(_ db: any SQLSession, _ id: DeviceID, at time: Date) throws {
        try releaseAddresses(db, of: id, at: time)
        for (total, column) in [("received", "received"), ("sent", "sent")] {
            try db.execute(
                """
                UPDATE totals SET value = value
                    + COALESCE((SELECT \(sql: column) FROM devices WHERE id = \(id)), 0)
                WHERE name = \(total)
                """)
        }
        // Revoke the token of the slot, which has no use without the slot.
        try db.execute(
            """
            UPDATE tokens SET revoked_at = COALESCE(revoked_at, \(time))
            WHERE device_id = \(id)
            """)
        try db.execute("DELETE FROM devices WHERE id = \(id)")
        try recordChange(db, .device(id), at: time)
    }

    // MARK: - Changing

    /// - Throws: `.notFound`, `.exists(.key)`, `.exists(.subnet)`, and for the first key of a slot `.poolFull`.
    package func change(
        device id: DeviceID, _ change: DeviceChange, _ audit: AuditRecord
    ) async throws(StoreError) -> DeviceOfUser {
        try await database.write { db in
            guard let found = try Self.device(db, "id = \(id)") else { throw StoreError.notFound }
            var device = found.device
            try change.apply(to: &device, at: audit.at)
            // A changed expiry is recorded again when it is reached.
            if device.expiresAt?.milliseconds != found.device.expiresAt?.milliseconds { device.hasExpired = false }
            try db.execute(
                """
                UPDATE devices SET name = \(device.name), notes = \(device.notes), enabled = \(device.isEnabled),
                    expiry_noted = \(device.hasExpired), expires_at = \(device.expiresAt),
                    expiry_limit = \(device.expiryLimit), public_key = \(device.publicKey), key_at = \(device.keyAt),
                    rotation_hash = \(device.rotationHash)
                WHERE id = \(id)
                """)
            switch change {
            case .update(let update, let limits):
                if let subnets = update.subnets { try Self.setSubnets(db, of: id, subnets, limits) }
            case .key(_, let limits) where device.addresses.isEmpty:
                _ = try Self.assignAddresses(db, to: id, wanted: [], limits)
            case .renewal, .rotation, .key: break
            }
            guard let changed = try Self.device(db, "id = \(id)") else { throw StoreError.notFound }
            try Self.recordChange(db, .device(id), at: audit.at)
            try Self.log(db, audit)
            return changed
        }
    }
}

extension Device {
    /// Reads a device without addresses and subnets, which are in other tables.
    init(_ row: SQLRow) throws {
        try self.init(
            id: row["id"], userID: row["user_id"], kind: row["kind"], name: row["name"], notes: row["notes"],
            platform: row["platform"], publicKey: row["public_key"], keyAt: row["key_at"],
            credentialHash: row["credential_hash"], isEnabled: row["enabled"], expiresAt: row["expires_at"],
            createdAt: row["created_at"], lastSeenAt: row["last_seen_at"],
            lastEndpoint: (row["last_endpoint"] as String?).flatMap { try? Endpoint($0) },
            traffic: Traffic(received: row["received"], sent: row["sent"]))
        rotationHash = try row["rotation_hash"]
        expiryLimit = try row["expiry_limit"]
        hasExpired = try row["expiry_noted"]
    }
}
