// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import Crypto

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// The contents of a test certificate. The defaults are those of a valid server certificate for `www.example.com`.
package struct CertificateTemplate: Sendable {
    package enum Usage: Sendable {
        case serverAuth, clientAuth, codeSigning, any

        var objectIdentifier: [UInt8] {
            switch self {
            case .serverAuth: DERWriter.objectIdentifier(1, 3, 6, 1, 5, 5, 7, 3, 1)
            case .clientAuth: DERWriter.objectIdentifier(1, 3, 6, 1, 5, 5, 7, 3, 2)
            case .codeSigning: DERWriter.objectIdentifier(1, 3, 6, 1, 5, 5, 7, 3, 3)
            case .any: DERWriter.objectIdentifier(2, 5, 29, 37, 0)
            }
        }
    }

    package var subject = "www.example.com"
    package var serialNumber: UInt64 = 1
    package var notBefore = TestDate.leafStart
    package var notAfter = TestDate.leafEnd
    package var dnsNames = ["www.example.com", "*.api.example.com"]
    /// Addresses of 4 or 16 bytes.
    package var ipAddresses: [[UInt8]] = []
    package var isAuthority = false
    package var pathLength: UInt64?
    /// The extended key usage; `nil` for no extension.
    package var usages: [Usage]? = [.serverAuth]
    /// The key usage bits, most significant first: 0x80 digitalSignature, 0x04 keyCertSign. `nil` for no extension.
    package var keyUsage: UInt8? = 0x80
    /// The subtrees for which a name-constrained authority may sign.
    package var permittedDNSSubtrees: [String] = []
    /// Encoded extensions, added unchanged at the end.
    package var extraExtensions: [[UInt8]] = []
    /// The version field: 2 is v3.
    package var version: UInt64 = 2
    /// The SubjectPublicKeyInfo to use instead of the key's own.
    package var replacementKeyInfo: [UInt8]?

    package init() {}

    package init(subject: String, dnsNames: [String]) {
        self.subject = subject
        self.dnsNames = dnsNames
    }

    /// An authority that is valid from 2020 to 2045.
    package static func authority(_ subject: String, pathLength: UInt64? = nil) -> CertificateTemplate {
        var template = CertificateTemplate(subject: subject, dnsNames: [])
        template.notBefore = .rootStart
        template.notAfter = .rootEnd
        template.isAuthority = true
        template.pathLength = pathLength
        template.usages = nil
        template.keyUsage = 0x06
        return template
    }

    package func with(_ change: (inout CertificateTemplate) -> Void) -> CertificateTemplate {
        var copy = self
        change(&copy)
        return copy
    }
}

/// A certificate with the private key of its subject.
package struct TestCertificate: Sendable {
    package let template: CertificateTemplate
    package let key: TestKey
    package let der: [UInt8]

    /// Issues a certificate for `key`, signed by `issuer`, or by `key` itself if there is no issuer.
    package init(_ template: CertificateTemplate = CertificateTemplate(), key: TestKey, issuer: TestCertificate? = nil)
        throws
    {
        self.template = template
        self.key = key
        let signer = issuer?.key ?? key
        let toBeSigned = DERWriter.sequence(
            template.version == 0 ? [] : DERWriter.explicit(0, DERWriter.integer(template.version)),
            DERWriter.integer(template.serialNumber),
            signer.signatureAlgorithm,
            Self.name(issuer?.template.subject ?? template.subject),
            DERWriter.sequence(DERWriter.time(template.notBefore), DERWriter.time(template.notAfter)),
            Self.name(template.subject),
            template.replacementKeyInfo ?? key.subjectPublicKeyInfo,
            template.version == 2 ? DERWriter.explicit(3, Self.extensions(template)) : [])
        der = DERWriter.sequence(
            toBeSigned, signer.signatureAlgorithm, DERWriter.bitString(try signer.sign(toBeSigned)))
    }

    package var pem: String { PEMWriter.pem("CERTIFICATE", der) }

    /// The pin of the subject's key.
    package var pin: String { key.pin }

    /// The SHA-256 of the whole certificate in base64.
    package var certificatePin: String { Data(SHA256.hash(data: der)).base64EncodedString() }

    /// A name with this common name, or without any attribute if the text is empty.
    private static func name(_ commonName: String) -> [UInt8] {
        guard !commonName.isEmpty else { return DERWriter.sequence() }
        let attribute = DERWriter.sequence(
            DERWriter.objectIdentifier(2, 5, 4, 3), DERWriter.utf8String(commonName))
        return DERWriter.sequence(DERWriter.set(attribute))
    }

    /// One extension: `extnID` as its encoded object identifier.
    package static func `extension`(_ objectIdentifier: [UInt8], critical: Bool, _ value: [UInt8]) -> [UInt8] {
        DERWriter.sequence(
            objectIdentifier, critical ? DERWriter.boolean(true) : [], DERWriter.octetString(value))
    }

    private static func extensions(_ template: CertificateTemplate) -> [UInt8] {
        var list: [[UInt8]] = []
        if template.isAuthority {
            let pathLength = template.pathLength.map { DERWriter.integer($0) } ?? []
            list.append(
                Self.extension(
                    DERWriter.objectIdentifier(2, 5, 29, 19), critical: true,
                    DERWriter.sequence(DERWriter.boolean(true), pathLength)))
        }
        if let keyUsage = template.keyUsage {
            let unused = UInt8(truncatingIfNeeded: keyUsage.trailingZeroBitCount)
            list.append(
                Self.extension(
                    DERWriter.objectIdentifier(2, 5, 29, 15), critical: true,
                    DERWriter.bitString([keyUsage], unusedBits: unused)))
        }
        if let usages = template.usages {
            let content = DERWriter.element(0x30, usages.flatMap(\.objectIdentifier))
            list.append(Self.extension(DERWriter.objectIdentifier(2, 5, 29, 37), critical: false, content))
        }
        let names =
            template.dnsNames.flatMap { DERWriter.implicit(2, Array($0.utf8)) }
            + template.ipAddresses.flatMap { DERWriter.implicit(7, $0) }
        if !names.isEmpty {
            list.append(
                Self.extension(
                    DERWriter.objectIdentifier(2, 5, 29, 17), critical: false, DERWriter.element(0x30, names)))
        }
        if !template.permittedDNSSubtrees.isEmpty {
            let subtrees = template.permittedDNSSubtrees.flatMap {
                DERWriter.sequence(DERWriter.implicit(2, Array($0.utf8)))
            }
            list.append(
                Self.extension(
                    DERWriter.objectIdentifier(2, 5, 29, 30), critical: true,
                    DERWriter.sequence(DERWriter.explicit(0, subtrees))))
        }
        list += template.extraExtensions
        return list.isEmpty ? [] : DERWriter.element(0x30, list.flatMap(\.self))
    }
}
