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

/// What a device keeps of its enrolment, in one secret, so that it is never kept in part.
///
/// An app puts an invitation there, as its text. The first start makes key and credential, keeps them in its place before anything is
/// sent, and enrols; from then on the secret is JSON.
public struct DeviceEnrolment: Sendable, Equatable {
    /// The device's key.
    public var privateKey: PrivateKey
    /// What the device shows.
    public var credential: BearerSecret
    /// The invitation's token, until the gateway has taken it.
    public var token: BearerSecret?
    /// What people call the device, until the gateway knows it.
    public var name: String?
    /// What it runs on, until the gateway knows it.
    public var platform: String?
    /// The key that a rotation is about to put in place of ``privateKey``; who has the last word is the gateway.
    ///
    /// It is kept until the gateway knows it, or until no request of the rotation can be accepted any longer.
    public var nextKey: PrivateKey?
    /// The time for which ``nextKey`` must be kept.
    var nextKeyWait: RotationWait?
    /// What the gateway gave last.
    public var grant: EnrolmentGrant?
    /// When that was, by this machine's clock.
    public var grantedAt: Date?

    /// An enrolment that is about to begin, with a new key and credential.
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

    /// Reads what ``secret`` wrote.
    /// - Throws: ``ContractError``; also for an invitation, which is no enrolment yet.
    public init(_ secret: SecretBytes) throws(ContractError) {
        var bytes = secret.bytes
        defer { wipe(&bytes) }
        guard let json = try? JSON.read(bytes) else {
            throw ContractError(field: "enrolment", problem: "it is neither an invitation nor an enrolment")
        }
        let fields = try ContractFields(JSONValue(json))
        privateKey = try fields.value("privateKey") { (value) throws(ContractError) in try value.privateKey() }
        credential = try fields.value("credential") { (value) throws(ContractError) in try value.secret(.device) }
        token = try fields.optional("token") { (value) throws(ContractError) in try value.secret(.invitation, .token) }
        name = try fields.optional("name") { (value) throws(ContractError) in try value.label(1...64) }
        platform = try fields.optional("platform") { (value) throws(ContractError) in try value.label(1...32) }
        nextKey = try fields.optional("nextKey") { (value) throws(ContractError) in try value.privateKey() }
        nextKeyWait = try fields.optional("nextKeyWait") { (value) throws(ContractError) in try RotationWait(value) }
        grant = try fields.optional("grant") { (value) throws(ContractError) in try EnrolmentGrant(json: value.json) }
        grantedAt = try fields.optional("grantedAt") { (value) throws(ContractError) in try value.time() }
    }

    /// The enrolment as a secret.
    public var secret: SecretBytes {
        let json = JSONValue.members([
            "privateKey": .string(privateKey.exportedBase64), "credential": .string(credential.exportedText),
            "token": token.map { .string($0.exportedText) }, "name": name.map { .string($0) },
            "platform": platform.map { .string($0) }, "nextKey": nextKey.map { .string($0.exportedBase64) },
            "nextKeyWait": nextKeyWait.map(\.json), "grant": grant.map(\.json),
            "grantedAt": grantedAt.map { .time($0) },
        ])
        return SecretBytes((try? json.text()) ?? [])
    }

    /// Whether a secret is an invitation that nobody has used yet.
    static func isInvitation(_ secret: SecretBytes) -> Bool {
        secret.withBytes { span in
            let first = span.indices.first { span[$0] > UInt8(ascii: " ") }
            return first.map { span[$0] != UInt8(ascii: "{") } ?? false
        }
    }

    /// Whether what the gateway gave last may still be used without asking it.
    func hasUsableGrant(at now: Date) -> Bool {
        guard let grant, let grantedAt else { return false }
        // An earlier version may have stored it unchecked; whether the gateway is on this machine is not known here.
        do throws(ContractError) { try grant.checkAddresses(allowsLoopback: true) } catch { return false }
        guard let seconds = grant.device.expiresInSeconds else { return true }
        // A clock that was set back since says nothing; the gateway's is what counts in the end.
        return now < grantedAt.addingTimeInterval(Double(seconds))
    }

    /// How long it is until the gateway should be asked again: when the grant says so, and well before it, or a key that is
    /// in use, comes to its end.
    func timeToRenewal(at now: Date) -> Duration {
        guard let grant, let grantedAt else { return .zero }
        let ends = [grant.device.expiresInSeconds].compactMap(\.self) + grant.servers.compactMap(\.notAfterSeconds)
        let due = min(grant.renewAfterSeconds, ends.map { $0 / 2 }.min() ?? .max)
        let elapsed = max(0, now.timeIntervalSince(grantedAt))
        return .seconds(max(0, Double(due) - elapsed))
    }
}

extension DeviceEnrolment: CustomStringConvertible, CustomReflectable {
    /// Without secrets.
    public var description: String { "(enrolment of \(privateKey.publicKey))" }
    /// Shows nothing to `dump` and debuggers.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
