// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import SwiftASN1
import Testing
import TrustPinningTesting
import X509

@testable import TrustPinning

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

@Suite("Certificates in DER")
struct CertificateFieldsTests {
    @Test("CertificateFields reads the fields for pins and names", arguments: TestKey.Algorithm.allCases)
    func fields(algorithm: TestKey.Algorithm) throws {
        let authority = try TestAuthority()
        let key = try TestKey(algorithm, "leaf")
        let template = CertificateTemplate().with { $0.ipAddresses = [[192, 0, 2, 1]] }
        let leaf = try CertificateFields(authority.issue(template, key: key).der)
        #expect(leaf.subjectPublicKeyInfo == key.subjectPublicKeyInfo)
        #expect(leaf.keyHash.base64 == key.pin)
        #expect(leaf.notBefore == TestDate.leafStart.seconds)
        #expect(leaf.notAfter == TestDate.leafEnd.seconds)
        #expect(leaf.alternativeNames?.dnsNames == ["www.example.com", "*.api.example.com"])
        #expect(leaf.alternativeNames?.ipAddresses == [.v4(192, 0, 2, 1)])
        #expect(leaf.extendedKeyUsages == [.ExtendedKeyUsage.serverAuth])
        #expect(leaf.keyUsage == 0x80)
        #expect(!leaf.isAuthority)
        #expect(leaf.subjectCommonName == "www.example.com")
        #expect(leaf.issuerCommonName == "Example Intermediate")
        let root = try CertificateFields(authority.root.der)
        #expect(root.isAuthority)
        #expect(root.isSelfIssued)
    }

    @Test(
        "The key of each system root certificate is read",
        .enabled(if: !Self.systemRoots.isEmpty, "needs the system's root certificates"))
    func roots() throws {
        for root in Self.systemRoots {
            let key = try CertificateFields.keyInfo(of: root.der)
            #expect(!key.isEmpty)
            // Some roots are older than the rules for leaves.
            guard let fields = try? CertificateFields(root.der) else { continue }
            #expect(fields.subjectPublicKeyInfo == key)
        }
    }

    private static let systemRoots: [TrustPinning.PEMDocument] = {
        let bundle = URL(filePath: "/etc/ssl/certs/ca-certificates.crt")
        guard let data = try? Data(contentsOf: bundle) else { return [] }
        return (try? TrustPinning.PEMDocument.parse(String(decoding: data, as: UTF8.self))) ?? []
    }()

