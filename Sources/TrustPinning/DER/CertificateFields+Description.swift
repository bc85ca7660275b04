// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import Crypto
internal import SwiftASN1
internal import X509

extension CertificateFields {
    /// The SHA-256 of the SubjectPublicKeyInfo.
    package var keyHash: PinHash { PinHash(sha256Of: subjectPublicKeyInfo) }

    /// The SHA-256 of the certificate.
    package var certificateHash: PinHash { PinHash(sha256Of: der) }

    package var isSelfIssued: Bool { issuer == subject }

    /// The last common name of the subject, or `nil` if it has none that is text.
    package var subjectCommonName: String? { Self.commonName(subject) }

    /// The common name of the subject, or `nil` unless it has exactly one.
    var onlyCommonName: String? {
        let names = Self.commonNames(subject)
        return names.count == 1 ? names[0] : nil
    }

    package var issuerCommonName: String? { Self.commonName(issuer) }

    /// The readable kind of key: `P-256`, `RSA 2048`, or the object identifier of an algorithm without a name here.
    package var keyDescription: String { Self.keyDescription(subjectPublicKeyInfo) }

    /// The number of bits of the RSA modulus, 0 if it cannot be read, or `nil` if the key is not an RSA key.
    package var rsaKeySize: Int? { Self.rsaKeySize(subjectPublicKeyInfo) }

    private static func commonName(_ name: [UInt8]) -> String? { commonNames(name).last }

    private static func commonNames(_ name: [UInt8]) -> [String] {
        guard let name = try? DistinguishedName(derEncoded: DER.parse(name)) else { return [] }
        return name.joined().filter { $0.type == .RDNAttributeType.commonName }.compactMap { String($0.value) }
    }

    static func keyDescription(_ keyInfo: [UInt8]) -> String {
        guard var info = try? DER.parse(keyInfo).elements(), var algorithm = try? info.requireNext().elements(),
            let identifier = try? ASN1ObjectIdentifier(derEncoded: &algorithm)
        else { return "unreadable" }
        switch identifier {
        case .AlgorithmIdentifier.rsaEncryption:
            return rsaKeySize(keyInfo).flatMap { $0 > 0 ? "RSA \($0)" : nil } ?? "RSA"
        case .AlgorithmIdentifier.idEcPublicKey:
            switch try? ASN1ObjectIdentifier(derEncoded: &algorithm) {
            case .NamedCurves.secp256r1: return "P-256"
            case .NamedCurves.secp384r1: return "P-384"
            case .NamedCurves.secp521r1: return "P-521"
            default: return "elliptic curve"
            }
        case [1, 3, 101, 112]: return "Ed25519"
        case [1, 3, 101, 113]: return "Ed448"
        default: return "algorithm \(identifier)"
        }
    }

    private static func rsaKeySize(_ keyInfo: [UInt8]) -> Int? {
        guard var info = try? DER.parse(keyInfo).elements(), var algorithm = try? info.requireNext().elements(),
            let identifier = try? ASN1ObjectIdentifier(derEncoded: &algorithm),
            // RFC 4055: the algorithm identifiers of keys for all RSA signatures, and of keys for RSASSA-PSS only.
            identifier == .AlgorithmIdentifier.rsaEncryption || identifier == [1, 2, 840, 113_549, 1, 1, 10]
        else { return nil }
        guard let key = try? ASN1BitString(derEncoded: &info), var numbers = try? DER.parse(key.bytes).elements(),
            let modulus = try? ArraySlice<UInt8>(derEncoded: &numbers), let first = modulus.first
        else { return 0 }
        return modulus.count * 8 - first.leadingZeroBitCount
    }
}
