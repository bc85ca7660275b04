// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import Crypto

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// A key that verifies envelopes. It is for one algorithm: what an envelope states has to agree.
public struct PolicyVerificationKey: Sendable {
    private enum Backing: Sendable {
        case hmac(SymmetricKey)
        case p256(P256.Signing.PublicKey)
        case p384(P384.Signing.PublicKey)
        case ed25519(Curve25519.Signing.PublicKey)
    }

    private let backing: Backing

    /// What precedes the 32 bytes of an Ed25519 key in its SubjectPublicKeyInfo: SEQUENCE, SEQUENCE, OID 1.3.101.112,
    /// BIT STRING (RFC 8410).
    package static let edwardsPrefix: [UInt8] = [
        0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
    ]

    /// A secret that is shared with whoever signs, and that is in every copy of the app.
    ///
    /// - Throws: ``EnvelopeError`` with `badKey` for fewer than 32 bytes, or for one byte repeated.
    public init(hmacSecret: [UInt8]) throws(EnvelopeError) {
        try Self.check(secret: hmacSecret)
        backing = .hmac(SymmetricKey(data: hmacSecret))
    }

    /// A public key for P-256, P-384 or Ed25519, as a SubjectPublicKeyInfo in PEM.
    ///
    /// - Throws: ``EnvelopeError`` with `badKey` for anything else.
    public init(pem: String) throws(EnvelopeError) {
        let sources = try? KeySource.read(pem: pem)
        guard let source = sources?.first, sources?.count == 1, source.kind == .publicKey else {
            throw EnvelopeError(.badKey, "one block PUBLIC KEY was expected")
        }
        try self.init(der: source.subjectPublicKeyInfo)
    }

    /// A public key for P-256, P-384 or Ed25519, as a SubjectPublicKeyInfo in DER.
    ///
    /// - Throws: ``EnvelopeError`` with `badKey` for anything else.
    public init(der: [UInt8]) throws(EnvelopeError) {
        let edwards = Self.edwardsPrefix
        if let key = try? P256.Signing.PublicKey(derRepresentation: der) {
            backing = .p256(key)
        } else if let key = try? P384.Signing.PublicKey(derRepresentation: der) {
            backing = .p384(key)
        } else if der.starts(with: edwards), der.count == edwards.count + 32,
            let key = try? Curve25519.Signing.PublicKey(rawRepresentation: der[edwards.count...])
        {
            backing = .ed25519(key)
        } else {
            throw EnvelopeError(.badKey, "not a public key for P-256, P-384 or Ed25519")
        }
    }

    /// The algorithm it is for.
    public var algorithm: PolicyEnvelope.Algorithm {
        switch backing {
        case .hmac: .hmacSHA256
        case .p256: .ecdsaP256
        case .p384: .ecdsaP384
        case .ed25519: .ed25519
        }
    }

    /// Whether a signature is the key's. Codes are compared in constant time.
    func isValid(_ signature: [UInt8], for bytes: [UInt8], requiresLowS: Bool) -> Bool {
        switch backing {
        case .hmac(let key):
            return HMAC<SHA256>.isValidAuthenticationCode(signature, authenticating: bytes, using: key)
        case .p256(let key):
            guard let raw = ECDSASignatureForm.p256.raw(signature, requiresLowS: requiresLowS),
                let parsed = try? P256.Signing.ECDSASignature(rawRepresentation: raw)
            else { return false }
            return key.isValidSignature(parsed, for: bytes)
        case .p384(let key):
            guard let raw = ECDSASignatureForm.p384.raw(signature, requiresLowS: requiresLowS),
                let parsed = try? P384.Signing.ECDSASignature(rawRepresentation: raw)
            else { return false }
            return key.isValidSignature(parsed, for: bytes)
        case .ed25519(let key): return signature.count == 64 && key.isValidSignature(signature, for: bytes)
        }
    }