    @Test("Certificates with missing or additional bytes are refused")
    func truncation() throws {
        let der = try TestAuthority().leaf.der
        for length in 0..<der.count { #expect(throws: DERError.self) { try CertificateFields(Array(der[..<length])) } }
        #expect(throws: DERError.self) { try CertificateFields(der + [0]) }
    }

    @Test("Certificates with one changed byte are read or refused without a crash")
    func mutation() throws {
        let der = try TestAuthority(algorithm: .rsa2048).leaf.der
        var random = SeededGenerator(seed: 6)
        var read = 0
        for index in der.indices {
            for value in [0x00, 0x7f, 0x80, 0xff, UInt8.random(in: 0...255, using: &random)] {
                var copy = der
                copy[index] = value
                if (try? CertificateFields(copy)) != nil { read += 1 }
            }
        }
        // Most bytes belong to keys and signatures, which are not interpreted.
        #expect(read > der.count)
    }

    @Test(
        "Certificates with lengths and values that are not DER are refused",
        arguments: [
            [0x30], [0x30, 0x80, 0, 0], [0x30, 0x81, 0x05, 0, 0, 0, 0, 0],
            [0x30, 0x82, 0, 0x80] + [UInt8](repeating: 0, count: 128),
            [0x30, 0x84, 0, 0, 0, 1, 0], [0x30, 0x85, 1, 0, 0, 0, 0], [0x30, 0x83, 0xff, 0xff, 0xff], [0x30, 0xff],
            [0x3f, 0x81, 0],
            [0x31, 0], [],
        ] as [[UInt8]])
    func badLengths(bytes: [UInt8]) {
        #expect(throws: DERError.self) { try DERError.reading { try DER.parse(bytes).elements() } }
    }

    @Test("Certificates with integers, booleans, bit strings or times that are not DER are refused")
    func badValues() throws {
        func read<Value: DERParseable>(_ bytes: [UInt8]) throws -> Value {
            try DERError.reading { try Value(derEncoded: bytes) }
        }
        for bytes: [UInt8] in [[2, 0], [2, 2, 0, 1], [2, 2, 0xff, 0x80]] {
            #expect(throws: DERError.self) { try read(bytes) as Int }
        }
        #expect(throws: DERError.self) { try read([2, 9, 1, 0, 0, 0, 0, 0, 0, 0, 0]) as Int }
        #expect(try read([2, 4, 0x7f, 0xff, 0xff, 0xff]) == 0x7fff_ffff)
        for bytes: [UInt8] in [[1, 0], [1, 1, 1], [1, 2, 0, 0]] {
            #expect(throws: DERError.self) { try read(bytes) as Bool }
        }
        for bytes: [UInt8] in [[3, 0], [3, 1, 8], [3, 1, 1], [3, 2, 1, 0xff]] {
            #expect(throws: DERError.self) { try read(bytes) as ASN1BitString }
        }
        #expect(try (read([3, 2, 1, 0xfe]) as ASN1BitString).paddingBits == 1)
        func time(_ tag: UInt8, _ text: String) throws -> Int64 {
            try DERError.reading { try DER.parse([tag, UInt8(text.utf8.count)] + Array(text.utf8)).time() }
        }
        #expect(try time(0x17, "490101000000Z") == 2_493_072_000)
        #expect(try time(0x17, "500101000000Z") == -631_152_000)
        #expect(try time(0x18, "20500101000000Z") == 2_524_608_000)
        for text in [
            "260230000000Z", "261301000000Z", "260100000000Z", "260101240000Z", "260101006000Z", "260101000060Z",
            "2601010000Z",
            "260101000000", "260101000000+0000", "26010100000aZ", "Z", "20260101000000Z",
        ] { #expect(throws: DERError.self, "\(text)") { try time(0x17, text) } }
        #expect(throws: DERError.self) { try time(0x18, "20260101000000.5Z") }
    }

    @Test("Certificates with repeated, empty or version 1 extensions are refused")
    func badExtensions() throws {
        let key = try TestKey(.p256, "leaf")
        let names = TestCertificate.extension(
            DERWriter.objectIdentifier(2, 5, 29, 17), critical: false, DERWriter.sequence(DERWriter.implicit(2, [0x61]))
        )
        let cases: [(inout CertificateTemplate) -> Void] = [
            { $0.extraExtensions = [names] },
            { $0.usages = [] },
            { $0.ipAddresses = [[1, 2, 3]] },
            { $0.dnsNames = ["bücher.example"] },
            { $0.version = 3 },
            { $0.replacementKeyInfo = DERWriter.sequence() },
            { $0.replacementKeyInfo = DERWriter.sequence(DERWriter.sequence(), DERWriter.bitString([1])) },
            {
                let identifier = DERWriter.sequence(DERWriter.objectIdentifier(1, 3, 101, 112))
                $0.replacementKeyInfo = DERWriter.sequence(identifier, DERWriter.bitString([]))
            },
        ]
        for change in cases {
            let certificate = try TestCertificate(CertificateTemplate().with(change), key: key)
            #expect(throws: DERError.self) { try CertificateFields(certificate.der) }
        }
        let first = try TestCertificate(CertificateTemplate().with { $0.version = 0 }, key: key)
        #expect(try CertificateFields(first.der).alternativeNames == nil)
    }
}
