// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// What happened while a server was judged. A decision lists its events in order.
public enum TrustEvent: Sendable, Hashable {
    /// No policy is there for the host, and the default is to refuse.
    case policyMissing
    /// The platform, or the given roots, were asked about the chain.
    case systemTrustEvaluated(isTrusted: Bool)
    /// The chain has no system trust, which the policy requires (or the leaf is no good even for a policy that does not).
    case systemTrustFailed(SystemTrustFailure)
    /// The same under a permissive policy. It refuses the connection all the same.
    case systemTrustFailedPermissive(SystemTrustFailure)
    /// What the chain is made of, without names of the server.
    case chainSummary(ChainSummary)
    /// Pins matched, in the order of the policy.
    case pinMatched([Pin])
    /// No pin matched, and the connection is refused.
    case pinMismatch
    /// No pin matched; the chain has system trust, and the policy falls back to it.
    case pinMismatchAllowedByFallback
    /// No pin matched; the chain has system trust, which is enough for a permissive policy.
    case pinMismatchPermissive
    /// The policy has no pins, so that none can match.
    case pinSetEmpty
    /// A client identity was sent to the server.
    case mtlsIdentityUsed
    /// The server asked for a client identity, and there is none for it.
    case mtlsIdentityMissing

    // Beyond the twelve:

    /// The host is no host name.
    case hostInvalid(String)
    /// The chain is empty, too long, or not made of certificates.
    case chainRefused(String)
    /// Only backups are among the pins that matched: the servers have changed to the next key.
    case onlyBackupMatched
    /// No pin matched, which the mode audit reports and does no more about.
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

/// What a chain is made of. It names no server: neither subjects nor alternative names are in it.
public struct ChainSummary: Sendable, Hashable {
    /// How many certificates the chain has: of the verified one if there is one, else of what the server sent.
    public let count: Int
    /// The kind of the leaf's key, such as `P-256`.
    public let leafKey: String
    /// How many alternative names the leaf has.
    public let alternativeNameCount: Int
    /// The end of the leaf's validity.
    public let leafExpires: Date
    /// The common name of the authority that issued the leaf; nil if the leaf is self-issued.
    public let issuer: String?

    init(leaf: CertificateFields, count: Int) {
        self.count = count
        leafKey = leaf.keyDescription
        alternativeNameCount = leaf.alternativeNames?.count ?? 0
        leafExpires = Date(timeIntervalSince1970: Double(leaf.notAfter))
        issuer = leaf.isSelfIssued ? nil : leaf.issuerCommonName
    }
}
