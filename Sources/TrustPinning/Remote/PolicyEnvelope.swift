// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// Signed policies. The signature covers the policies, app, environment, key, version, issue time and expiry. An
/// envelope always has a signature.
///
/// Reading an envelope does not verify it; use ``RemotePolicyVerifier``.
public struct PolicyEnvelope: Sendable, Hashable {
    /// A signature algorithm.
    public enum Algorithm: String, Sendable, Hashable, CaseIterable {
        /// HMAC with SHA-256. The secret is in every app, so such an envelope may only tighten policies.
        case hmacSHA256 = "hmac-sha256"
        /// ECDSA on P-256 with SHA-256; the signature is in DER.
        case ecdsaP256 = "ecdsa-p256-sha256"
        /// ECDSA on P-384 with SHA-384; the signature is in DER.
        case ecdsaP384 = "ecdsa-p384-sha384"
        /// Ed25519.
        case ed25519
    }

    /// The signature algorithm.
    public let algorithm: Algorithm
    /// The app's name for the key.
    public let keyID: String
    /// The app that the envelope is for.
    public let appID: String
    /// The environment that the envelope is for.
    public let environment: TrustEnvironment
    /// The version, which increases from 1 with each envelope of an app and environment.
    public let version: Int64
    /// The issue time, in seconds since 1970.
    public let issued: Int64
    /// The time from which the envelope is not accepted, in seconds since 1970.
    public let expires: Int64
    /// The policies in JSON, exactly as signed.
    public let payload: [UInt8]
    /// The signature.
    public let signature: [UInt8]

    /// The maximum size of an envelope, in bytes of JSON.
    public static let maximumSize = JSON.policySize

    /// Reads an envelope from JSON, without verifying it.
    ///
    /// - Throws: ``EnvelopeError`` with `malformed`.
    public init(json: [UInt8]) throws(EnvelopeError) {
        var problems: [PolicyProblem] = []
        do {
            let value = try JSON.read(policy: json)
            guard var fields = PolicyFields(value, at: "", &problems) else { throw PolicyError(problems) }
            fields.version("format")
            let algorithm = fields.text("algorithm").flatMap(Algorithm.init)
            let keyID = fields.text("keyID") ?? ""
            let appID = fields.text("appID") ?? ""
            let environment = fields.text("environment") ?? ""
            let version = fields.integer("version") ?? 0
            let issued = fields.integer("issued")
            let expires = fields.integer("expires")
            let payload = fields.text("payload").flatMap(Self.base64)
            let signature = fields.text("signature").flatMap(Self.base64)
            fields.end()
            guard fields.problems.isEmpty else { throw PolicyError(fields.problems) }
            guard let algorithm else { throw EnvelopeError(.malformed, "the algorithm is missing or unknown") }
            guard let issued, let expires, let payload, let signature else {
                throw EnvelopeError(.malformed, "a time, the payload or the signature is missing or not base64")
            }
            try self.init(
                algorithm: algorithm, keyID: keyID, appID: appID, environment: environment, version: version,
                issued: issued, expires: expires, payload: payload, signature: signature)
        } catch let error as PolicyError {
            throw EnvelopeError(.malformed, error.description)
        } catch let error as EnvelopeError {
            throw error
        } catch { throw EnvelopeError(.malformed, "not an envelope") }
    }

    init(
        algorithm: Algorithm, keyID: String, appID: String, environment: String, version: Int64, issued: Int64,
        expires: Int64, payload: [UInt8], signature: [UInt8]
    ) throws(EnvelopeError) {
        guard !keyID.isEmpty, !appID.isEmpty, !environment.isEmpty else {
            throw EnvelopeError(.malformed, "keyID, appID and environment must not be empty")
        }
        guard version >= 1 else { throw EnvelopeError(.malformed, "the version must be at least 1") }
        guard issued >= 0, expires > issued else {
            throw EnvelopeError(.malformed, "it must expire after it was issued")
        }
        self.algorithm = algorithm
        self.keyID = keyID
        self.appID = appID
        self.environment = TrustEnvironment(rawValue: environment)
        self.version = version
        self.issued = issued
        self.expires = expires
        self.payload = payload
        self.signature = signature
    }

    /// The envelope as JSON.
    public var json: String {
        JSON.object(of: [
            ("format", .integer(1)), ("algorithm", .string(algorithm.rawValue)), ("keyID", .string(keyID)),
            ("appID", .string(appID)), ("environment", .string(environment.rawValue)),
            ("version", .integer(version)), ("issued", .integer(issued)), ("expires", .integer(expires)),
            ("payload", .string(Data(payload).base64EncodedString())),
            ("signature", .string(Data(signature).base64EncodedString())),
        ]).text + "\n"
    }

