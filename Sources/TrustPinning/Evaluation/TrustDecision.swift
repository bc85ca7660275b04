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

    /// The mistake in the pins that explains why none matched, in one line for people; `nil` if none is known.
    package let mismatchHint: String?

    private let leafKey: PinHash?

    /// Whether to go on with the connection.
    public var isTrusted: Bool { reason.isTrusted }

    /// The hashes of the keys that the server showed, its own first: what pins of the kind `spki` would be. They are those
    /// of the verified chain, or, where nobody vouches for the rest, that of the server's own certificate alone. Empty
    /// where that cannot be read.
    public var presentedKeys: [PinHash] {
        guard verifiedChain.isEmpty else {
            return verifiedChain.compactMap { der in
                (try? CertificateFields.keyInfo(of: der)).map { PinHash(sha256Of: $0) }
            }
        }
        return leafKey.map { [$0] } ?? []
    }

    /// The pins that matched, in the order of the policy.
    public var matchedPins: [Pin] {
        for case .pinMatched(let pins) in events { return pins }
        return []
    }

    init(
        _ reason: Reason, _ events: [TrustEvent], leafKey: PinHash? = nil, verifiedChain: [[UInt8]] = [],
        mismatchHint: String? = nil
    ) {
        self.reason = reason
        self.events = events
        self.leafKey = leafKey
        self.mismatchHint = mismatchHint
        self.verifiedChain = verifiedChain
    }
}

extension TrustDecision: CustomStringConvertible {
    /// Why, in one line for people. Where no pin matches, it names the keys that the server showed, as pins are written, so
    /// that they can be compared with the policy. It names no host.
    public var description: String {
        switch reason {
        case .pinMatch: "a pin matches"
        case .leafPinMatchWithoutSystemTrust: "a pin matches the server's own certificate, which is valid for the host"
        case .systemTrustAllowed: "the system vouches for the server, which is not pinned"
        case .pinMismatchAllowedByFallback: "no pin matches, and the policy falls back to system trust; \(shown)"
        case .pinMismatchPermissive: "no pin matches, and system trust is enough for a permissive policy; \(shown)"
        case .pinMismatchAudited: "no pin matches, which the policy only reports; \(shown)"
        case .pinSetExpired: "the pins have expired, and the system vouches for the server"
        case .trustFailed: "the system does not vouch for the server: \(failure)"
        case .pinningFailed: "no pin matches; \(shown)"
        case .pinSetExpiredRefused: "the pins have expired, and the policy refuses the host from then on"
        case .policyMissing: "no policy is for the host, and hosts without one are refused; \(shown)"
        case .invalidHost: "the host is no host name: \(failure)"
        case .invalidChain: "the server's certificates cannot be used: \(failure)"
        }
    }

    private var shown: String {
        let keys = presentedKeys
        guard let own = keys.first else { return "no key of the server can be read" }
        let above = keys.dropFirst().map(\.description).joined(separator: ", ")
        return "the server's key is \(own)" + (above.isEmpty ? "" : ", above it \(above)")
            + (mismatchHint.map { "; \($0)" } ?? "")
    }

    /// What the events say of why it failed.
    private var failure: String {
        for event in events.reversed() {
            switch event {
            case .systemTrustFailed(let failure), .systemTrustFailedPermissive(let failure): return failure.reason
            case .hostInvalid(let why), .chainRefused(let why): return why
            default: continue
            }
        }
        return reason.rawValue
    }
}
