// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import Crypto
internal import CryptoExtras

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// A private key that is the same in each run: elliptic-curve keys come from a seed, RSA keys from a table.
package struct TestKey: Sendable {
    package enum Algorithm: String, Sendable, CaseIterable {
        case p256, p384, p521, rsa2048, otherRSA2048, rsa3072, ed25519
        /// A curve that neither swift-certificates nor swift-crypto supports. Its "signatures" are random bytes.
        case secp256k1
        /// An algorithm without parameters that our code does not support, with a key of 57 bytes.
        case ed448

        /// The algorithms that can sign certificates.
        package static let signing: [Algorithm] = [.p256, .p384, .p521, .rsa2048, .rsa3072, .ed25519]
        package static let unsupported: [Algorithm] = [.secp256k1, .ed448]
    }

    private enum Backing: Sendable {
        case p256(P256.Signing.PrivateKey)
        case p384(P384.Signing.PrivateKey)
        case p521(P521.Signing.PrivateKey)
        case rsa(_RSA.Signing.PrivateKey)
        case ed25519(Curve25519.Signing.PrivateKey)
        case none(key: [UInt8])
    }

    package let algorithm: Algorithm
    private let backing: Backing

    /// The key of a name: equal names have equal keys, and different names different ones (except RSA).
    package init(_ algorithm: Algorithm = .p256, _ name: String) throws {
        self.algorithm = algorithm
        var seed = Array(SHA512.hash(data: Array("\(algorithm) \(name)".utf8)))
        backing =
            switch algorithm {
            case .p256: .p256(try P256.Signing.PrivateKey(rawRepresentation: seed[..<32]))
            case .p384: .p384(try P384.Signing.PrivateKey(rawRepresentation: seed[..<48]))
            case .p521: .p521(try P521.Signing.PrivateKey(rawRepresentation: [0, 1] + seed))
            case .ed25519: .ed25519(try Curve25519.Signing.PrivateKey(rawRepresentation: seed[..<32]))
            case .rsa2048: .rsa(try Self.rsa(RSATestKeys.bits2048))
            case .otherRSA2048: .rsa(try Self.rsa(RSATestKeys.otherBits2048))
            case .rsa3072: .rsa(try Self.rsa(RSATestKeys.bits3072))
            case .secp256k1: .none(key: [4] + seed)
            case .ed448: .none(key: Array(seed[..<57]))
            }
        seed.removeAll()
    }

    private static func rsa(_ text: String) throws -> _RSA.Signing.PrivateKey {
        try _RSA.Signing.PrivateKey(
            pemRepresentation: "-----BEGIN PRIVATE KEY-----\n\(text)\n-----END PRIVATE KEY-----\n")
    }

    /// The SubjectPublicKeyInfo, built here from its parts.
    package var subjectPublicKeyInfo: [UInt8] {
        let elliptic = DERWriter.objectIdentifier(1, 2, 840, 10_045, 2, 1)
        let algorithmIdentifier: [UInt8]
        let key: [UInt8]
        switch backing {
        case .p256(let private256):
            let curve = DERWriter.objectIdentifier(1, 2, 840, 10_045, 3, 1, 7)
            algorithmIdentifier = DERWriter.sequence(elliptic, curve)
            key = Array(private256.publicKey.x963Representation)
        case .p384(let private384):
            algorithmIdentifier = DERWriter.sequence(elliptic, DERWriter.objectIdentifier(1, 3, 132, 0, 34))
            key = Array(private384.publicKey.x963Representation)
        case .p521(let private521):
            algorithmIdentifier = DERWriter.sequence(elliptic, DERWriter.objectIdentifier(1, 3, 132, 0, 35))
            key = Array(private521.publicKey.x963Representation)
        case .rsa(let privateRSA):
            let rsa = DERWriter.objectIdentifier(1, 2, 840, 113_549, 1, 1, 1)
            algorithmIdentifier = DERWriter.sequence(rsa, DERWriter.null)
            key = Array(privateRSA.publicKey.pkcs1DERRepresentation)
        case .ed25519(let private25519):
            algorithmIdentifier = DERWriter.sequence(DERWriter.objectIdentifier(1, 3, 101, 112))
            key = Array(private25519.publicKey.rawRepresentation)
        case .none(let bytes):
            algorithmIdentifier =
                algorithm == .ed448
                ? DERWriter.sequence(DERWriter.objectIdentifier(1, 3, 101, 113))
                : DERWriter.sequence(elliptic, DERWriter.objectIdentifier(1, 3, 132, 0, 10))
            key = bytes
        }
        return DERWriter.sequence(algorithmIdentifier, DERWriter.bitString(key))
    }

    package var signatureAlgorithm: [UInt8] {
        switch algorithm {
        case .p256, .secp256k1: DERWriter.sequence(DERWriter.objectIdentifier(1, 2, 840, 10_045, 4, 3, 2))
        case .p384: DERWriter.sequence(DERWriter.objectIdentifier(1, 2, 840, 10_045, 4, 3, 3))
        case .p521: DERWriter.sequence(DERWriter.objectIdentifier(1, 2, 840, 10_045, 4, 3, 4))
        case .rsa2048, .otherRSA2048, .rsa3072:
            DERWriter.sequence(DERWriter.objectIdentifier(1, 2, 840, 113_549, 1, 1, 11), DERWriter.null)
        case .ed25519: DERWriter.sequence(DERWriter.objectIdentifier(1, 3, 101, 112))
        case .ed448: DERWriter.sequence(DERWriter.objectIdentifier(1, 3, 101, 113))
        }
    }

    package func sign(_ bytes: [UInt8]) throws -> [UInt8] {
        switch backing {
        case .p256(let key): Array(try key.signature(for: bytes).derRepresentation)
        case .p384(let key): Array(try key.signature(for: bytes).derRepresentation)
        case .p521(let key): Array(try key.signature(for: bytes).derRepresentation)
        case .rsa(let key):
            Array(try key.signature(for: SHA256.hash(data: bytes), padding: .insecurePKCS1v1_5).rawRepresentation)
        case .ed25519(let key): Array(try key.signature(for: bytes))
        case .none: Array(SHA512.hash(data: bytes))
        }
    }

    /// PKCS #8 in PEM. Keys of unsupported algorithms have none.
    package var pem: String {
        switch backing {
        case .p256(let key): key.pemRepresentation
        case .p384(let key): key.pemRepresentation
        case .p521(let key): key.pemRepresentation
        case .rsa(let key): key.pkcs8PEMRepresentation
        case .ed25519(let key):
            PEMWriter.pem(
                "PRIVATE KEY",
                DERWriter.sequence(
                    DERWriter.integer(0), DERWriter.sequence(DERWriter.objectIdentifier(1, 3, 101, 112)),
                    DERWriter.octetString(DERWriter.octetString(Array(key.rawRepresentation)))))
        case .none: ""
        }
    }

    /// The SHA-256 of the SubjectPublicKeyInfo in base64: the value of an spki pin.
    package var pin: String { Data(SHA256.hash(data: subjectPublicKeyInfo)).base64EncodedString() }
}
