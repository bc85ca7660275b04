// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
package import NetworkAddresses
package import Provisioning
import Synchronization
package import WireGuardCore

// Requests of devices.

extension GatewayService {
    // MARK: - Enrolment

    /// Makes a device with an invitation or a token of scope `enrol`. A repeated identical request returns the same
    /// device. Returns after the tunnel has applied the device's key; see ``useTunnel(waitLimit:apply:)``.
    package func enrol(
        bearer: String?, _ request: EnrolmentRequest, from source: IPAddress
    ) async throws(GatewayError) -> Created<EnrolmentGrant> {
        try checkWireGuard()
        guard let secret = bearer.flatMap({ BearerSecret($0) }) else { throw failure(.unauthorized, bearer, source) }
        let hash = SecretHash(secret)
        let kind: Enrolment.Secret
        switch secret.kind {
        case .invitation: kind = .invitation(hash)
        case .token: kind = .token(hash)
        case .device: throw .forbidden
        }
        try checkKey(request.publicKey, "publicKey")
        guard request.credential.kind == .device else {
            throw .invalid(field: "credential", problem: "must start with cd_")
        }
        guard revocation(of: hash) == nil else {
            throw secret.kind == .token ? .tokenExpired : .invitationRevoked
        }
        let now = now
        var random = random
        let lifetime = settings.deviceLifetimeSeconds
        var enrolment = Enrolment(
            secret: kind,
            request: SecretHash(
                of: hash.bytes + request.publicKey.bytes + SecretHash(request.credential).bytes),
            deviceID: DeviceID(using: &random), publicKey: request.publicKey,
            credentialHash: SecretHash(request.credential), name: request.name, platform: request.platform,
            expiresAt: lifetime > 0 ? now.addingTimeInterval(Double(lifetime)) : nil, limits: limits(at: now), now: now,
            source: source)
        // Let the store record no misuse: `recordMisuse` does, with a rate limit.
        enrolment.misuses = 0
        let wanted = enrolment
        switch try await stored("device", try await store.enrol(wanted)) {
        case .made(let made):
            succeeded(bearer, source)
            signalChange()
            logger.info("'\(made.user.login)' enrolled device \(made.device.id) from \(source)")
            await awaitTunnel(source)
            return Created(item: try grant(made), isRepetition: false)
        case .repeated(let before):
            succeeded(bearer, source)
            try check(before)
            return Created(item: try grant(before), isRepetition: true)
        case .refused(let refusal):
            switch refusal {
            case .unknown: throw failure(.unauthorized, bearer, source)
            case .used:
                let error = failure(.invitationUsed, bearer, source)
                await recordMisuse(wanted, isLimited: error != .invitationUsed)
                throw error
            case .expired: throw secret.kind == .token ? .tokenExpired : .invitationExpired
            case .revoked: throw secret.kind == .token ? .tokenExpired : .invitationRevoked
            case .userDisabled: throw .userDisabled
            case .userExpired: throw .userExpired
            case .wrongScope: throw .forbidden
            }
        }
    }

    /// - Throws: `.invalid` if the key cannot be a peer's key, or is the gateway's own.
    func checkKey(_ key: PublicKey, _ field: String) throws(GatewayError) {
        let keys = state.withLock { $0.keys }
        var scalar = Bytes32(copying: keys.current.secret)
        defer { scalar.wipe() }
        // A key that is a point of low order has no shared secret with any key (RFC 7748 section 6.1).
        guard !key.isZero, var shared = X25519.sharedSecret(secret: scalar, publicKey: Bytes32(key)) else {
            throw .invalid(field: field, problem: "must be a valid key")
        }
        shared.wipe()
        guard key != keys.current.publicKey, key != keys.next?.key.publicKey else {
            throw .invalid(field: field, problem: "must not be the gateway's own key")
        }
    }

    // MARK: - The device itself

    /// The device's current grant.
    package func grant(_ caller: Caller) async throws(GatewayError) -> EnrolmentGrant {
        try grant(try await own(caller))
    }

