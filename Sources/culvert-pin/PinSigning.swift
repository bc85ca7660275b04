// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import Crypto
import FoundationEssentials
import TrustPinning
import TunnelSystem

/// Runs `culvert pin keygen`, `sign` and `verify`: signed policies for remote configuration. Functions return the exit
/// status.
struct PinSigning: Sendable {
    var environment: PinEnvironment
    var json = false

    private var console: Console { environment.console }

    /// The PEM label of a shared secret in a file.
    static let secretLabel = "CULVERT HMAC SECRET"

    // MARK: - Keys

    /// Generates a key, writes it to a file that only its owner can read, and prints the public key.
    func generate(_ kind: PinKeyKind, to path: String) -> Int32 {
        do {
            let key = kind.generate()
            try PinSigning.writeSecret(key.file, to: path)
            if json {
                let document: JSON = [
                    "file": .string(path), "kind": .string(kind.rawValue),
                    "algorithm": .string(kind.algorithm.rawValue),
                    "publicKey": key.publicKey.map { .string($0) } ?? .null,
                ]
                console.line(document.text)
            } else if let publicKey = key.publicKey {
                console.write(.output, publicKey)
            }
            if key.publicKey == nil {
                console.problem(
                    "culvert: note: anyone with this secret can sign, and it must be in each app, so policies that it signs may only "
                        + "tighten the app's policies. Prefer ed25519")
            }
            return ExitStatus.success
        } catch {
            return environment.fail(error)
        }
    }

    // MARK: - Envelopes

    /// The fields of an envelope other than its policies.
    struct Terms: Sendable {
        var appID: String
        var environment: String
        var keyID: String
        var version: Int64
        /// The issue time as text, or `nil` for the current time.
        var issued: String?
        var days: Int
    }

    /// Signs a policy and prints the envelope.
    func sign(_ policy: String, keyFile: String, _ terms: Terms) -> Int32 {
        do throws(PinToolError) {
            let bytes = try environment.read(policy)
            let issued = try day(terms.issued)
            let key = try signingKey(keyFile)
            console.write(.output, try envelope(policy, bytes, terms, issued, key).json)
            return ExitStatus.success
        } catch {
            return environment.fail(error)
        }
    }

    private func envelope(
        _ path: String, _ bytes: [UInt8], _ terms: Terms, _ issued: Date, _ key: PolicySigningKey
    ) throws(PinToolError) -> PolicyEnvelope {
        let policies = try policies(path, bytes, terms.environment)
        do {
            return try PolicyEnvelope.sign(
                policies, appID: terms.appID, environment: TrustEnvironment(rawValue: terms.environment),
                keyID: terms.keyID, version: terms.version, issued: issued,
                lifetime: .seconds(Int64(terms.days) * 86_400), with: key)
        } catch {
            throw PinToolError("cannot sign: \(error)")
        }
    }

    /// Reads one set of policies: the whole file or, if it has environments, those of the given environment.
    private func policies(
        _ path: String, _ bytes: [UInt8], _ environmentName: String
    ) throws(PinToolError) -> PolicySet {
        do {
            guard let json = try? JSON.read(policy: bytes), json["environments"] != nil else {
                return try PolicySet(json: bytes)
            }
            var configuration = try TrustConfiguration(json: bytes)
            try configuration.select(TrustEnvironment(rawValue: environmentName))
            return configuration.policies
        } catch {
            throw PinToolError(error.problems.map { "\(path): \($0)" }.joined(separator: "\n"))
        }
    }

    /// Verifies an envelope as an app with this key would.
    func verify(
        _ path: String, keyFile: String, appID: String, environmentName: String, keyID: String?, lowestVersion: Int64,
        at date: String?, onlyPolicy: Bool
    ) -> Int32 {
        do throws(PinToolError) {
            let bytes = try environment.read(path)
            let key = try verificationKey(keyFile)
            let now = try day(date)
            do throws(EnvelopeError) {
                let envelope = try PolicyEnvelope(json: bytes)
                let verifier = RemotePolicyVerifier(
                    appID: appID, environment: TrustEnvironment(rawValue: environmentName),
                    keys: [keyID ?? envelope.keyID: key], lowestVersion: lowestVersion)
                report(try verifier.verify(envelope, at: now), onlyPolicy: onlyPolicy)
                return ExitStatus.success
            } catch {
                report(error, path)
                return ExitStatus.failure
            }
        } catch {
            return environment.fail(error)
        }
    }

    private func report(_ error: EnvelopeError, _ path: String) {
        guard json else {
            console.problem("culvert: \(path): \(error.code.rawValue): \(Printable.text(error.reason))")
            return
        }
        let document: JSON = ["valid": false, "code": .string(error.code.rawValue), "reason": .string(error.reason)]
        console.line(document.text)
    }

