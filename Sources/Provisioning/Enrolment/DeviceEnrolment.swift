// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel
import TunnelSystem
public import WireGuardCore

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// The stored state of a device's enrolment. All of it is in one secret, so it is never stored in part.
///
/// At first, an app stores the text of an invitation as this secret. The first start creates a key and a credential,
/// replaces the invitation by an enrolment with them before it sends a request, and enrols. From then on, the secret is
/// JSON.
public struct DeviceEnrolment: Sendable, Equatable {
    /// The device's key.
    public var privateKey: PrivateKey
    /// The credential of the device.
    public var credential: BearerSecret
    /// The invitation's token, until the gateway has accepted it.
    public var token: BearerSecret?
    /// The device's display name, until the gateway has it.
    public var name: String?
    /// The device's platform, until the gateway has it.
    public var platform: String?
    /// The new key of a rotation in progress. The gateway's grants show whether it has replaced ``privateKey``.
    ///
    /// The key is kept until the gateway has it, or until the gateway can no longer accept a request of the rotation.
    public var nextKey: PrivateKey?
    /// The time for which ``nextKey`` must be kept.
    var nextKeyWait: RotationWait?
    /// The last grant of the gateway.
    public var grant: EnrolmentGrant?
    /// The time of ``grant`` on this machine's clock.
    public var grantedAt: Date?

    /// Makes an enrolment with a new key and credential.
    public init(
        token: BearerSecret, name: String? = nil, platform: String? = nil,
        using generator: inout some RandomNumberGenerator
    ) {
        privateKey = PrivateKey(using: &generator)
        credential = BearerSecret(.device, using: &generator)
        self.token = token
        self.name = name
        self.platform = platform
    }

    /// Parses the output of ``secret``.
    /// - Throws: ``ContractError`` if the secret is not an enrolment. An invitation is not one.
    public init(_ secret: SecretBytes) throws(ContractError) {
        var bytes = secret.bytes
        defer { wipe(&bytes) }
        guard let json = try? JSON.read(bytes) else {
            throw ContractError(field: "enrolment", problem: "is neither an invitation nor an enrolment")
        }
        self = try Self.message.decode(json, .reply)
    }

    /// The enrolment as a secret.
    public var secret: SecretBytes { SecretBytes(Self.message.encode(self).bytes) }

    private init(
        privateKey: PrivateKey, credential: BearerSecret, token: BearerSecret?, name: String?, platform: String?,
        nextKey: PrivateKey?, nextKeyWait: RotationWait?, grant: EnrolmentGrant?, grantedAt: Date?
    ) {
        self.privateKey = privateKey
        self.credential = credential
        self.token = token
        self.name = name
        self.platform = platform
        self.nextKey = nextKey
        self.nextKeyWait = nextKeyWait
        self.grant = grant
        self.grantedAt = grantedAt
    }

    /// The members of ``secret``. A later version can add members.
    private static let message = CompleteMessage<DeviceEnrolment>(
        DeviceEnrolment.init(
            privateKey:credential:token:name:platform:nextKey:nextKeyWait:grant:grantedAt:),
        TypedField("privateKey", \.privateKey, .privateKey),
        TypedField("credential", \.credential, .secret(.device)),
        TypedField("token", \.token, .optional(.secret(.invitation, .token))),
        TypedField("name", \.name, .optional(.line(1...64))),
        TypedField("platform", \.platform, .optional(.line(1...32))),
        TypedField("nextKey", \.nextKey, .optional(.privateKey)),
        TypedField("nextKeyWait", \.nextKeyWait, .optional(.object(RotationWait.message, .reply))),
        TypedField("grant", \.grant, .optional(.object(EnrolmentGrant.message, .reply))),
        TypedField("grantedAt", \.grantedAt, .optional(.time)))

    /// Whether a secret is an unused invitation.
    static func isInvitation(_ secret: SecretBytes) -> Bool {
        secret.withBytes { span in
            let first = span.indices.first { span[$0] > UInt8(ascii: " ") }
            return first.map { span[$0] != UInt8(ascii: "{") } ?? false
        }
    }

    /// Whether the last grant may still be used without asking the gateway.
    func hasUsableGrant(at now: Date) -> Bool {
        guard let grant, let grantedAt else { return false }
        // Check the addresses, because an earlier version may have stored a grant without checks. Loopback is
        // permitted, because the gateway may be on this machine.
        do throws(ContractError) { try grant.checkAddresses(allowsLoopback: true) } catch { return false }
        guard let seconds = grant.device.expiresInSeconds else { return true }
        // Using a grant for too long after the clock was set back causes no harm, because the gateway enforces the
        // expiry by its own clock.
        return now < grantedAt.addingTimeInterval(Double(seconds))
    }

    /// The time until the next request to the gateway: the grant's renewal time, or half of the time to the expiry of
    /// the device or of a server's key, if that is earlier.
    func timeToRenewal(at now: Date) -> Duration {
        guard let grant, let grantedAt else { return .zero }
        let ends = [grant.device.expiresInSeconds].compactMap(\.self) + grant.servers.compactMap(\.notAfterSeconds)
        let due = min(grant.renewAfterSeconds, ends.map { $0 / 2 }.min() ?? .max)
        let elapsed = max(0, now.timeIntervalSince(grantedAt))
        return .seconds(max(0, Double(due) - elapsed))
    }
}

extension DeviceEnrolment: CustomStringConvertible, CustomReflectable {
    /// The description without secrets.
    public var description: String { "(enrolment of \(privateKey.publicKey))" }
    /// Shows nothing to `dump` and debuggers.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
