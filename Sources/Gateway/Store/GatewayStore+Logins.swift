// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning
import TunnelServer

extension GatewayStore {
    /// Assigns a device of its user to a login. In order of preference, this is a device without a session, which keeps
    /// its addresses; a new device, if the limits permit one; or the device with the oldest session.
    /// - Throws: `.poolFull`, `.deviceLimit`, `.gatewayFull`.
    package func lease(_ lease: LoginLease) async throws(StoreError) -> LoginLeaseOutcome {
        try await database.write { db in
            guard let user = try Self.user(db, lease.userID), user.password == lease.password else { return .changed }
            guard user.isEnabled else { return .userDisabled }
            guard user.isActive(at: lease.now) else { return .userExpired }
            guard let id = try Self.placeForLogin(db, user, lease) else { return .deviceGone }
            try db.execute(
                """
                UPDATE devices SET last_seen_at = \(lease.now), last_endpoint = \(lease.source.description)
                WHERE id = \(id)
                """)
            guard let device = try Self.device(db, "id = \(id)") else { throw StoreError.notFound }
            try Self.recordChange(db, .device(id), at: lease.now)
            try Self.log(
                db,
                AuditRecord(
                    at: lease.now, actor: "user:\(user.id)", source: lease.source.address, action: .loginAccepted,
                    subject: "device:\(id)",
                    details: ["addresses": device.device.addresses.map(\.description).joined(separator: " ")]))
            return .given(device)
        }
    }

    /// The device that a login gets, with its addresses; `nil` if the device of its ticket cannot be used.
    private static func placeForLogin(
        _ db: any SQLSession, _ user: User, _ lease: LoginLease
    ) throws -> DeviceID? {
        var devices = try db.rows(
            """
            SELECT * FROM devices
            WHERE kind = \(Device.Kind.login) AND user_id = \(user.id)
            """
        ).map { try Device($0) }
        try attach(db, to: &devices)
        let usable = devices.filter { $0.isActive(at: lease.now) }
        if let resumed = lease.resumed {
            guard let own = usable.first(where: { $0.id == resumed.id }) else { return nil }
            if resumed.isOwnSession { return try keep(db, own, of: user, lease) }
        }
        // Prefer the device of the ticket, and then the one that last had this source address, so that a client that reconnects keeps its addresses.
        let free = usable.filter { !lease.busy.contains($0.id) }.max { one, other in
            if let own = lease.resumed?.id, one.id == own || other.id == own { return other.id == own }
            let (isNear, otherIsNear) = (one.isNear(lease.source), other.isNear(lease.source))
            return isNear == otherIsNear
                ? one.lastSeenAt ?? .distantPast < other.lastSeenAt ?? .distantPast : otherIsNear
        }
        // Compare the number of sessions, because the limit may have been reduced since they began.
        let held = usable.count { lease.busy.contains($0.id) }
        // Only one session can have the fixed addresses of a user.
        let most = user.addresses.isEmpty ? lease.sessionsPerUser : 1
        if held < most, let free { return try keep(db, free, of: user, lease) }
        let oldest = lease.busy.lazy.compactMap { id in usable.first { $0.id == id } }.first
        if !user.addresses.isEmpty {
            // Remove devices that no login can use: such a device would keep the fixed addresses, which only one device
            // can have.
            for device in devices where !device.isActive(at: lease.now) {
                try removeDevice(db, device.id, at: lease.now)
            }
            devices = usable
        }
        do {
            guard devices.count < most else { throw StoreError.deviceLimit(most) }
            try checkRoom(db, for: user, lease.limits)
        } catch let error as StoreError {
            // The failed attempt has added no device, so the oldest session's device can be used instead.
            guard let oldest else { throw error }
            return try keep(db, oldest, of: user, lease)
        }
        let device = Device(
            id: lease.deviceID, userID: user.id, kind: .login, name: String("login of \(user.login)".prefix(64)),
            publicKey: nil, createdAt: lease.now)
        try insert(db, device, by: nil, nil)
        try assignAddresses(db, to: device.id, of: user, lease.limits)
        return device.id
    }

    private static func assignAddresses(
        _ db: any SQLSession, to device: DeviceID, of user: User, _ limits: DeviceLimits
    ) throws {
        _ = try assignAddresses(db, to: device, wanted: addresses(of: user, limits), of: user.id, limits)
    }

    /// Returns a device with its addresses, which are assigned again if the gateway's networks or the user's fixed
    /// addresses have changed.
    private static func keep(
        _ db: any SQLSession, _ device: Device, of user: User, _ lease: LoginLease
    ) throws -> DeviceID {
        let ranges = lease.limits.servers.compactMap { try? AddressRange(server: $0) }
        let fits =
            device.addresses.count == ranges.count
            && ranges.allSatisfy { range in device.addresses.contains(where: range.contains) }
            && addresses(of: user, lease.limits).allSatisfy(device.addresses.contains)
        guard !fits else { return device.id }
        try releaseAddresses(db, of: device.id, at: lease.now)
        try assignAddresses(db, to: device.id, of: user, lease.limits)
        return device.id
    }
}

extension Device {
    /// Whether the device's last known endpoint has the address of `endpoint`.
    fileprivate func isNear(_ endpoint: Endpoint) -> Bool { lastEndpoint?.address == endpoint.address }
}
