// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import Crypto
internal import SwiftASN1
internal import X509

/// A key that verifies envelopes of one algorithm.
public struct PolicyVerificationKey: Sendable {
    private enum Backing: Sendable {
        case secret(SymmetricKey)
        case publicKey(Certificate.PublicKey)
    }

    private let backing: Backing
    /// The key's algorithm.
    public let algorithm: PolicyEnvelope.Algorithm

    /// Creates a key from a secret that the publisher and every copy of the app share.
    ///
    /// - Throws: ``EnvelopeError`` with `badKey` for fewer than 32 bytes, or for one byte repeated.
    public init(hmacSecret: [UInt8]) throws(EnvelopeError) {
        backing = .secret(try SymmetricKey(policySecret: hmacSecret))
        algorithm = .hmacSHA256
    }

    /// Reads a public key for P-256, P-384 or Ed25519, as a SubjectPublicKeyInfo in PEM.
    ///
    /// - Throws: ``EnvelopeError`` with `badKey` for other input.
    public init(pem: String) throws(EnvelopeError) {
        let sources = try? KeySource.read(pem: pem)
        guard let source = sources?.first, sources?.count == 1, source.kind == .publicKey else {
            throw EnvelopeError(.badKey, "must be exactly one PEM block PUBLIC KEY")
        }
        try self.init(der: source.subjectPublicKeyInfo)
    }

    /// Reads a public key for P-256, P-384 or Ed25519, as a SubjectPublicKeyInfo in DER.
    ///
    /// - Throws: ``EnvelopeError`` with `badKey` for other input.
    public init(der: [UInt8]) throws(EnvelopeError) {
        guard let key = try? Certificate.PublicKey(derEncoded: der), let algorithm = key.policyAlgorithm else {
            throw EnvelopeError(.badKey, "not a public key for P-256, P-384 or Ed25519")
        }
        backing = .publicKey(key)
        self.algorithm = algorithm
    }

    /// Verifies a signature. Authentication codes are compared in constant time.
    func isValid(_ signature: [UInt8], for bytes: [UInt8], requiresLowS: Bool) -> Bool {
        switch backing {
        case .secret(let key):
            return HMAC<SHA256>.isValidAuthenticationCode(signature, authenticating: bytes, using: key)
        case .publicKey(let key):
            if let form = algorithm.form {
                guard form.raw(signature, requiresLowS: requiresLowS) != nil else { return false }
            } else if signature.count != 64 {
                return false
            }
            return key.isValidSignature(signature, for: bytes, signatureAlgorithm: algorithm.ofCertificates)
        }
    }
}

/// A key that signs envelopes. Only the publisher of policies must have it, never an app.
public struct PolicySigningKey: Sendable {
    private enum Backing: Sendable {
        case secret(SymmetricKey)
        case privateKey(Certificate.PrivateKey)
    }

    private let backing: Backing
    /// The key's algorithm.
    public let algorithm: PolicyEnvelope.Algorithm
    /// The SubjectPublicKeyInfo of the public key in DER, or `nil` for a shared secret.
    public let publicKey: [UInt8]?

    /// Creates a key from a shared secret.
    ///
    /// - Throws: ``EnvelopeError`` with `badKey` for fewer than 32 bytes, or for one byte repeated.
    public init(hmacSecret: [UInt8]) throws(EnvelopeError) {
        backing = .secret(try SymmetricKey(policySecret: hmacSecret))
        algorithm = .hmacSHA256
        publicKey = nil
    }

    /// Reads a private key for P-256, P-384 or Ed25519 in PEM, as `openssl genpkey` writes it.
    ///
    /// - Throws: ``EnvelopeError`` with `badKey` for other input.
    public init(pem: String) throws(EnvelopeError) {
        guard let document = try? PEMDocument.parse(pem).first(where: { $0.label != "EC PARAMETERS" }) else {
            throw EnvelopeError(.badKey, "the text contains no PEM block")
        }
        guard let key = try? Certificate.PrivateKey(document), let algorithm = key.publicKey.policyAlgorithm,
            let publicKey = try? key.publicKey.subjectPublicKeyInfo()
        else {
            throw EnvelopeError(.badKey, "not an unencrypted private key for P-256, P-384 or Ed25519")
        }
        backing = .privateKey(key)
        self.algorithm = algorithm
        self.publicKey = publicKey
    }

    func sign(_ bytes: [UInt8]) throws(EnvelopeError) -> [UInt8] {
        switch backing {
        case .secret(let key): return Array(HMAC<SHA256>.authenticationCode(for: bytes, using: key))
        case .privateKey(let key):
            let signature = try? key.sign(bytes: bytes, signatureAlgorithm: algorithm.ofCertificates).rawRepresentation
            guard let signature, let result = algorithm.form.map({ $0.lowS(signature) }) ?? signature else {
                throw EnvelopeError(.badKey, "the key cannot sign the envelope")
            }
            return result
        }
    }
}

extension SymmetricKey {
    fileprivate init(policySecret secret: [UInt8]) throws(EnvelopeError) {
        guard secret.count >= 32 else {
            throw EnvelopeError(.badKey, "a secret must have at least 32 bytes, not \(secret.count)")
        }
        guard Set(secret).count > 1 else {
            throw EnvelopeError(.badKey, "a secret must be random, not one repeated byte")
        }
        self.init(data: secret)
    }
}

extension Certificate.PublicKey {
    /// The SubjectPublicKeyInfo in DER. In contrast, `subjectPublicKeyInfoBytes` contains only the bits of the key.
    func subjectPublicKeyInfo() throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(self)
        return serializer.serializedBytes
    }

    fileprivate var policyAlgorithm: PolicyEnvelope.Algorithm? {
        if P256.Signing.PublicKey(self) != nil { return .ecdsaP256 }
        if P384.Signing.PublicKey(self) != nil { return .ecdsaP384 }
        return Curve25519.Signing.PublicKey(self) != nil ? .ed25519 : nil
    }
}

extension Certificate.PrivateKey {
    /// Reads an unencrypted private key: PKCS #8, SEC 1 or PKCS #1.
    init(_ document: PEMDocument) throws {
        try self.init(pemDocument: SwiftASN1.PEMDocument(type: document.label, derBytes: document.der))
    }
}

extension PolicyEnvelope.Algorithm {
    /// The corresponding algorithm of swift-certificates, for public keys.
    fileprivate var ofCertificates: Certificate.SignatureAlgorithm {
        switch self {
        case .ecdsaP256: .ecdsaWithSHA256
        case .ecdsaP384: .ecdsaWithSHA384
        case .ed25519, .hmacSHA256: .ed25519
        }
    }

    /// The form of signatures, for algorithms whose signatures have several encodings; otherwise `nil`.
    fileprivate var form: ECDSASignatureForm? {
        switch self {
        case .ecdsaP256: .p256
        case .ecdsaP384: .p384
        case .ed25519, .hmacSHA256: nil
        }
    }
}
