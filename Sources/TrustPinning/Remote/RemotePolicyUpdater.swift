// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// Keeps an evaluator's policies up to date with signed envelopes.
///
/// An envelope is verified, compared with what was accepted before, kept, and then put in force at once. Whatever is wrong
/// with it, the policies that are in force stay in force.
public actor RemotePolicyUpdater {
    /// What became of an envelope.
    public enum Outcome: Sendable, Hashable {
        /// Its policies are in force.
        case applied(version: Int64)
        /// It is the one that is in force.
        case unchanged
    }

    private let evaluator: TrustEvaluator
    private let verifier: RemotePolicyVerifier
    private let store: any RemotePolicyStore
    private let transport: (any EnvelopeTransport)?
    private let name: String
    /// What is in force: one with a public-key signature, if there was one, and what tightened it since.
    private var current: [VerifiedPolicies] = []
    private var isRestored = false

    /// How often an envelope is compared anew, because another process was faster.
    private static let maximumRounds = 8

    /// An updater for the verifier's environment.
    ///
    /// - Parameters:
    ///   - evaluator: has the policies that are built in.
    ///   - verifier: says what is accepted.
    ///   - store: keeps what was accepted.
    ///   - transport: fetches envelopes; nil if others bring them.
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

    /// Puts in force again what was in force when the app last ran. It is verified as if it were new, but for its expiry:
    /// policies do not fall back to older ones because no newer ones could be fetched.
    ///
    /// - Returns: the version that is in force; nil if none was accepted yet.
    /// - Throws: ``EnvelopeError``; what was in force stays in force then: the policies that are built in, at the start. If
    ///   only an envelope with HMAC cannot be verified any more, as its key is gone, the one that it tightened is in force.
    @discardableResult
    public func restore() throws(EnvelopeError) -> Int64? {
        let accepted = try acceptedVersion()
        var found: [VerifiedPolicies] = []
        var policies = evaluator.configuration.environments[verifier.environment]
        for bytes in try stored({ try store.envelopes(name) }) {
            let envelope = try PolicyEnvelope(json: bytes)
            let verified: VerifiedPolicies
            do throws(EnvelopeError) { verified = try verifier.verify(envelope, at: nil) } catch {
                try putInForce(found, without: envelope, accepted)
                throw error
            }
            try checkTightening(verified, of: policies)
            policies = verified.policies
            found.append(verified)
        }
        guard let last = found.last else {
            guard let accepted else {
                isRestored = true
                // If the store was removed while the app runs, the policies in effect stay in effect.
                return current.last?.envelope.version
            }
            throw EnvelopeError(.storeFailed, "version \(accepted.version) was accepted, but is not there any more")
        }
        try checkVersion(of: last.envelope, accepted: accepted)
        // A crash may have come between the two writes.
        if accepted?.version != last.envelope.version { try keepVersion(of: last.envelope) }
        putInForce(found)
        return last.envelope.version
    }

    /// Fetches the current envelope and puts it in force.
    ///
    /// - Throws: ``EnvelopeError``; what is in force stays in force then.
    @discardableResult
    public func update(at date: Date = Date()) async throws(EnvelopeError) -> Outcome {
        guard let transport else { throw EnvelopeError(.fetchFailed, "there is nothing to fetch with") }
        let bytes: [UInt8]
        do { bytes = try await transport.fetch() } catch {
            throw EnvelopeError(.fetchFailed, "the envelope could not be fetched: \(error)")
        }
        return try apply(bytes, at: date)
    }

    /// Puts an envelope in force.
    ///
    /// - Throws: ``EnvelopeError``; what is in force stays in force then.
    public func apply(_ json: [UInt8], at date: Date = Date()) throws(EnvelopeError) -> Outcome {
        let verified = try verifier.verify(try PolicyEnvelope(json: json), at: date)
        // Each further round is for a version that another process has accepted since the last one.
        for _ in 0..<Self.maximumRounds {
            if let outcome = try apply(verified) { return outcome }
        }
        throw EnvelopeError(.storeFailed, "what was accepted before changes all the time")
    }

    /// Puts an envelope in force; nil, with nothing done, if the store has changed since it was looked at.
    private func apply(_ verified: VerifiedPolicies) throws(EnvelopeError) -> Outcome? {
        let envelope = verified.envelope
        let found = try acceptedVersion()
        if found != inForce { isRestored = false }
        try restoreIfNeeded(for: verified)
        let accepted = try acceptedVersion()
        guard accepted == found || accepted == inForce else { return nil }
        try checkVersion(of: envelope, accepted: accepted)
        if let accepted {
            if accepted.version == envelope.version, current.last?.envelope.version == envelope.version {
                return .unchanged
            }
        }
        try checkTightening(verified, of: evaluator.configuration.environments[verifier.environment])
        var next = [verified]
        if verified.mayOnlyTighten, let base = current.first, !base.mayOnlyTighten { next.insert(base, at: 0) }
        let isKept = try stored {
            try store.replaceEnvelopes(
                with: Self.bytes(next), accepting: Self.accepted(envelope), insteadOf: accepted, name)
        }
        guard isKept else { return nil }
        putInForce(next)
        return .applied(version: envelope.version)
    }

    /// What may only tighten is compared with what was in force when the app last ran, or what another process put in force
    /// since, too: else it would replace that. Where that cannot be put in force any more, for its key or version belong to
    /// the app's past, what is in force counts; where it cannot be read, nothing that may only tighten is accepted.
    private func restoreIfNeeded(for verified: VerifiedPolicies) throws(EnvelopeError) {
        if verified.mayOnlyTighten {
            // The envelopes, too: another process may have ended before it kept their version.
            let kept = try stored { try store.envelopes(name) }
            if kept != Self.bytes(current) { isRestored = false }
        }
        guard !isRestored else { return }
        do throws(EnvelopeError) { try restore() } catch {
            if verified.mayOnlyTighten, error.code == .storeFailed || error.code == .malformed { throw error }
        }
    }

    /// Puts in force what an envelope tightened that cannot be verified any more. That one is known by its digest: older
    /// files that somebody put back are not meant.
    private func putInForce(
        _ found: [VerifiedPolicies], without envelope: PolicyEnvelope, _ accepted: AcceptedVersion?
    ) throws(EnvelopeError) {
        guard envelope.algorithm == .hmacSHA256 else { return }
        try checkVersion(of: envelope, accepted: accepted)
        putInForce(found)
    }

    private func putInForce(_ next: [VerifiedPolicies]) {
        guard let last = next.last else { return }
        isRestored = true
        current = next
        evaluator.update(last.policies, for: verifier.environment)
        for verified in next {
            evaluator.learn(
                issueTime: Date(timeIntervalSince1970: Double(verified.envelope.issued)),
                isShared: verified.mayOnlyTighten)
        }
    }

    /// Compares an envelope with the stored version and with the version in effect: the store may have been removed, or put
    /// back from an older copy, while the app runs.
    private func checkVersion(of envelope: PolicyEnvelope, accepted: AcceptedVersion?) throws(EnvelopeError) {
        if let accepted { try check(envelope, against: accepted) }
        if let inForce { try check(envelope, against: inForce) }
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
                .loosens, "signed with HMAC, it may only tighten policies; it loosens those of \(hosts)")
        }
    }

    private func acceptedVersion() throws(EnvelopeError) -> AcceptedVersion? {
        try stored { try store.acceptedVersion(name) }
    }

    private func keepVersion(of envelope: PolicyEnvelope) throws(EnvelopeError) {
        try stored { try store.setAcceptedVersion(Self.accepted(envelope), name) }
    }

    private func stored<Value>(_ access: () throws -> Value) throws(EnvelopeError) -> Value {
        do { return try access() } catch let error as EnvelopeError { throw error } catch {
            throw EnvelopeError(.storeFailed, "what was accepted before cannot be read or written: \(error)")
        }
    }

    /// The version that is in force, by what this process knows.
    private var inForce: AcceptedVersion? { current.last.map { Self.accepted($0.envelope) } }

    private static func accepted(_ envelope: PolicyEnvelope) -> AcceptedVersion {
        AcceptedVersion(version: envelope.version, digest: digest(envelope))
    }

    private static func bytes(_ policies: [VerifiedPolicies]) -> [[UInt8]] {
        policies.map { Array($0.envelope.json.utf8) }
    }

    private static func digest(_ envelope: PolicyEnvelope) -> PinHash { PinHash(sha256Of: envelope.signedBytes) }
}
