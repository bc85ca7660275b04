// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
import GRDB
import NetworkAddresses
import Provisioning
package import WireGuardCore

extension SQLiteStore {
    // MARK: - Reading

    package func device(_ id: DeviceID) async throws(StoreError) -> DeviceOfUser? {
        try await read { db in try Self.device(db, "id = \(id.description)") }
    }

    package func device(credential: SecretHash) async throws(StoreError) -> DeviceOfUser? {
        try await read { db in try Self.device(db, "credential_hash = \(credential.data)") }
    }

    package func devices(
        of user: UserID?, _ page: PageRequest
    ) async throws(StoreError) -> Page<Device> {
        try await read { db in
            var part = try Self.page(
                db, "devices", where: user.map { "user_id = \($0.description)" } ?? "TRUE", page
            ) { row in
                let device = try Device(row)
                return (device, device.createdAt, device.id)
            }
            try Self.attach(db, to: &part.items)
            return part
        }
    }

    static func device(_ db: Database, _ condition: SQL) throws -> DeviceOfUser? {
        guard let row = try Row.fetchOne(db, literal: "SELECT * FROM devices WHERE \(condition)") else { return nil }
        var devices = [try Device(row)]
        try attach(db, to: &devices)
        guard let user = try user(db, devices[0].userID) else { return nil }
        return DeviceOfUser(device: devices[0], user: user)
    }

    /// Adds what is in tables of its own.
    static func attach(_ db: Database, to devices: inout [Device], areAll: Bool = false) throws {
        let ids = devices.map(\.id.description)
        let condition: SQL = areAll ? "device_id IS NOT NULL" : "device_id IN \(ids)"
        var addresses: [DeviceID: [IPAddress]] = [:]
        for row in try Row.fetchAll(
            db, literal: "SELECT device_id, address FROM addresses WHERE \(condition) ORDER BY family")
        {
            let fields = Fields(row)
            addresses[try fields.id("device_id"), default: []].append(try fields.address("address"))
        }
        var subnets: [DeviceID: [IPPrefix]] = [:]
        for row in try Row.fetchAll(
            db, literal: "SELECT device_id, network FROM subnets WHERE \(condition) ORDER BY family, first")
        {
            let fields = Fields(row)
            subnets[try fields.id("device_id"), default: []] += try fields.prefixes("network")
        }
        for index in devices.indices {
            devices[index].addresses = addresses[devices[index].id] ?? []
            devices[index].subnets = subnets[devices[index].id] ?? []
        }
    }

    // MARK: - Making and removing

    /// - Throws: `.deviceLimit`, `.gatewayFull`.
    static func checkRoom(_ db: Database, for user: User, _ limits: DeviceLimits) throws {
        let row = try Row.fetchOne(
            db,
            literal: """
                SELECT (SELECT COUNT(*) FROM devices WHERE user_id = \(user.id.description)) AS own,
                    (SELECT COUNT(*) FROM devices) AS whole
                """)
        guard let fields = row.map(Fields.init) else { return }
        let limit = user.deviceLimit ?? limits.devicesPerUser
        guard try fields.value("own", as: Int64.self) < Int64(limit) else { throw StoreError.deviceLimit(limit) }
        guard try fields.value("whole", as: Int64.self) < Int64(limits.devices) else {
            throw StoreError.gatewayFull(limits.devices)
        }
    }

    static func insert(_ db: Database, _ device: Device, by maker: String?, _ request: SecretHash?) throws {
        try db.execute(
            literal: """
                INSERT INTO devices (
                    id, user_id, kind, name, notes, platform, public_key, key_at, credential_hash, made_by, request_hash,
                    enabled, expires_at, expiry_limit, created_at
                ) VALUES (
                    \(device.id.description), \(device.userID.description), \(device.kind.rawValue), \(device.name),
                    \(device.notes), \(device.platform), \(device.publicKey?.data), \(device.keyAt?.milliseconds),
                    \(device.credentialHash?.data), \(maker), \(request?.data), \(device.isEnabled),
                    \(device.expiresAt?.milliseconds), \(device.expiryLimit?.milliseconds),
                    \(device.createdAt.milliseconds))
                """)
    }

    package func add(
        _ device: Device, _ limits: DeviceLimits, _ creation: Creation?, _ audit: AuditRecord
    ) async throws(StoreError) -> Created<DeviceOfUser> {
        try await write { db in
            if let id = try Self.repeated(db, creation, device.id, at: audit.at) {
                guard let before = try Self.device(db, "id = \(id.description)") else {
                    throw StoreError.creationConflict(subject: id.description)
                }
                return Created(item: before, isRepetition: true)
            }
            guard let user = try Self.user(db, device.userID) else { throw StoreError.notFound }
            try Self.checkRoom(db, for: user, limits)
            try Self.insert(db, device, by: nil, nil)
            var device = device
            device.addresses = try Self.giveAddresses(db, to: device.id, wanted: device.addresses, limits)
            try Self.setSubnets(db, of: device.id, device.subnets, limits)
            try Self.note(db, .device(device.id), at: audit.at)
            try Self.log(db, audit)
            return Created(item: DeviceOfUser(device: device, user: user), isRepetition: false)
        }
    }