    /// Extends the expiry of the device, if the settings give devices a lifetime.
    package func renew(_ caller: Caller) async throws(GatewayError) -> EnrolmentGrant {
        let found = try await own(caller)
        let lifetime = settings.deviceLifetimeSeconds
        // A renewal must not exceed the expiry that an administrator has set.
        let end = min(now.addingTimeInterval(Double(lifetime)), found.device.expiryLimit ?? .distantFuture)
        // Change nothing if the expiry moves by at most a minute, which saves an audit entry, or if the time may be
        // wrong.
        guard lifetime > 0, let before = found.device.expiresAt, end.timeIntervalSince(before) > 60,
            observeClock().isSteady
        else { return try grant(found) }
        try checkRate(of: .device(found.device.id))
        let audit = record(.deviceRenewed, "device:\(found.device.id)", caller)
        return try grant(
            try await changed("device", try await store.change(device: found.device.id, .renewal(until: end), audit)))
    }

    /// The caller's device, if it is admitted.
    func own(_ caller: Caller) async throws(GatewayError) -> DeviceOfUser {
        try caller.check(.ownDevice)
        guard case .device(let id, _) = caller.who else { throw .forbidden }
        let found = try await stored("device", try await store.device(id))
        guard let found else { throw .deviceUnknown }
        try check(found)
        return found
    }

    /// All devices of the device's user.
    package func ownDevices(_ caller: Caller) async throws(GatewayError) -> DeviceList {
        let found = try await own(caller)
        let now = now
        var entries: [DeviceListEntry] = []
        var page = PageRequest(limit: PageRequest.most)
        repeat {
            let request = page
            let part = try await stored("device", try await store.devices(of: found.user.id, request))
            for device in part.items {
                guard let key = device.publicKey, !ends.withLock({ $0.removes(device.id) }) else { continue }
                entries.append(
                    DeviceListEntry(
                        id: device.id, name: device.name, platform: device.platform, publicKey: key,
                        createdAt: device.createdAt,
                        expiresInSeconds: device.expiresAt.map { Self.seconds(until: $0, from: now) },
                        lastSeenSecondsAgo: device.lastSeenAt.map { Self.seconds(until: now, from: $0) },
                        isCurrent: device.id == found.device.id))
            }
            page.after = part.next
        } while page.after != nil
        return DeviceList(devices: entries)
    }

    /// Removes a device of the same user. A device of another user is reported as unknown.
    /// - Returns: Whether the removal is saved. It is in effect in any case.
    @discardableResult
    package func removeOwnDevice(_ id: DeviceID, _ caller: Caller) async throws(GatewayError) -> Bool {
        let found = try await own(caller)
        try checkRate(of: .devices(found.user.id))
        let other = try await stored("device", try await store.device(id))
        guard other?.user.id == found.user.id else { throw .notFound("device") }
        return try await endAccess(
            .removedDevice(id, of: found.user.id), record(.deviceRemoved, "device:\(id)", caller))
    }

    // MARK: - PIA's clients

    /// Replaces the key in the slot of an `addKey` token. Returns after the tunnel has applied the key; see
    /// ``useTunnel(waitLimit:apply:)``.
    package func addKey(
        token bearer: String, publicKey: PublicKey, from source: IPAddress
    ) async throws(GatewayError) -> EnrolmentGrant {
        guard let secret = BearerSecret(bearer), secret.kind == .token else {
            throw failure(.unauthorized, bearer, source)
        }
        let hash = SecretHash(secret)
        let token = try await stored("token", try await store.token(hash))
        // Refuse other secrets: the token is in the request's query, and queries may be logged.
        guard let token, token.scope == .addKey else { throw failure(.unauthorized, bearer, source) }
        guard inEffect(token).revokedAt == nil, !token.isExpired(at: now), let slot = token.deviceID else {
            throw .tokenExpired
        }
        try checkKey(publicKey, "pubkey")
        let found = try await stored("device", try await store.device(slot))
        guard let found else { throw .tokenExpired }
        try check(found)
        succeeded(bearer, source)
        // PIA's clients send the same key again: record it at most once a minute.
        if found.device.publicKey == publicKey, let keyAt = found.device.keyAt, now.timeIntervalSince(keyAt) < 60 {
            return try grant(found)
        }
        try checkRate(of: .device(slot))
        let now = now
        let limits = limits(at: now)
        let audit = AuditRecord(
            at: now, actor: "addKey:\(token.id)", source: source, action: .deviceKeyRotated, subject: "device:\(slot)",
            details: ["key": publicKey.base64])
        let updated = try await changed(
            "device", try await store.change(device: slot, .key(publicKey, limits), audit))
        await awaitTunnel(source)
        return try grant(updated)
    }
}
