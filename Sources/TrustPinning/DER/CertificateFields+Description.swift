// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import Crypto

extension CertificateFields {
    /// The SHA-256 of the SubjectPublicKeyInfo.
    package var keyHash: PinHash { PinHash(sha256Of: subjectPublicKeyInfo) }

    /// The SHA-256 of the certificate.
    package var certificateHash: PinHash { PinHash(sha256Of: der) }

    package var isSelfIssued: Bool { issuer == subject }

    /// The last common name of the subject, if it is text.
    package var subjectCommonName: String? { Self.commonName(subject) }

    package var issuerCommonName: String? { Self.commonName(issuer) }

    /// The kind of key, for people: `P-256`, `RSA 2048`, or the identifier of an algorithm that has no name here.
    package var keyDescription: String { Self.keyDescription(subjectPublicKeyInfo) }

    private static func commonName(_ name: [UInt8]) -> String? {
        var found: String?
        guard var sets = try? DERReader.only(.sequence, name[...]).reader else { return nil }
        while let set = try? sets.read(.set) {
            var attributes = set.reader
            while var attribute = try? attributes.read(.sequence).reader {
                guard let type = try? attribute.read(.objectIdentifier), let value = try? attribute.read() else {
                    break
                }
                // UTF8String and PrintableString; others are history.
                guard Array(type.content) == ObjectIdentifiers.commonName, value.tag == 0x0c || value.tag == 0x13
                else { continue }
                found = String(validating: value.content, as: UTF8.self) ?? found
            }
        }
        return found
    }

    static func keyDescription(_ keyInfo: [UInt8]) -> String {
        guard var reader = try? DERReader.only(.sequence, keyInfo[...]).reader,
            var algorithm = try? reader.read(.sequence).reader,
            let identifier = try? algorithm.read(.objectIdentifier).content
        else { return "unreadable" }
        switch Array(identifier) {
        case [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01]:
            guard let key = try? reader.read(.bitString).bitString().octets,
                var numbers = try? DERReader.only(.sequence, key).reader,
                let modulus = try? numbers.read(.integer).integer().drop(while: { $0 == 0 }),
                let first = modulus.first
            else { return "RSA" }
            return "RSA \(modulus.count * 8 - first.leadingZeroBitCount)"
        case [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01]:
            switch (try? algorithm.read(.objectIdentifier).content).map(Array.init) {
            case [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]: return "P-256"
            case [0x2b, 0x81, 0x04, 0x00, 0x22]: return "P-384"
            case [0x2b, 0x81, 0x04, 0x00, 0x23]: return "P-521"
            default: return "elliptic curve"
            }
        case [0x2b, 0x65, 0x70]: return "Ed25519"
        case [0x2b, 0x65, 0x71]: return "Ed448"
        default: return "algorithm " + identifier.map { hexadecimal($0) }.joined()
        }
    }

    private static func hexadecimal(_ octet: UInt8) -> String {
        (octet < 16 ? "0" : "") + String(octet, radix: 16)
    }
}
