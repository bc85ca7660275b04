// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import TrustPinningTesting

@testable import TrustPinning

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The keys of a publisher, and envelopes that it signs.
struct Publisher {
    static let secret = [UInt8](0..<32)

    static func key(_ algorithm: PolicyEnvelope.Algorithm, _ name: String = "publisher") throws -> PolicySigningKey {
        switch algorithm {
        case .hmacSHA256: try PolicySigningKey(hmacSecret: secret)
        case .ecdsaP256: try PolicySigningKey(pem: TestKey(.p256, name).pem)
        case .ecdsaP384: try PolicySigningKey(pem: TestKey(.p384, name).pem)
        case .ed25519: try PolicySigningKey(pem: TestKey(.ed25519, name).pem)
        }
    }

    static func verificationKey(_ algorithm: PolicyEnvelope.Algorithm) throws -> PolicyVerificationKey {
        switch algorithm {
        case .hmacSHA256: try PolicyVerificationKey(hmacSecret: secret)
        case .ecdsaP256: try PolicyVerificationKey(der: TestKey(.p256, "publisher").subjectPublicKeyInfo)
        case .ecdsaP384: try PolicyVerificationKey(der: TestKey(.p384, "publisher").subjectPublicKeyInfo)
        case .ed25519: try PolicyVerificationKey(der: TestKey(.ed25519, "publisher").subjectPublicKeyInfo)
        }
    }

    /// A verifier with one key for each algorithm, named after it.
    static func verifier(
        lowestVersion: Int64 = 1, requiresLowS: Bool = false, environment: TrustEnvironment = .production
    ) throws -> RemotePolicyVerifier {
        RemotePolicyVerifier(
            appID: "com.example.app", environment: environment, keys: try keys.get(), lowestVersion: lowestVersion,
            requiresLowS: requiresLowS)
    }

    /// Created once: deriving keys takes longer than verifying with them.
    private static let keys = Result {
        var keys: [String: PolicyVerificationKey] = [:]
        for algorithm in PolicyEnvelope.Algorithm.allCases {
            keys[algorithm.rawValue] = try verificationKey(algorithm)
        }
        return keys
    }

    /// An envelope that is issued today and valid for a week.
    static func envelope(
        _ policies: PolicySet, version: Int64 = 1, _ algorithm: PolicyEnvelope.Algorithm = .ed25519,
        appID: String = "com.example.app", environment: TrustEnvironment = .production, issued: TestDate = .today
    ) throws -> PolicyEnvelope {
        try PolicyEnvelope.sign(
            policies, appID: appID, environment: environment, keyID: algorithm.rawValue, version: version,
            issued: issued.date, lifetime: .seconds(7 * 86_400), with: key(algorithm))
    }

    /// One strict policy for `www.example.com`, with pins that are unique to `name`.
    static func policies(_ name: String, unlisted: UnlistedHosts = .systemTrust) throws -> PolicySet {
        let policy = try PinningPolicy(pins: [.of(TestKey(.ed25519, name).pin), .spare()])
        return try PolicySet([HostPolicy(.exact("www.example.com"), policy)], unlisted: unlisted)
    }
}

/// A store whose writes fail if the test requests it.
final class MemoryStore: RemotePolicyStore {
    struct Failure: Error {}

    struct State {
        var version: AcceptedVersion?
        var envelopes: [[UInt8]] = []
        var failsToRead = false
        var failsToReadEnvelopes = false
        var failsToWriteVersions = false
        var failsToWriteEnvelopes = false
    }

    let state = Mutex(State())

    func acceptedVersion(_ name: String) throws -> AcceptedVersion? {
        try state.withLock { state in
            if state.failsToRead { throw Failure() }
            return state.version
        }
    }

    func setAcceptedVersion(_ version: AcceptedVersion, _ name: String) throws {
        try state.withLock { state in
            if state.failsToWriteVersions { throw Failure() }
            state.version = version
        }
    }

    func envelopes(_ name: String) throws -> [[UInt8]] {
        try state.withLock { state in
            if state.failsToReadEnvelopes { throw Failure() }
            return state.envelopes
        }
    }

    func setEnvelopes(_ envelopes: [[UInt8]], _ name: String) throws {
        try state.withLock { state in
            if state.failsToWriteEnvelopes { throw Failure() }
            state.envelopes = envelopes
        }
    }

    func replaceEnvelopes(
        with envelopes: [[UInt8]], accepting version: AcceptedVersion, insteadOf previous: AcceptedVersion?,
        _ name: String
    ) throws -> Bool {
        guard try acceptedVersion(name) == previous else { return false }
        try setEnvelopes(envelopes, name)
        try setAcceptedVersion(version, name)
        return true
    }
}

extension PolicyEnvelope {
    var bytes: [UInt8] { Array(json.utf8) }

    /// Returns a copy with some changed fields and the original signature.
    func changed(
        algorithm: Algorithm? = nil, keyID: String? = nil, appID: String? = nil, environment: String? = nil,
        version: Int64? = nil, issued: Int64? = nil, expires: Int64? = nil, payload: [UInt8]? = nil,
        signature: [UInt8]? = nil
    ) throws -> PolicyEnvelope {
        try PolicyEnvelope(
            algorithm: algorithm ?? self.algorithm, keyID: keyID ?? self.keyID, appID: appID ?? self.appID,
            environment: environment ?? self.environment.rawValue, version: version ?? self.version,
            issued: issued ?? self.issued, expires: expires ?? self.expires, payload: payload ?? self.payload,
            signature: signature ?? self.signature)
    }
}