    /// The signed bytes: a tag that is unique to envelopes, then each text and the payload with its length, and each
    /// number. Lengths and numbers have eight bytes, big-endian.
    public var signedBytes: [UInt8] {
        var bytes = Array("culvert trust policy envelope 1\0".utf8)
        for field in [algorithm.rawValue, appID, environment.rawValue, keyID] { Self.append(Array(field.utf8), &bytes) }
        for number in [version, issued, expires] { Self.append(UInt64(bitPattern: number), &bytes) }
        Self.append(payload, &bytes)
        return bytes
    }

    private static func append(_ number: UInt64, _ bytes: inout [UInt8]) {
        for shift in stride(from: 56, through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(shift)))
        }
    }

    private static func append(_ field: [UInt8], _ bytes: inout [UInt8]) {
        append(UInt64(field.count), &bytes)
        bytes += field
    }

    private static func base64(_ text: String) -> [UInt8]? {
        guard let data = Data(base64Encoded: text), data.base64EncodedString() == text else { return nil }
        return Array(data)
    }

    /// Signs policies.
    ///
    /// - Parameters:
    ///   - policies: The policies to sign.
    ///   - appID: The app that they are for.
    ///   - environment: The environment that they are for.
    ///   - keyID: The app's name for the key.
    ///   - version: The previous version for this app and environment, plus one.
    ///   - issued: The current time; fractions of a second are dropped.
    ///   - lifetime: The time during which apps accept the envelope as an update.
    ///   - key: The signing key.
    /// - Throws: ``EnvelopeError`` with `malformed` for empty names, a version below 1, or a lifetime of zero or less.
    public static func sign(
        _ policies: PolicySet, appID: String, environment: TrustEnvironment, keyID: String, version: Int64,
        issued: Date, lifetime: Duration, with key: PolicySigningKey
    ) throws(EnvelopeError) -> PolicyEnvelope {
        try sign(
            payload: Array(policies.json.utf8), appID: appID, environment: environment, keyID: keyID, version: version,
            issued: Int64(exactly: issued.timeIntervalSince1970.rounded(.down)) ?? -1,
            lifetime: lifetime.components.seconds, with: key)
    }

    package static func sign(
        payload: [UInt8], appID: String, environment: TrustEnvironment, keyID: String, version: Int64, issued: Int64,
        lifetime: Int64, with key: PolicySigningKey
    ) throws(EnvelopeError) -> PolicyEnvelope {
        func envelope(_ signature: [UInt8]) throws(EnvelopeError) -> PolicyEnvelope {
            let (expires, overflows) = issued.addingReportingOverflow(lifetime)
            return try PolicyEnvelope(
                algorithm: key.algorithm, keyID: keyID, appID: appID, environment: environment.rawValue,
                version: version, issued: issued, expires: overflows ? .max : expires, payload: payload,
                signature: signature)
        }
        return try envelope(try key.sign(try envelope([]).signedBytes))
    }
}

/// The error of an envelope that is not accepted. The active policies stay active.
public struct EnvelopeError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kinds of reasons.
    public enum Code: String, Sendable, Hashable, CaseIterable {
        /// The input is not an envelope.
        case malformed
        /// The envelope is for another app.
        case wrongApp
        /// The envelope is for another environment.
        case wrongEnvironment
        /// The envelope is signed with a key that the app does not have.
        case unknownKey
        /// The key is for another algorithm than the envelope states.
        case wrongAlgorithm
        /// The signature is not valid for the key and this envelope.
        case badSignature
        /// The issue time of the envelope is in the future.
        case notYetIssued
        /// The envelope has expired.
        case expired
        /// A newer envelope was accepted before, or the envelope's version is below the minimum version that the app
        /// was built with.
        case rolledBack
        /// Another envelope with the same version was accepted before.
        case equivocation
        /// The policies in the envelope are not valid.
        case badPolicies
        /// The envelope is signed with HMAC and would accept connections that are refused now.
        case loosens
        /// The stored versions or envelopes cannot be read or written.
        case storeFailed
        /// The envelope could not be fetched.
        case fetchFailed
        /// A key cannot be used.
        case badKey
    }

    /// The kind of reason.
    public let code: Code
    /// The readable reason.
    public let reason: String

    /// Creates an error; for implementations of stores and transports.
    public init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    /// The reason.
    public var description: String { reason }
}
