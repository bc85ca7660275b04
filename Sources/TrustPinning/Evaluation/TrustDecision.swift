// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The decision on a server, its reason, and the events that led to it.
public struct TrustDecision: Sendable, Hashable {
    /// The reason why a server is trusted or refused.
    public enum Reason: String, Sendable, Hashable, CaseIterable {
        /// Trusted: a pin matched a certificate of the verified chain.
        case pinMatch
        /// Trusted without system trust, which the policy allows: a pin matched the leaf, which is valid for the host.
        case leafPinMatchWithoutSystemTrust
        /// Trusted: the host is not pinned, and the chain has system trust.
        case systemTrustAllowed
        /// Trusted: no pin matched, the chain has system trust, and the strict policy falls back to it.
        case pinMismatchAllowedByFallback
        /// Trusted: no pin matched, the chain has system trust, and the policy is permissive.
        case pinMismatchPermissive
        /// Trusted: no pin matched, the chain has system trust, and the policy's mode is audit.
        case pinMismatchAudited
        /// Trusted: the pins have expired, and the chain has system trust.
        case pinSetExpired

        /// Refused: the chain lacks system trust, or the policy does not require it and the leaf is not valid for the
        /// host.
        case trustFailed
        /// Refused: no pin matched.
        case pinningFailed
        /// Refused: the pins have expired, and the policy refuses the host after that.
        case pinSetExpiredRefused
        /// Refused: there is no policy for the host.
        case policyMissing
        /// Refused: the host is not a valid host name.
        case invalidHost
        /// Refused: the chain is empty, too long, or not made of certificates.
        case invalidChain

        /// Whether a decision with this reason trusts the server.
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

    /// The reason for the decision.
    public let reason: Reason
    /// The events of the evaluation, in order.
    public let events: [TrustEvent]
    /// The chain that system trust verified, from the leaf to a root, in DER. Empty without system trust.
    public let verifiedChain: [[UInt8]]

    /// The mistake in the pins that explains why none matched, as one readable line; `nil` if none is known.
    package let mismatchHint: String?

    private let leafKey: PinHash?

    /// Whether the connection may continue.
    public var isTrusted: Bool { reason.isTrusted }

    /// The hashes of the server's keys, as `spki` pins would contain them, the server's own key first. With system
    /// trust, these are the keys of the verified chain; without it, only the key of the server's own certificate. Empty
    /// if that certificate cannot be read.
    public var presentedKeys: [PinHash] {
        guard verifiedChain.isEmpty else {
            return verifiedChain.compactMap { der in
                (try? CertificateFields.keyInfo(of: der)).map { PinHash(sha256Of: $0) }
            }
        }
        return leafKey.map { [$0] } ?? []
    }

    /// The pins that matched, in the policy's order.
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
    /// The reason in one readable line. If no pin matches, it lists the server's keys in the form of pins, so that they
    /// can be compared with the policy. It contains no host names.
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
        case .policyMissing: "the host has no policy, and hosts without one are refused; \(shown)"
        case .invalidHost: "the host name is not valid: \(failure)"
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

    /// The failure text of the last event that has one.
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
