// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TrustPinning
import TrustPinningTesting

@Suite("Pins")
struct PinTests {
    /// From PinGuard's tests: the SPKI of an RSA key with the modulus 256 × 0x01 and the exponent 0x010101.
    static let vector = "Y7EKzelfzqmyMnNRDIX8cecAf6wj1nk7nT25ws/qnVo="

    @Test("Pins are read from base64, with the prefix sha256/, and from hexadecimal digits with or without colons")
    func forms() throws {
        let hash = try PinHash(Self.vector)
        let digits = hash.bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
        #expect(try PinHash("sha256/" + Self.vector) == hash)
        #expect(try PinHash(digits.joined()) == hash)
        #expect(try PinHash(digits.joined().uppercased()) == hash)
        #expect(try PinHash(digits.joined(separator: ":")) == hash)
        #expect(try PinHash(bytes: hash.bytes) == hash)
        #expect(hash.base64 == Self.vector)
        #expect(hash.description == "sha256/" + Self.vector)
    }

    @Test(
        "Pins that are not 32 bytes of SHA-256 are refused",
        arguments: [
            "", "sha256/", "AAAA", "Y7EKzelfzqmyMnNRDIX8cecAf6wj1nk7nT25ws/qnVo",
            "Y7EKzelfzqmyMnNRDIX8cecAf6wj1nk7nT25ws_qnVo=",
            "Y7EKzelfzqmyMnNRDIX8cecAf6wj1nk7nT25ws/qnVp=", " Y7EKzelfzqmyMnNRDIX8cecAf6wj1nk7nT25ws/qnVo=",
            "sha1/Y7EKzelfzqmyMnNRDIX8cecAf6wj1nk7nT25ws/qnVo=", "SHA256/Y7EKzelfzqmyMnNRDIX8cecAf6wj1nk7nT25ws/qnVo=",
            "Y7EKzelfzqmyMnNRDIX8cecAf6wj1nk7nT25ws/qnVoA", String(repeating: "g1", count: 32),
            String(repeating: "a", count: 63), String(repeating: "a", count: 65), String(repeating: "é", count: 32),
        ])
    func malformed(text: String) {
        #expect { try PinHash(text) } throws: { ($0 as? PinError)?.code == .malformedHash }
    }

    @Test(
        "Placeholder pins are refused",
        arguments: [
            String(repeating: "0", count: 64), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        ])
    func placeholders(text: String) {
        #expect { try PinHash(text) } throws: { ($0 as? PinError)?.code == .placeholderHash }
    }

    @Test("Pins of an RSA key are the hash of its SubjectPublicKeyInfo, as PinGuard computes it")
    func knownVector() throws {
        let key = DERWriter.sequence(
            DERWriter.integer(magnitude: [UInt8](repeating: 1, count: 256)), DERWriter.integer(magnitude: [1, 1, 1]))
        let info = DERWriter.sequence(
            DERWriter.sequence(DERWriter.objectIdentifier(1, 2, 840, 113_549, 1, 1, 1), DERWriter.null),
            DERWriter.bitString(key))
        #expect(info.count == 293)
        let source = try KeySource(publicKey: info)
        #expect(source.keyHash.base64 == Self.vector)
        #expect(source.keyDescription == "RSA 2041")
    }

    @Test(
        "Pins of a certificate, request, public and private key are equal", arguments: TestKey.Algorithm.signing)
    func sources(algorithm: TestKey.Algorithm) throws {
        let key = try TestKey(algorithm, "source")
        let certificate = try TestCertificate(key: key)
        let publicPEM = PEMWriter.pem("PUBLIC KEY", key.subjectPublicKeyInfo)
        let sources = try KeySource.read(pem: certificate.pem + "a comment\n" + publicPEM + key.pem)
        #expect(sources.map(\.kind) == [.certificate, .publicKey, .privateKey])
        #expect(sources.map(\.keyHash.base64) == [key.pin, key.pin, key.pin])
        #expect(try KeySource(der: certificate.der) == sources[0])
        #expect(try KeySource(der: key.subjectPublicKeyInfo) == sources[1])
        #expect(try Pin(.certificate, of: sources[0]).hash.base64 == certificate.certificatePin)
        #expect { try Pin(.certificate, of: sources[1]) } throws: { ($0 as? PinError)?.code == .contradiction }
    }

    @Test("Pins can be made of unsupported keys", arguments: TestKey.Algorithm.unsupported)
    func unknownKeys(algorithm: TestKey.Algorithm) throws {
        let key = try TestKey(algorithm, "unknown")
        let certificate = try TestCertificate(key: key)
        #expect(try KeySource(certificate: certificate.der).keyHash.base64 == key.pin)
    }

    @Test("PEM that is truncated, empty, encrypted or of another kind is refused")
    func badPEM() throws {
        let key = try TestKey(.p256, "source")
        for text in [
            "", "nothing", "-----BEGIN CERTIFICATE-----\nMIIB",
            "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
            PEMWriter.pem("ENCRYPTED PRIVATE KEY", [1]), PEMWriter.pem("CERTIFICATE", [0x30, 0]),
            PEMWriter.pem("PRIVATE KEY", key.subjectPublicKeyInfo), PEMWriter.pem("X509 CRL", [0x30, 0]),
            "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n",
        ] {
            #expect(throws: PinError.self, "\(text)") { try KeySource.read(pem: text) }
        }
    }

    @Test("Pins with contradictory kind and scope are refused")
    func contradiction() throws {
        #expect { try Pin(.ca, Self.vector, scope: .leaf) } throws: { ($0 as? PinError)?.code == .contradiction }
        #expect(try Pin(.spki, Self.vector, scope: .leaf).canMatchLeaf)
        #expect(try !Pin(.spki, Self.vector, scope: .root).canMatchLeaf)
        #expect(try !Pin(.ca, Self.vector).canMatchLeaf)
    }
}
