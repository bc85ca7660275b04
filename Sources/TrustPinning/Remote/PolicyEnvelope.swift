// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// Policies with a signature over everything that says what they are for: the app, the environment, the key, a version,
/// and the time of issue and expiry. There is no form without a signature.
///
/// An envelope that was read is not verified yet: that is what ``RemotePolicyVerifier`` does.
public struct PolicyEnvelope: Sendable, Hashable {
    /// How an envelope is signed.
    public enum Algorithm: String, Sendable, Hashable, CaseIterable {
        /// HMAC with SHA-256. Its secret is in every app, so it may only tighten policies.
        case hmacSHA256 = "hmac-sha256"
        /// ECDSA on P-256 with SHA-256; the signature is in DER.
        case ecdsaP256 = "ecdsa-p256-sha256"
        /// ECDSA on P-384 with SHA-384; the signature is in DER.
        case ecdsaP384 = "ecdsa-p384-sha384"
        /// Ed25519.
        case ed25519
    }

    /// How it is signed.
    public let algorithm: Algorithm
    /// The name under which the app knows the key.
    public let keyID: String
    /// The app it is for.
    public let appID: String
    /// The environment it is for.
    public let environment: TrustEnvironment
    /// Counts up with each envelope of an app and environment, from 1.
    public let version: Int64
    /// When it was issued, in seconds since 1970.
    public let issued: Int64
    /// From when it is not accepted any more, in seconds since 1970.
    public let expires: Int64
    /// A set of policies in JSON, exactly as it was signed.
    public let payload: [UInt8]
    /// The signature.
    public let signature: [UInt8]

    /// The longest envelope, in bytes of JSON.
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
            throw EnvelopeError(.malformed, "keyID, appID and environment are not empty")
        }
        guard version >= 1 else { throw EnvelopeError(.malformed, "the version counts from 1") }
        guard issued >= 0, expires > issued else { throw EnvelopeError(.malformed, "it expires before it is issued") }
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

    /// The bytes that are signed: a tag that nothing else begins with, then each field with its length, numbers in
    /// eight bytes, big-endian.
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
    ///   - policies: what they are.
    ///   - appID: the app that they are for.
    ///   - environment: the environment that they are for.
    ///   - keyID: the name that the app knows the key by.
    ///   - version: one more than that of the last envelope for this app and environment.
    ///   - issued: now, to the second.
    ///   - lifetime: how long the envelope is accepted as an update.
    ///   - key: what signs.
    /// - Throws: ``EnvelopeError`` with `malformed` for empty names, a version below 1, or a lifetime of none.
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

/// Why an envelope is not taken. The policies in force stay in force.
public struct EnvelopeError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kinds of reasons.
    public enum Code: String, Sendable, Hashable, CaseIterable {
        /// Not an envelope.
        case malformed
        /// For another app.
        case wrongApp
        /// For another environment.
        case wrongEnvironment
        /// Signed with a key that the app does not know.
        case unknownKey
        /// The key is not one for the algorithm that the envelope states.
        case wrongAlgorithm
        /// The signature is not that of the key over this envelope.
        case badSignature
        /// It says that it was issued in the future.
        case notYetIssued
        /// It has expired.
        case expired
        /// A newer one was accepted before, or the app was built with a higher lowest version.
        case rolledBack
        /// Another one of the same version was accepted before.
        case equivocation
        /// The policies that it holds are not valid.
        case badPolicies
        /// It is signed with HMAC and would accept what is refused now.
        case loosens
        /// What was accepted before cannot be read or written.
        case storeFailed
        /// It could not be fetched.
        case fetchFailed
        /// A key cannot be used.
        case badKey
    }

    /// The kind of reason.
    public let code: Code
    /// The reason, for people.
    public let reason: String

    /// An error; for implementations of stores and transports.
    public init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    /// The reason.
    public var description: String { reason }
}
