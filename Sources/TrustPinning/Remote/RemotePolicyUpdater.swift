// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// Keeps an evaluator's policies up to date with signed envelopes.
///
/// An envelope is verified, compared with the last accepted one, stored, and then applied immediately. If any step
/// fails, the active policies stay active.
public actor RemotePolicyUpdater {
    /// The result of an update.
    public enum Outcome: Sendable, Hashable {
        /// The envelope's policies were applied.
        case applied(version: Int64)
        /// The envelope was already active.
        case unchanged
    }

    private let evaluator: TrustEvaluator
    private let verifier: RemotePolicyVerifier
    private let store: any RemotePolicyStore
    private let transport: (any EnvelopeTransport)?
    private let name: String
    /// The active envelopes: the last one with a public-key signature, if there is one, followed by an HMAC envelope
    /// that tightens it, if there is one.
    private var current: [VerifiedPolicies] = []
    private var isRestored = false

    /// The maximum number of attempts to store an envelope while other processes change the store.
    private static let maximumRounds = 8

    /// Creates an updater for the verifier's environment.
    ///
    /// - Parameters:
    ///   - evaluator: The evaluator to update, with the built-in policies.
    ///   - verifier: The verifier of envelopes.
    ///   - store: The store of accepted envelopes.
    ///   - transport: The transport that fetches envelopes, or `nil` if the app only calls ``apply(_:at:)``.
    public init(
        evaluator: TrustEvaluator, verifier: RemotePolicyVerifier, store: any RemotePolicyStore,
        transport: (any EnvelopeTransport)? = nil
    ) {
        self.evaluator = evaluator
        self.verifier = verifier
        self.store = store
        self.transport = transport
        name = "\(verifier.appID)/\(verifier.environment)"
    }

    /// Applies the stored envelopes, which were active when the app last ran. They are verified like new ones, except
    /// for their expiry. Otherwise, an app that cannot fetch newer policies would return to older ones.
    ///
    /// - Returns: The active version, or `nil` if none was accepted yet.
    /// - Throws: ``EnvelopeError``; the active policies then stay active: at the start, the built-in ones. If only an
    ///   envelope with HMAC can no longer be verified because its key was removed, the envelope that it tightened is
    ///   applied.
    @discardableResult
    public func restore() throws(EnvelopeError) -> Int64? {
        let accepted = try acceptedVersion()
        var found: [VerifiedPolicies] = []
        var policies = evaluator.configuration.environments[verifier.environment]
        for bytes in try stored({ try store.envelopes(name) }) {
            let envelope = try PolicyEnvelope(json: bytes)
            let verified: VerifiedPolicies
            do throws(EnvelopeError) { verified = try verifier.verify(envelope, at: nil) } catch {
                try activate(found, without: envelope, accepted)
                throw error
            }
            try checkTightening(verified, of: policies)
            policies = verified.policies
            found.append(verified)
        }
        guard let last = found.last else {
            guard let accepted else {
                isRestored = true
                // The store was removed while the app runs: keep the policies that are in effect.
                return current.last?.envelope.version
            }
            throw EnvelopeError(.storeFailed, "version \(accepted.version) was accepted, but is missing from the store")
        }
        try checkVersion(of: last.envelope, accepted: accepted)
        // Store the version if the process ended between the writes of envelopes and version.
        if accepted?.version != last.envelope.version { try storeVersion(of: last.envelope) }
        activate(found)
        return last.envelope.version
    }

    /// Fetches the current envelope and applies it.
    ///
    /// - Throws: ``EnvelopeError``; the active policies then stay active.
    @discardableResult
    public func update(at date: Date = Date()) async throws(EnvelopeError) -> Outcome {
        guard let transport else { throw EnvelopeError(.fetchFailed, "the updater has no transport") }
        let bytes: [UInt8]
        do { bytes = try await transport.fetch() } catch {
            throw EnvelopeError(.fetchFailed, "cannot fetch the envelope: \(error)")
        }
        return try apply(bytes, at: date)
    }

    /// Applies an envelope.
    ///
    /// - Throws: ``EnvelopeError``; the active policies then stay active.
    public func apply(_ json: [UInt8], at date: Date = Date()) throws(EnvelopeError) -> Outcome {
        let verified = try verifier.verify(try PolicyEnvelope(json: json), at: date)
        // Repeat if another process has accepted a version since the comparison.
        for _ in 0..<Self.maximumRounds {
            if let outcome = try apply(verified) { return outcome }
        }
        throw EnvelopeError(.storeFailed, "other processes keep changing the store")
    }

    /// Applies an envelope. Returns `nil`, with nothing changed, if the store has changed since the envelope was
    /// compared.
    private func apply(_ verified: VerifiedPolicies) throws(EnvelopeError) -> Outcome? {
        let envelope = verified.envelope
        let found = try acceptedVersion()
        if found != active { isRestored = false }
        try restoreIfNeeded(for: verified)
        let accepted = try acceptedVersion()
        guard accepted == found || accepted == active else { return nil }
        try checkVersion(of: envelope, accepted: accepted)
        if let accepted {
            if accepted.version == envelope.version, current.last?.envelope.version == envelope.version {
                return .unchanged
            }
        }
        try checkTightening(verified, of: evaluator.configuration.environments[verifier.environment])
        var next = [verified]
        if verified.mayOnlyTighten, let base = current.first, !base.mayOnlyTighten { next.insert(base, at: 0) }
        let isStored = try stored {
            try store.replaceEnvelopes(
                with: Self.bytes(next), accepting: Self.accepted(envelope), insteadOf: accepted, name)
        }
        guard isStored else { return nil }
        activate(next)
        return .applied(version: envelope.version)
    }

    /// Restores the stored envelopes before an HMAC envelope is compared with the active ones. Otherwise, it could
    /// replace stored envelopes with which it was never compared. If the stored envelopes cannot be applied because
    /// their key or version is no longer supported, the HMAC envelope is compared with the active policies. If they
    /// cannot be read, no HMAC envelope is accepted.
    private func restoreIfNeeded(for verified: VerifiedPolicies) throws(EnvelopeError) {
        if verified.mayOnlyTighten {
            // Compare the envelopes too: another process may have ended before it stored their version.
            let inStore = try stored { try store.envelopes(name) }
            if inStore != Self.bytes(current) { isRestored = false }
        }
        guard !isRestored else { return }
        do throws(EnvelopeError) { try restore() } catch {
            if verified.mayOnlyTighten, error.code == .storeFailed || error.code == .malformed { throw error }
        }
    }

    /// If an HMAC envelope can no longer be verified, applies the envelope that it tightened. The stored version and
    /// digest must be those of the HMAC envelope, so that restored older files do not count.
    private func activate(
        _ found: [VerifiedPolicies], without envelope: PolicyEnvelope, _ accepted: AcceptedVersion?
    ) throws(EnvelopeError) {
        guard envelope.algorithm == .hmacSHA256 else { return }
        try checkVersion(of: envelope, accepted: accepted)
        activate(found)
    }

    private func activate(_ next: [VerifiedPolicies]) {
        guard let last = next.last else { return }
        isRestored = true
        current = next
        evaluator.update(last.policies, for: verifier.environment)
        for verified in next {
            evaluator.recordIssueTime(
                Date(timeIntervalSince1970: Double(verified.envelope.issued)),
                isShared: verified.mayOnlyTighten)
        }
    }

    /// Compares an envelope with the stored version and with the active version: while the app runs, the store may have
    /// been removed, or replaced by an older copy.
    private func checkVersion(of envelope: PolicyEnvelope, accepted: AcceptedVersion?) throws(EnvelopeError) {
        if let accepted { try check(envelope, against: accepted) }
        if let active { try check(envelope, against: active) }
    }

    private func check(_ envelope: PolicyEnvelope, against accepted: AcceptedVersion) throws(EnvelopeError) {
        guard envelope.version >= accepted.version else {
            throw EnvelopeError(
                .rolledBack, "version \(envelope.version) is older than \(accepted.version), which was accepted before")
        }
        guard envelope.version > accepted.version || Self.digest(envelope) == accepted.digest else {
            throw EnvelopeError(.equivocation, "another envelope of version \(envelope.version) was accepted before")
        }
    }

    private func checkTightening(_ verified: VerifiedPolicies, of policies: PolicySet?) throws(EnvelopeError) {
        guard verified.mayOnlyTighten else { return }
        let loosened = verified.policies.loosenings(comparedTo: policies ?? .refusingAll)
        guard loosened.isEmpty else {
            let hosts = loosened.prefix(5).joined(separator: ", ")
            throw EnvelopeError(
                .loosens, "an envelope with HMAC must not loosen policies, but loosens those of \(hosts)")
        }
    }

    private func acceptedVersion() throws(EnvelopeError) -> AcceptedVersion? {
        try stored { try store.acceptedVersion(name) }
    }

    private func storeVersion(of envelope: PolicyEnvelope) throws(EnvelopeError) {
        try stored { try store.setAcceptedVersion(Self.accepted(envelope), name) }
    }

    private func stored<Value>(_ access: () throws -> Value) throws(EnvelopeError) -> Value {
        do { return try access() } catch let error as EnvelopeError { throw error } catch {
            throw EnvelopeError(.storeFailed, "cannot read or write the stored policies: \(error)")
        }
    }

    /// The version of the active envelope in this process.
    private var active: AcceptedVersion? { current.last.map { Self.accepted($0.envelope) } }

    private static func accepted(_ envelope: PolicyEnvelope) -> AcceptedVersion {
        AcceptedVersion(version: envelope.version, digest: digest(envelope))
    }

    private static func bytes(_ policies: [VerifiedPolicies]) -> [[UInt8]] {
        policies.map { Array($0.envelope.json.utf8) }
    }

    private static func digest(_ envelope: PolicyEnvelope) -> PinHash { PinHash(sha256Of: envelope.signedBytes) }
}
