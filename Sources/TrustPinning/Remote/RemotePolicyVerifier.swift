// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// Policies from an envelope with a verified signature.
public struct VerifiedPolicies: Sendable, Hashable {
    /// The envelope with the policies.
    public let envelope: PolicyEnvelope
    /// The policies.
    public let policies: PolicySet

    /// Whether they may only tighten the active policies, because the secret that signed them is in every app.
    public var mayOnlyTighten: Bool { envelope.algorithm == .hmacSHA256 }
}

/// Verifies envelopes for one app and environment.
public struct RemotePolicyVerifier: Sendable {
    /// The app that envelopes must be for.
    public let appID: String
    /// The environment that envelopes must be for.
    public let environment: TrustEnvironment
    /// The lowest accepted version. Set it to the version of the built-in policies, so that a new installation never
    /// accepts older ones.
    public let lowestVersion: Int64
    private let keys: [String: PolicyVerificationKey]
    private let requiresLowS: Bool
    private let clockTolerance: Duration

    /// Creates a verifier.
    ///
    /// - Parameters:
    ///   - appID: The app whose envelopes are accepted.
    ///   - environment: The environment whose envelopes are accepted.
    ///   - keys: The keys that are built into the app, by name.
    ///   - lowestVersion: The lowest accepted version.
    ///   - requiresLowS: Whether ECDSA signatures must have the lower of the two valid values of s.
    ///     ``PolicyEnvelope/sign(_:appID:environment:keyID:version:issued:lifetime:with:)`` always produces it; other
    ///     tools produce it in half of the cases. Verification is secure with both values.
    ///   - clockTolerance: The maximum time by which the issue time may be in the future.
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

    /// Verifies an envelope: app, environment, key, signature, version, times, and then its policies.
    ///
    /// - Parameters:
    ///   - envelope: The envelope.
    ///   - date: The current time, or `nil` to skip the times of an envelope that was accepted before.
    /// - Throws: ``EnvelopeError``.
    public func verify(_ envelope: PolicyEnvelope, at date: Date?) throws(EnvelopeError) -> VerifiedPolicies {
        guard envelope.appID == appID else { throw EnvelopeError(.wrongApp, "the envelope is for another app") }
        guard envelope.environment == environment else {
            throw EnvelopeError(.wrongEnvironment, "the envelope is for the environment \(envelope.environment)")
        }
        guard let key = keys[envelope.keyID] else {
            throw EnvelopeError(.unknownKey, "the app has no key with the envelope's keyID")
        }
        guard key.algorithm == envelope.algorithm else {
            throw EnvelopeError(
                .wrongAlgorithm, "the key is for \(key.algorithm.rawValue), not for \(envelope.algorithm.rawValue)")
        }
        guard key.isValid(envelope.signature, for: envelope.signedBytes, requiresLowS: requiresLowS) else {
            throw EnvelopeError(.badSignature, "the signature is not valid for the key and this envelope")
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
