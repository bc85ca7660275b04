// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// Policies whose signature was verified.
public struct VerifiedPolicies: Sendable, Hashable {
    /// The envelope they came in.
    public let envelope: PolicyEnvelope
    /// The policies.
    public let policies: PolicySet

    /// Whether they may only tighten those that are in force: the secret that signed them is no secret of the publisher.
    public var mayOnlyTighten: Bool { envelope.algorithm == .hmacSHA256 }
}

/// Verifies envelopes for one app and environment.
public struct RemotePolicyVerifier: Sendable {
    /// The app that envelopes have to be for.
    public let appID: String
    /// The environment that they have to be for.
    public let environment: TrustEnvironment
    /// The lowest version that is accepted: that of the policies which are built in, so that a fresh install cannot be
    /// brought back to anything older.
    public let lowestVersion: Int64
    private let keys: [String: PolicyVerificationKey]
    private let requiresLowS: Bool
    private let clockTolerance: Duration

    /// A verifier.
    ///
    /// - Parameters:
    ///   - appID: the app whose envelopes are accepted.
    ///   - environment: the environment whose envelopes are accepted.
    ///   - keys: the keys that the app was built with, by name.
    ///   - lowestVersion: the lowest version that is accepted.
    ///   - requiresLowS: whether ECDSA signatures have to be in the lower of their two forms, as
    ///     ``PolicyEnvelope/sign(_:appID:environment:keyID:version:issued:lifetime:with:)`` makes them and half of those of
    ///     other tools are. Nothing here depends on there being one form only.
    ///   - clockTolerance: how far in the future the time of issue may be.
    public init(
        appID: String, environment: TrustEnvironment = .production, keys: [String: PolicyVerificationKey],
        lowestVersion: Int64 = 1, requiresLowS: Bool = false, clockTolerance: Duration = .seconds(300)
    ) {
        self.appID = appID
        self.environment = environment
        self.keys = keys
        self.lowestVersion = lowestVersion
        self.requiresLowS = requiresLowS
        self.clockTolerance = clockTolerance
    }

    /// Verifies an envelope: app, environment, key, signature, version, times, and then what it holds.
    ///
    /// - Parameters:
    ///   - envelope: what to verify.
    ///   - date: now; nil for an envelope that was accepted before, whose times do not matter any more.
    /// - Throws: ``EnvelopeError``.
    public func verify(_ envelope: PolicyEnvelope, at date: Date?) throws(EnvelopeError) -> VerifiedPolicies {
        guard envelope.appID == appID else { throw EnvelopeError(.wrongApp, "the envelope is for another app") }
        guard envelope.environment == environment else {
            throw EnvelopeError(.wrongEnvironment, "the envelope is for the environment \(envelope.environment)")
        }
        guard let key = keys[envelope.keyID] else {
            throw EnvelopeError(.unknownKey, "the app does not know the key that the envelope names")
        }
        guard key.algorithm == envelope.algorithm else {
            throw EnvelopeError(.wrongAlgorithm, "the key is for \(key.algorithm.rawValue), not what the envelope says")
        }
        guard key.isValid(envelope.signature, for: envelope.signedBytes, requiresLowS: requiresLowS) else {
            throw EnvelopeError(.badSignature, "the signature is not that of the key over this envelope")
        }
        guard envelope.version >= lowestVersion else {
            throw EnvelopeError(.rolledBack, "version \(envelope.version) is below \(lowestVersion)")
        }
        if let date { try checkTimes(of: envelope, at: date.timeIntervalSince1970) }
        do {
            return VerifiedPolicies(envelope: envelope, policies: try PolicySet(json: envelope.payload))
        } catch { throw EnvelopeError(.badPolicies, error.description) }
    }

    private func checkTimes(of envelope: PolicyEnvelope, at now: Double) throws(EnvelopeError) {
        let (seconds, attoseconds) = clockTolerance.components
        guard Double(envelope.issued) <= now + Double(seconds) + Double(attoseconds) / 1e18 else {
            throw EnvelopeError(.notYetIssued, "the envelope was issued in the future, or the clock is wrong")
        }
        guard Double(envelope.expires) > now else { throw EnvelopeError(.expired, "the envelope has expired") }
    }
}