    fileprivate static func check(secret: [UInt8]) throws(EnvelopeError) {
        guard secret.count >= 32 else {
            throw EnvelopeError(.badKey, "a secret has at least 32 bytes, this one has \(secret.count)")
        }
        guard Set(secret).count > 1 else { throw EnvelopeError(.badKey, "a secret is random, not one byte repeated") }
    }
}

/// A key that signs envelopes. It belongs with whoever publishes policies, not in an app.
public struct PolicySigningKey: Sendable {
    private enum Backing: Sendable {
        case hmac(SymmetricKey)
        case p256(P256.Signing.PrivateKey)
        case p384(P384.Signing.PrivateKey)
        case ed25519(Curve25519.Signing.PrivateKey)
    }

    private let backing: Backing

    /// What precedes the 32 bytes of an Ed25519 key in PKCS#8: SEQUENCE, INTEGER 0, SEQUENCE, OID 1.3.101.112, OCTET STRING
    /// of an OCTET STRING (RFC 8410).
    package static let edwardsPrefix: [UInt8] = [
        0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
    ]

    /// A shared secret.
    ///
    /// - Throws: ``EnvelopeError`` with `badKey` for fewer than 32 bytes, or for one byte repeated.
    public init(hmacSecret: [UInt8]) throws(EnvelopeError) {
        try PolicyVerificationKey.check(secret: hmacSecret)
        backing = .hmac(SymmetricKey(data: hmacSecret))
    }

    /// A private key for P-256, P-384 or Ed25519 in PEM, as `openssl genpkey` writes it.
    ///
    /// - Throws: ``EnvelopeError`` with `badKey` for anything else.
    public init(pem: String) throws(EnvelopeError) {
        guard let document = try? PEMDocument.parse(pem).first(where: { $0.label != "EC PARAMETERS" }) else {
            throw EnvelopeError(.badKey, "there is no block of PEM")
        }
        let edwards = Self.edwardsPrefix
        if let key = try? P256.Signing.PrivateKey(pemRepresentation: pem) {
            backing = .p256(key)
        } else if let key = try? P384.Signing.PrivateKey(pemRepresentation: pem) {
            backing = .p384(key)
        } else if document.label == "PRIVATE KEY", document.der.starts(with: edwards),
            document.der.count == edwards.count + 32,
            let key = try? Curve25519.Signing.PrivateKey(rawRepresentation: document.der[edwards.count...])
        {
            backing = .ed25519(key)
        } else {
            throw EnvelopeError(.badKey, "not a private key for P-256, P-384 or Ed25519, in the clear")
        }
    }

    /// The algorithm it is for.
    public var algorithm: PolicyEnvelope.Algorithm {
        switch backing {
        case .hmac: .hmacSHA256
        case .p256: .ecdsaP256
        case .p384: .ecdsaP384
        case .ed25519: .ed25519
        }
    }

    /// The SubjectPublicKeyInfo of the public key in DER; nil for a shared secret.
    public var publicKey: [UInt8]? {
        switch backing {
        case .hmac: nil
        case .p256(let key): Array(key.publicKey.derRepresentation)
        case .p384(let key): Array(key.publicKey.derRepresentation)
        case .ed25519(let key): PolicyVerificationKey.edwardsPrefix + key.publicKey.rawRepresentation
        }
    }

    func sign(_ bytes: [UInt8]) throws(EnvelopeError) -> [UInt8] {
        do {
            switch backing {
            case .hmac(let key): return Array(HMAC<SHA256>.authenticationCode(for: bytes, using: key))
            case .p256(let key):
                return ECDSASignatureForm.p256.lowS(Array(try key.signature(for: bytes).rawRepresentation))
            case .p384(let key):
                return ECDSASignatureForm.p384.lowS(Array(try key.signature(for: bytes).rawRepresentation))
            case .ed25519(let key): return Array(try key.signature(for: bytes))
            }
        } catch { throw EnvelopeError(.badKey, "the key does not sign") }
    }
}
