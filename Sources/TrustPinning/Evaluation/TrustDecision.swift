// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Whether a server is trusted, why, and how that came about.
public struct TrustDecision: Sendable, Hashable {
    /// Why a server is trusted, or is not.
    public enum Reason: String, Sendable, Hashable, CaseIterable {
        /// Trusted: a pin matched a certificate of the verified chain.
        case pinMatch
        /// Trusted without system trust, as the policy allows: a pin matched the leaf, which is valid for the host.
        case leafPinMatchWithoutSystemTrust
        /// Trusted: the host is not pinned, and the chain has system trust.
        case systemTrustAllowed
        /// Trusted: no pin matched, the chain has system trust, and the strict policy falls back to it.
        case pinMismatchAllowedByFallback
        /// Trusted: no pin matched, the chain has system trust, and the policy is permissive.
        case pinMismatchPermissive
        /// Trusted: no pin matched, the chain has system trust, and the policy only audits.
        case pinMismatchAudited
        /// Trusted: the pins have expired, and the chain has system trust.
        case pinSetExpired

        /// Refused: the chain has no system trust, or without it the leaf is not valid for the host.
        case trustFailed
        /// Refused: no pin matched.
        case pinningFailed
        /// Refused: the pins have expired, and the policy says to refuse then.
        case pinSetExpiredRefused
        /// Refused: there is no policy for the host.
        case policyMissing
        /// Refused: the host is no host name.
        case invalidHost
        /// Refused: the chain is empty, too long, or not made of certificates.
        case invalidChain

        /// Whether a decision for this reason trusts.
        public var isTrusted: Bool {
            switch self {
            case .pinMatch, .leafPinMatchWithoutSystemTrust, .systemTrustAllowed, .pinMismatchAllowedByFallback,
                .pinMismatchPermissive, .pinMismatchAudited, .pinSetExpired:
                true
            case .trustFailed, .pinningFailed, .pinSetExpiredRefused, .policyMissing, .invalidHost, .invalidChain:
                false
            }
        }
    }

    /// Why.
    public let reason: Reason
    /// What happened, in order.
    public let events: [TrustEvent]
    /// The chain that system trust verified, from the leaf to a root, in DER. Empty if there was none.
    public let verifiedChain: [[UInt8]]

    /// Whether to go on with the connection.
    public var isTrusted: Bool { reason.isTrusted }

    /// The pins that matched, in the order of the policy.
    public var matchedPins: [Pin] {
        for case .pinMatched(let pins) in events { return pins }
        return []
    }

    init(_ reason: Reason, _ events: [TrustEvent], verifiedChain: [[UInt8]] = []) {
        self.reason = reason
        self.events = events
        self.verifiedChain = verifiedChain
    }
}