    package func remove(
        device id: DeviceID, of owner: UserID?, _ audit: AuditRecord
    ) async throws(StoreError) {
        try await write { db in
            guard let found = try Self.device(db, "id = \(id.description)"), owner == nil || owner == found.user.id
            else { throw StoreError.notFound }
            try Self.removeDevice(db, id, at: audit.at)
            try Self.log(db, audit)
        }
    }

    /// Removes a device; what it has counted stays in the whole.
    static func removeDevice(_ db: Database, _ id: DeviceID, at time: Date) throws {
        try releaseAddresses(db, of: id, at: time)
        for (total, column) in [("received", "received"), ("sent", "sent")] {
            try db.execute(
                literal: """
                    UPDATE totals SET value = value
                        + COALESCE((SELECT \(sql: column) FROM devices WHERE id = \(id.description)), 0)
                    WHERE name = \(total)
                    """)
        }
        // The token of a slot is good for nothing without it.
        try db.execute(
            literal: """
                UPDATE tokens SET revoked_at = COALESCE(revoked_at, \(time.milliseconds))
                WHERE device_id = \(id.description)
                """)
        try db.execute(literal: "DELETE FROM devices WHERE id = \(id.description)")
        try note(db, .device(id), at: time)
    }

    // MARK: - Changing

    package func update(
        device id: DeviceID, _ update: DeviceUpdate, _ limits: DeviceLimits, _ audit: AuditRecord
    ) async throws(StoreError) -> DeviceOfUser {
        try await write { db in
            guard let found = try Self.device(db, "id = \(id.description)") else { throw StoreError.notFound }
            var device = found.device
            update.apply(to: &device)
            if let expiresAt = update.expiresAt { device.expiryLimit = expiresAt }
            try db.execute(
                literal: """
                    UPDATE devices SET name = \(device.name), notes = \(device.notes), enabled = \(device.isEnabled),
                        expiry_noted = expiry_noted AND expires_at IS \(device.expiresAt?.milliseconds),
                        expires_at = \(device.expiresAt?.milliseconds),
                        expiry_limit = \(device.expiryLimit?.milliseconds)
                    WHERE id = \(id.description)
                    """)
            if let subnets = update.subnets { try Self.setSubnets(db, of: id, subnets, limits) }
            return try Self.finish(db, id, audit)
        }
    }

    package func renew(
        device id: DeviceID, until end: Date, _ audit: AuditRecord
    ) async throws(StoreError) -> DeviceOfUser {
        try await write { db in
            try db.execute(
                literal: """
                    UPDATE devices SET expiry_noted = 0,
                        expires_at = MIN(\(end.milliseconds), COALESCE(expiry_limit, \(end.milliseconds)))
                    WHERE id = \(id.description)
                    """)
            return try Self.finish(db, id, audit)
        }
    }

    package func rotate(
        device id: DeviceID, from old: PublicKey, to new: PublicKey, _ rotation: SecretHash, _ audit: AuditRecord
    ) async throws(StoreError) -> DeviceOfUser {
        try await write { db in
            try db.execute(
                literal: """
                    UPDATE devices SET public_key = \(new.data), key_at = \(audit.at.milliseconds),
                        rotation_hash = \(rotation.data)
                    WHERE id = \(id.description) AND public_key = \(old.data)
                    """)
            guard db.changesCount == 1 else { throw StoreError.notFound }
            return try Self.finish(db, id, audit)
        }
    }

    package func setKey(
        slot id: DeviceID, _ key: PublicKey, _ limits: DeviceLimits, _ audit: AuditRecord
    ) async throws(StoreError) -> DeviceOfUser {
        try await write { db in
            guard let found = try Self.device(db, "id = \(id.description)") else { throw StoreError.notFound }
            try db.execute(
                literal: """
                    UPDATE devices SET public_key = \(key.data), key_at = \(audit.at.milliseconds)
                    WHERE id = \(id.description) AND kind = \(Device.Kind.addKey.rawValue)
                    """)
            guard db.changesCount == 1 else { throw StoreError.notFound }
            if found.device.addresses.isEmpty {
                _ = try Self.giveAddresses(db, to: id, wanted: [], limits)
            }
            return try Self.finish(db, id, audit)
        }
    }

    /// Notes the change of a device, if there was one to change, and reads the device.
    private static func finish(_ db: Database, _ id: DeviceID, _ audit: AuditRecord) throws -> DeviceOfUser {
        guard let changed = try device(db, "id = \(id.description)") else {
            throw StoreError.notFound
        }
        try note(db, .device(id), at: audit.at)
        try log(db, audit)
        return changed
    }
}
