// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
package import Provisioning
import Synchronization
import TunnelSystem
import WireGuardCore

/// A nonce that was issued.
struct RotationChallenge: Sendable {
    var nonce: SecretHash
    var serverKey: PrivateKey
    /// The expiry, in nanoseconds.
    var until: Int64
    /// The request that has used it.
    var usedBy: SecretHash?
}

extension GatewayService {
    private static let nonceLifetime: Int64 = 60
    /// The largest number of nonces of a device at the same time.
    private static let nonces = 4

    /// Issues a nonce. The device can use it once, within a minute, to prove that it has its old key.
    package func rotationNonce(_ caller: Caller) async throws(GatewayError) -> RotationNonce {
        let found = try await own(caller)
        let nonce = random.bytes(32)
        let time = nanoseconds
        let key = state.withLock { state in
            let key = state.keys.current
            let kept = (state.nonces[found.device.id] ?? []).filter { $0.until > time }.suffix(Self.nonces - 1)
            state.nonces[found.device.id] =
                kept + [
                    RotationChallenge(
                        nonce: SecretHash(of: nonce), serverKey: key, until: time + Self.nonceLifetime * 1_000_000_000)
                ]
            return key
        }
        return RotationNonce(nonce: nonce, serverKey: key.publicKey, lifetimeSeconds: Self.nonceLifetime)
    }

    /// Replaces the device's key. A repeated identical request gets the same answer. Returns after the tunnel has applied
    /// the key; see ``useTunnel(waitLimit:apply:)``.
    package func rotate(_ request: RotationRequest, _ caller: Caller) async throws(GatewayError) -> EnrolmentGrant {
        let found = try await own(caller)
        let id = found.device.id
        let hash = SecretHash(of: request.publicKey.bytes + request.nonce + request.proof)
        if found.device.publicKey == request.publicKey, found.device.rotationHash == hash { return try grant(found) }
        guard let serverKey = use(SecretHash(of: request.nonce), of: id, by: hash), let old = found.device.publicKey
        else { throw .nonceUnknown }
        guard request.isProven(by: old, to: serverKey) else {
            try await auditRefusal(id, caller)
            throw .proofWrong
        }
        try checkKey(request.publicKey, "publicKey")
        guard request.publicKey != old else {
            throw .invalid(field: "publicKey", problem: "must differ from the old key")
        }
        try checkRate(of: .device(id))
        let audit = record(
            .deviceKeyRotated, "device:\(id)", caller, ["from": old.base64, "to": request.publicKey.base64])
        do throws(GatewayError) {
            let updated = try await changed(
                "device",
                try await store.change(device: id, .rotation(from: old, to: request.publicKey, by: hash), audit))
            await awaitTunnel(caller.source)
            return try grant(updated)
        } catch {
            // The same request may already have succeeded on another connection.
            guard case .notFound = error else { throw error }
            let again = try await own(caller)
            guard again.device.publicKey == request.publicKey, again.device.rotationHash == hash else {
                throw .nonceUnknown
            }
            return try grant(again)
        }
    }

    /// Audits a failed proof, at most once a minute for each device, so that a device cannot fill the disk.
    private func auditRefusal(_ id: DeviceID, _ caller: Caller) async throws(GatewayError) {
        logRateLimited("device \(id) did not prove its old key")
        let time = nanoseconds
        guard state.withLock({ $0.proofs.allows(id, at: time) }) else { return }
        let audit = record(.proofRefused, "device:\(id)", caller)
        try await stored("device", try await store.append(audit, change: nil))
    }

    /// Marks a nonce as used by a request, and returns the gateway's key of the nonce; `nil` if the nonce is unknown,
    /// has expired, or was used by another request.
    private func use(_ nonce: SecretHash, of device: DeviceID, by request: SecretHash) -> PrivateKey? {
        let time = nanoseconds
        return state.withLock { state in
            var challenges = state.nonces[device] ?? []
            guard let index = challenges.firstIndex(where: { $0.nonce == nonce && $0.until > time }),
                challenges[index].usedBy == nil || challenges[index].usedBy == request
            else { return nil }
            challenges[index].usedBy = request
            state.nonces[device] = challenges
            return challenges[index].serverKey
        }
    }
}
