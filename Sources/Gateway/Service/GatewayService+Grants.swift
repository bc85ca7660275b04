// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Crypto
import FoundationEssentials
import NetworkAddresses
import Provisioning
import Synchronization
import WireGuardCore

extension GatewayService {
    /// The current grant of a device.
    func grant(_ found: DeviceOfUser) throws(GatewayError) -> EnrolmentGrant {
        let now = now
        let device = found.device
        guard let publicKey = device.publicKey else { throw .notFound("key") }
        let ends = [device.expiresAt, found.user.expiresAt].compactMap { $0 }.min()
        let expiresIn = ends.map { Self.seconds(until: $0, from: now) }
        let families = Set(device.addresses.map(\.isIPv6))
        return EnrolmentGrant(
            device: EnrolmentGrant.Device(
                id: device.id, name: device.name, user: found.user.login, publicKey: publicKey,
                createdAt: device.createdAt, expiresInSeconds: expiresIn),
            addresses: device.addresses, servers: servers(at: now),
            dns: settings.dns.filter { families.contains($0.isIPv6) },
            searchDomains: settings.searchDomains.reduce(into: []) { if !$0.contains($1) { $0.append($1) } },
            // An IPv6 route is useless without an IPv6 address.
            routes: settings.routes.filter { families.contains($0.isIPv6) }, mtu: settings.mtu,
            keepaliveSeconds: settings.keepaliveSeconds, presharedKey: presharedKey(of: device),
            // At most half of the remaining lifetime, so that there is time for a second attempt.
            renewAfterSeconds: max(min(Int64(settings.renewAfterSeconds), (expiresIn ?? .max) / 2), 1), serverTime: now,
            pins: pins)
    }

    static func seconds(until end: Date, from now: Date) -> Int64 {
        Int64(exactly: max(end.timeIntervalSince(now), 0).rounded(.down)) ?? .max
    }

    /// The active key, followed by the announced key.
    private func servers(at now: Date) -> [EnrolmentGrant.Server] {
        let keys = state.withLock { $0.keys }
        guard let next = keys.next else {
            return [EnrolmentGrant.Server(publicKey: keys.current.publicKey, endpoints: endpoints)]
        }
        return [
            EnrolmentGrant.Server(
                publicKey: keys.current.publicKey, endpoints: endpoints,
                notAfterSeconds: Self.seconds(until: next.switchAt, from: now)),
            EnrolmentGrant.Server(publicKey: next.key.publicKey, endpoints: endpoints),
        ]
    }

    /// The pre-shared key of the device and the gateway; `nil` for PIA's clients, or if the settings disable these
    /// keys. It is derived from a key in the gateway's folder, and never stored in the database.
    func presharedKey(of device: Device) -> PresharedKey? {
        guard settings.usesPresharedKeys, device.kind != .addKey else { return nil }
        let key = unsafe presharedMaster.secret.withBytes { bytes in
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: unsafe SymmetricKey(data: bytes), salt: Data("culvert-device-psk-1".utf8),
                info: Data(device.id.description.utf8), outputByteCount: 32)
        }
        return unsafe key.withUnsafeBytes { bytes in unsafe PresharedKey(bytes: Array(bytes)) }
    }
}
