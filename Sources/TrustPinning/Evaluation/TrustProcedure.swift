// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// Makes the decision after the chain was verified. The decision depends only on the properties of this value: it uses
/// neither a clock nor a lock.
///
/// The steps are numbered as in docs/trust-pinning.md. Steps 1 (host and policy) and 2 (system trust) come before it.
struct TrustProcedure {
    let leaf: CertificateFields
    let presentedCount: Int
    let host: HostName
    /// Seconds since 1970.
    let date: Int64
    let expiryDate: Date
    private var events: [TrustEvent] = []
    private var verified: [[UInt8]] = []
    private var hint: String?

    init(leaf: CertificateFields, presentedCount: Int, host: HostName, date: Int64, expiryDate: Date) {
        self.leaf = leaf
        self.presentedCount = presentedCount
        self.host = host
        self.date = date
        self.expiryDate = expiryDate
    }

    mutating func decide(_ rule: PolicySet.Rule, _ result: SystemTrustResult) -> TrustDecision {
        var result = result
        // A verified chain of another leaf does not prove that this server is trusted.
        if case .trusted(let chain) = result, chain.first != leaf.der {
            result = .untrusted(SystemTrustFailure(.other, "the chain that was verified is not the server's"))
        }
        // Step 2
        switch result {
        case .trusted(let chain):
            verified = chain
            events.append(.systemTrustEvaluated(isTrusted: true))
        case .untrusted: events.append(.systemTrustEvaluated(isTrusted: false))
        }
        switch rule {
        case .missing: return end(.policyMissing, .policyMissing)
        case .systemTrust:
            guard case .untrusted(let failure) = result else { return end(.systemTrustAllowed) }
            return end(.trustFailed, .systemTrustFailed(failure))
        case .pinned(let policy, _): return decide(policy, result)
        }
    }

    private mutating func decide(_ policy: PinningPolicy, _ result: SystemTrustResult) -> TrustDecision {
        var isTrusted = true
        if case .untrusted(let failure) = result {
            isTrusted = false
            if policy.requiresSystemTrust {
                // Steps 3 and 4. A permissive policy tolerates pin mismatches, never an untrusted chain.
                let isPermissive = policy.mode == .permissive
                return end(
                    .trustFailed, isPermissive ? .systemTrustFailedPermissive(failure) : .systemTrustFailed(failure))
            }
            // Check the leaf as system trust would have done.
            if let failure = ServerIdentity.failure(of: leaf, host: host, at: date) {
                return end(.trustFailed, .systemTrustFailed(failure))
            }
        }

        // Step 5. If the chain is untrusted, only the leaf is compared, because nothing proves that the other
        // certificates signed it.
        guard let matcher = isTrusted ? PinMatcher(chain: verified) : PinMatcher(leafOnly: leaf) else {
            return end(.invalidChain, .chainRefused("a certificate of the verified chain cannot be read"))
        }
        events.append(.chainSummary(ChainSummary(leaf: leaf, count: isTrusted ? verified.count : presentedCount)))

        // Expired pins are not compared.
        if let expiry = policy.expiry, expiryDate >= expiry.date {
            events.append(.pinSetExpired(expiry.date))
            if expiry.afterwards == .refuse { return end(.pinSetExpiredRefused) }
            if case .untrusted(let failure) = result { return end(.trustFailed, .systemTrustFailed(failure)) }
            return end(.pinSetExpired)
        }

        // Steps 6 and 7
        if policy.pins.isEmpty { events.append(.pinSetEmpty) }
        let matches = matcher.matches(of: policy.pins)
        if !matches.isEmpty {
            events.append(.pinMatched(matches))
            if matches.allSatisfy({ $0.role == .backup }) { events.append(.onlyBackupMatched) }
            return end(isTrusted ? .pinMatch : .leafPinMatchWithoutSystemTrust)
        }

        hint = matcher.carriedOverHint(policy.pins)

        // Steps 8 to 10
        guard isTrusted else { return end(.pinningFailed, .pinMismatch) }
        if policy.allowsSystemTrustFallback { return end(.pinMismatchAllowedByFallback, .pinMismatchAllowedByFallback) }
        switch policy.mode {
        case .permissive: return end(.pinMismatchPermissive, .pinMismatchPermissive)
        case .audit: return end(.pinMismatchAudited, .pinMismatchAudited)
        case .strict: return end(.pinningFailed, .pinMismatch)
        }
    }

    private func end(_ reason: TrustDecision.Reason, _ event: TrustEvent? = nil) -> TrustDecision {
        TrustDecision(
            reason, events + (event.map { [$0] } ?? []), leafKey: leaf.keyHash, verifiedChain: verified,
            mismatchHint: hint)
    }
}

/// Compares pins with the certificates of a chain.
struct PinMatcher {
    private struct Candidate {
        let isLeaf: Bool
        let isRoot: Bool
        let keyHash: PinHash
        let certificateHash: PinHash
    }

    private let candidates: [Candidate]

    /// Reads the certificates of a verified chain. Returns `nil` if the chain is empty or one of them cannot be read.
    init?(chain: [[UInt8]]) {
        guard !chain.isEmpty else { return nil }
        var candidates: [Candidate] = []
        for (index, der) in chain.enumerated() {
            guard let keyInfo = try? CertificateFields.keyInfo(of: der) else { return nil }
            candidates.append(
                Candidate(
                    isLeaf: index == 0, isRoot: index > 0 && index == chain.count - 1,
                    keyHash: PinHash(sha256Of: keyInfo), certificateHash: PinHash(sha256Of: der)))
        }
        self.candidates = candidates
    }

    /// Uses a leaf without a verified chain.
    init?(leafOnly leaf: CertificateFields) {
        candidates = [
            Candidate(isLeaf: true, isRoot: false, keyHash: leaf.keyHash, certificateHash: leaf.certificateHash)
        ]
    }

    /// Returns the pins that match a certificate, in the order of `pins`.
    func matches(of pins: [Pin]) -> [Pin] {
        pins.filter { pin in candidates.contains { Self.matches(pin, $0) } }
    }

    /// See ``Pin/carriedOverHint(_:issuers:)``.
    func carriedOverHint(_ pins: [Pin]) -> String? {
        Pin.carriedOverHint(pins, issuers: candidates.filter { !$0.isLeaf }.map { ($0.keyHash, $0.certificateHash) })
    }

    private static func matches(_ pin: Pin, _ candidate: Candidate) -> Bool {
        switch pin.scope {
        case .leaf: guard candidate.isLeaf else { return false }
        case .intermediate: guard !candidate.isLeaf, !candidate.isRoot else { return false }
        case .root: guard candidate.isRoot else { return false }
        case .any: break
        }
        return switch pin.kind {
        case .spki: candidate.keyHash == pin.hash
        case .certificate: candidate.certificateHash == pin.hash
        case .ca: !candidate.isLeaf && candidate.keyHash == pin.hash
        }
    }
}