    private func report(_ verified: VerifiedPolicies, onlyPolicy: Bool) {
        let envelope = verified.envelope
        if onlyPolicy {
            console.write(.output, verified.policies.json)
        } else if json {
            let document: JSON = [
                "valid": true, "appID": .string(envelope.appID), "environment": .string(envelope.environment.rawValue),
                "keyID": .string(envelope.keyID), "algorithm": .string(envelope.algorithm.rawValue),
                "version": .integer(envelope.version), "issued": .string(Timestamp.text(envelope.issued)),
                "expires": .string(Timestamp.text(envelope.expires)), "mayOnlyTighten": .bool(verified.mayOnlyTighten),
                "policy": JSON(verified.policies),
            ]
            console.line(document.text)
        } else {
            let name = "\(Printable.text(envelope.appID)), \(Printable.text(envelope.environment.rawValue))"
            console.line("valid: version \(envelope.version) for \(name)")
            console.line("  key      \(Printable.text(envelope.keyID)), \(envelope.algorithm.rawValue)")
            console.line("  issued   \(Timestamp.text(envelope.issued))")
            console.line("  expires  \(Timestamp.text(envelope.expires))")
            console.line("  hosts    \(verified.policies.hosts.map(\.pattern.description).joined(separator: ", "))")
            if verified.mayOnlyTighten { console.line("  it may only tighten the app's policies") }
        }
    }

    private func day(_ text: String?) throws(PinToolError) -> Date {
        guard let text else { return environment.now }
        guard let seconds = Timestamp.parse(text) else {
            throw PinToolError("'\(text)' is not a valid date; use the form 2027-01-31 or 2027-01-31T12:00:00Z")
        }
        return Date(timeIntervalSince1970: Double(seconds))
    }

    // MARK: - Key files

    private func signingKey(_ path: String) throws(PinToolError) -> PolicySigningKey {
        try PinSigning.checkSecrecy(of: path)
        let text = String(decoding: try environment.read(path), as: UTF8.self)
        do {
            if let secret = try PinSigning.secret(in: text) { return try PolicySigningKey(hmacSecret: secret) }
            return try PolicySigningKey(pem: text)
        } catch {
            throw PinToolError("\(path): \(error); use the file from 'culvert pin keygen --out'")
        }
    }

    private func verificationKey(_ path: String) throws(PinToolError) -> PolicyVerificationKey {
        let text = String(decoding: try environment.read(path), as: UTF8.self)
        do {
            if let secret = try PinSigning.secret(in: text) { return try PolicyVerificationKey(hmacSecret: secret) }
            return try PolicyVerificationKey(pem: text)
        } catch {
            throw PinToolError(
                "\(path): \(error); use the output of 'culvert pin keygen', or the file of an hmac secret")
        }
    }

    private static func secret(in text: String) throws -> [UInt8]? {
        guard text.contains("-----BEGIN \(secretLabel)-----") else { return nil }
        return try PEMDocument.parse(text).first { $0.label == secretLabel }?.der
    }

    /// Refuses a key file that other users can read, since they could sign with it.
    private static func checkSecrecy(of path: String) throws(PinToolError) {
        guard path != "-" else { return }
        guard let status = FileStatus(of: path) else { throw PinToolError("\(path): \(SystemError.words(errno))") }
        guard status.kind != .file || status.mode & 0o077 == 0 else {
            throw PinToolError("\(path): other users can read this key; use 'chmod 600 \(path)', or generate a new key")
        }
    }

    /// Writes a new file that only its owner can read. An existing file is not changed.
    private static func writeSecret(_ text: String, to path: String) throws(PinToolError) {
        let descriptor = SystemCall.open(path, O_WRONLY | O_CREAT | O_EXCL)
        guard descriptor >= 0 else {
            let reason =
                errno == EEXIST
                ? "the file exists; use a new file, since keys are never overwritten"
                : SystemError.words(errno)
            throw PinToolError("\(path): \(reason)")
        }
        defer { close(descriptor) }
        guard SystemCall.writeAll(descriptor, Array(text.utf8)) else {
            let reason = SystemError.words(errno)
            _ = unsafe unlink(path)
            throw PinToolError("\(path): \(reason)")
        }
    }
}

/// The kinds of keys that sign policies.
enum PinKeyKind: String, Sendable, CaseIterable {
    case ed25519
    case p256
    case p384
    case hmac

    var algorithm: PolicyEnvelope.Algorithm {
        switch self {
        case .ed25519: .ed25519
        case .p256: .ecdsaP256
        case .p384: .ecdsaP384
        case .hmac: .hmacSHA256
        }
    }

    /// Generates a key. Returns the content of its file, and the public key in PEM if there is one.
    func generate() -> (file: String, publicKey: String?) {
        switch self {
        case .ed25519:
            let key = Curve25519.Signing.PrivateKey()
            // swift-crypto cannot write these keys as PEM. These are the bytes that precede the 32 bytes of the key in
            // PKCS #8 and in a SubjectPublicKeyInfo (RFC 8410).
            let privatePrefix: [UInt8] = [
                0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
            ]
            let publicPrefix: [UInt8] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00]
            return (
                PinKeyKind.pem("PRIVATE KEY", privatePrefix + key.rawRepresentation),
                PinKeyKind.pem("PUBLIC KEY", publicPrefix + key.publicKey.rawRepresentation)
            )
        case .p256:
            let key = P256.Signing.PrivateKey()
            return (key.pemRepresentation + "\n", key.publicKey.pemRepresentation + "\n")
        case .p384:
            let key = P384.Signing.PrivateKey()
            return (key.pemRepresentation + "\n", key.publicKey.pemRepresentation + "\n")
        case .hmac:
            let secret = unsafe SymmetricKey(size: .bits256).withUnsafeBytes { unsafe Array($0) }
            return (PinKeyKind.pem(PinSigning.secretLabel, secret), nil)
        }
    }

    private static func pem(_ label: String, _ bytes: [UInt8]) -> String {
        "-----BEGIN \(label)-----\n\(Data(bytes).base64EncodedString())\n-----END \(label)-----\n"
    }
}
