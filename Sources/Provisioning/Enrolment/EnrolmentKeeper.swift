// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import Logging
package import PacketTunnel
import WireGuardCore

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

/// Advances an enrolment from one state to the next. It stores each state before it sends the request, so that the same
/// request can be repeated if the reply is lost or the process ends.
package struct EnrolmentKeeper: Sendable {
    package let client: EnrolmentClient
    let logger: Logger
    let now: @Sendable () -> Date
    let random: @Sendable () -> any RandomNumberGenerator
    /// Stores the enrolment's secret.
    let keep: @Sendable (SecretBytes) async throws(TunnelError) -> Void

    package init(
        client: EnrolmentClient, logger: Logger, now: @escaping @Sendable () -> Date = { Date() },
        random: @escaping @Sendable () -> any RandomNumberGenerator = { SystemRandomNumberGenerator() },
        keep: @escaping @Sendable (SecretBytes) async throws(TunnelError) -> Void
    ) {
        self.client = client
        self.logger = logger
        self.now = now
        self.random = random
        self.keep = keep
    }

    /// Reads the enrolment in a secret. Replaces an invitation with a new enrolment.
    /// - Parameters:
    ///   - name: The display name of a new device.
    ///   - platform: The platform of a new device.
    package func read(
        _ secret: SecretBytes, name: String?, platform: String?
    ) async throws(TunnelError) -> DeviceEnrolment {
        let enrolment: DeviceEnrolment
        do throws(ContractError) {
            guard DeviceEnrolment.isInvitation(secret) else { return try DeviceEnrolment(secret) }
            let invitation = try Invitation(String(decoding: secret.bytes, as: UTF8.self))
            var generator = random()
            enrolment = DeviceEnrolment(token: invitation.token, name: name, platform: platform, using: &generator)
        } catch {
            throw TunnelError(
                .secretUnavailable, "the stored enrolment cannot be used: \(error)",
                fix: "enrol again, with a new invitation")
        }
        do throws(TunnelError) { try await keep(enrolment.secret) } catch {
            throw TunnelError(
                error.code,
                "cannot save the device's key and credential, so the invitation was not used: \(error.message)",
                fix: error.fix.isEmpty ? "try again; the invitation stays valid" : error.fix)
        }
        return enrolment
    }

    /// Returns the enrolment with the current grant. It enrols the device first if necessary, and renews the grant if
    /// that is due.
    /// - Parameter renewing: Whether to renew the grant even if that is not due.
    package func refreshed(
        _ enrolment: DeviceEnrolment, renewing: Bool = false
    ) async throws(ProvisioningError) -> DeviceEnrolment {
        var enrolment = enrolment
        let client = client.trusting(enrolment.grant)
        let publicKey = enrolment.privateKey.publicKey
        // During an unfinished rotation, the gateway may have either key.
        let nextKey = enrolment.nextKey?.publicKey
        let grant: EnrolmentGrant
        if let token = enrolment.token {
            grant = try await client.enrol(
                EnrolmentRequest(
                    publicKey: publicKey, credential: enrolment.credential, name: enrolment.name,
                    platform: enrolment.platform), with: token)
            logger.notice("enrolled as \(grant.device.id) of \(grant.device.user)")
        } else if renewing || enrolment.timeToRenewal(at: now()) == .zero {
            grant = try await client.renew(credential: enrolment.credential, publicKey: publicKey, nextKey: nextKey)
        } else {
            grant = try await client.grant(credential: enrolment.credential, publicKey: publicKey, nextKey: nextKey)
        }
        enrolment.adopt(grant, at: now())
        await keepLogging(enrolment)
        return enrolment
    }

    /// The enrolment with a new key.
    package func rotated(_ enrolment: DeviceEnrolment) async throws(ProvisioningError) -> DeviceEnrolment {
        // Complete an unfinished enrolment or rotation first.
        var enrolment =
            enrolment.nextKey == nil && enrolment.token == nil ? enrolment : try await refreshed(enrolment)
        let client = client.trusting(enrolment.grant)
        let nonce = try await client.rotationNonce(credential: enrolment.credential)
        var generator = random()
        // Use the key of an unfinished attempt again: a delayed request of that attempt then causes no harm, because it
        // has the same key.
        let next = enrolment.nextKey ?? PrivateKey(using: &generator)
        enrolment.nextKey = next
        enrolment.nextKeyWait = RotationWait(
            lifetimeSeconds: max(nonce.lifetimeSeconds, enrolment.nextKeyWait?.lifetimeSeconds ?? 0))
        do throws(TunnelError) { try await keep(enrolment.secret) } catch {
            throw .transport(.unsupported("cannot store the new key: \(error.message)"))
        }
        let grant = try await client.rotate(
            from: enrolment.privateKey, to: next.publicKey, answering: nonce, credential: enrolment.credential)
        enrolment.adopt(grant, at: now())
        await keepLogging(enrolment)
        return enrolment
    }

    /// Stores the enrolment. Only logs a failure, which need not end the tunnel, because the grant can be requested
    /// again.
    private func keepLogging(_ enrolment: DeviceEnrolment) async {
        do throws(TunnelError) { try await keep(enrolment.secret) } catch {
            logger.error("cannot store the gateway's grant: \(error)")
        }
    }
}

extension DeviceEnrolment {
    /// Stores the gateway's grant, and the key that the gateway has.
    mutating func adopt(_ grant: EnrolmentGrant, at now: Date) {
        // The secret stores whole seconds.
        let now = Date(timeIntervalSince1970: now.timeIntervalSince1970.rounded(.down))
        if let nextKey {
            var wait = nextKeyWait ?? RotationWait()
            if nextKey.publicKey == grant.device.publicKey {
                privateKey = nextKey
                (self.nextKey, nextKeyWait) = (nil, nil)
            } else if wait.hasEnded(gatewayTime: grant.serverTime, deviceTime: now) {
                (self.nextKey, nextKeyWait) = (nil, nil)
            } else {
                nextKeyWait = wait
            }
        }
        (token, name, platform) = (nil, nil, nil)
        // A gateway that does not announce its pins has not changed them.
        let pins = grant.pins ?? self.grant?.pins
        self.grant = grant
        self.grant?.pins = pins
        grantedAt = now
    }
}
