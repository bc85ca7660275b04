// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// An event of an evaluation. A decision lists its events in order.
public enum TrustEvent: Sendable, Hashable {
    /// The host has no policy, and unlisted hosts are refused.
    case policyMissing
    /// The platform, or a verifier with given roots, evaluated the chain.
    case systemTrustEvaluated(isTrusted: Bool)
    /// The policy requires system trust, which the chain lacks; or it does not, and the leaf itself is not valid.
    case systemTrustFailed(SystemTrustFailure)
    /// The chain lacks system trust under a permissive policy. The connection is refused nevertheless.
    case systemTrustFailedPermissive(SystemTrustFailure)
    /// A summary of the chain, without names of the server.
    case chainSummary(ChainSummary)
    /// These pins matched, in the policy's order.
    case pinMatched([Pin])
    /// No pin matched, and the connection is refused.
    case pinMismatch
    /// No pin matched; the chain has system trust, and the policy falls back to it.
    case pinMismatchAllowedByFallback
    /// No pin matched; the chain has system trust, which is enough for a permissive policy.
    case pinMismatchPermissive
    /// The policy has no pins.
    case pinSetEmpty
    /// A client identity was sent to the server.
    case mtlsIdentityUsed
    /// The server requested a client identity, and none is available for it.
    case mtlsIdentityMissing

    // Events in addition to those of PinGuard:

    /// The host is not a valid host name.
    case hostInvalid(String)
    /// The chain is empty, too long, or not made of certificates.
    case chainRefused(String)
    /// Only backup pins matched: the servers use their next key.
    case onlyBackupMatched
    /// No pin matched; the chain has system trust, and the mode audit only reports the mismatch.
    case pinMismatchAudited
    /// The pins have expired.
    case pinSetExpired(Date)

    /// The name of the case.
    public var name: String {
        switch self {
        case .policyMissing: "policyMissing"
        case .systemTrustEvaluated: "systemTrustEvaluated"
        case .systemTrustFailed: "systemTrustFailed"
        case .systemTrustFailedPermissive: "systemTrustFailedPermissive"
        case .chainSummary: "chainSummary"
        case .pinMatched: "pinMatched"
        case .pinMismatch: "pinMismatch"
        case .pinMismatchAllowedByFallback: "pinMismatchAllowedByFallback"
        case .pinMismatchPermissive: "pinMismatchPermissive"
        case .pinSetEmpty: "pinSetEmpty"
        case .mtlsIdentityUsed: "mtlsIdentityUsed"
        case .mtlsIdentityMissing: "mtlsIdentityMissing"
        case .hostInvalid: "hostInvalid"
        case .chainRefused: "chainRefused"
        case .onlyBackupMatched: "onlyBackupMatched"
        case .pinMismatchAudited: "pinMismatchAudited"
        case .pinSetExpired: "pinSetExpired"
        }
    }
}

/// A summary of a chain, without the names of the server: neither subjects nor alternative names.
public struct ChainSummary: Sendable, Hashable {
    /// The number of certificates of the verified chain or, without one, of the chain that the server sent.
    public let count: Int
    /// The kind of the leaf's key, such as `P-256`.
    public let leafKey: String
    /// The number of the leaf's alternative names.
    public let alternativeNameCount: Int
    /// The end of the leaf's validity.
    public let leafExpires: Date
    /// The common name of the authority that issued the leaf, or `nil` if the leaf is self-issued.
    public let issuer: String?

    init(leaf: CertificateFields, count: Int) {
        self.count = count
        leafKey = leaf.keyDescription
        alternativeNameCount = leaf.alternativeNames?.count ?? 0
        leafExpires = Date(timeIntervalSince1970: Double(leaf.notAfter))
        issuer = leaf.isSelfIssued ? nil : leaf.issuerCommonName
    }
}
