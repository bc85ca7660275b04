// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import SwiftASN1
internal import X509

/// What is read of a certificate (RFC 5280 section 4.1) to match pins with it and to judge a server by it.
///
/// Keys are not interpreted, so certificates with keys that no library here knows are read as well: that is why this is
/// not swift-certificates' own type. The structure is checked down to the extensions that are used here; nothing is
/// checked with cryptography.
package struct CertificateFields: Sendable, Hashable {
    package let der: [UInt8]
    /// The whole SubjectPublicKeyInfo, which is what an spki pin hashes.
    package let subjectPublicKeyInfo: [UInt8]
    package let issuer: [UInt8]
    package let subject: [UInt8]
    /// Seconds since 1970.
    package let notBefore: Int64
    package let notAfter: Int64
    /// Those of the subject alternative name, as they are written there. Nil: there is no such extension.
    package private(set) var alternativeNames: SubjectNames?
    /// Nil: there is no such extension.
    package private(set) var extendedKeyUsages: [ASN1ObjectIdentifier]?
    /// Bit 0 of the RFC is the most significant bit here. Nil: there is no such extension.
    package private(set) var keyUsage: UInt8?
    package private(set) var isAuthority = false
    /// DNS names that an authority may not sign for.
    private(set) var excludedNames: [String] = []

    package struct SubjectNames: Sendable, Hashable {
        package var dnsNames: [String] = []
        package var ipAddresses: [IPAddress] = []
        /// All names, of other kinds too.
        package var count = 0
    }

    /// Certificates above this size are refused: the largest seen on the web have some tens of KiB.
    package static let maximumSize = 256 * 1024

    package init(_ der: [UInt8]) throws(DERError) {
        guard der.count <= Self.maximumSize else { throw DERError("a certificate has \(der.count) bytes") }
        self = try DERError.reading { try Self(reading: der) }
    }

    private init(reading der: [UInt8]) throws {
        self.der = der
        var outer = try DER.parse(der).elements()
        var fields = try outer.take().elements()
        _ = try outer.take().elements()
        _ = try ASN1BitString(derEncoded: &outer)
        try outer.end(of: "the certificate")

        let version = try DER.optionalExplicitlyTagged(&fields, tagNumber: 0, tagClass: .contextSpecific) {
            try Int(derEncoded: $0)
        }
        guard version == nil || version == 1 || version == 2 else {
            throw DERError("the version is not one of v1, v2 and v3")
        }
        try fields.skipSerialNumber()
        _ = try fields.take().elements()
        issuer = try fields.takeSequence()
        var validity = try fields.take().elements()
        notBefore = try validity.take().time()
        notAfter = try validity.take().time()
        try validity.end(of: "the validity")
        subject = try fields.takeSequence()
        subjectPublicKeyInfo = try Self.checkedKeyInfo(fields.take())
        // The identifiers of issuer and subject, which nobody uses.
        for number: UInt in 1...2 {
            let tag = ASN1Identifier(tagWithNumber: number, tagClass: .contextSpecific)
            let _: ASN1OctetString? = try DER.optionalImplicitlyTagged(&fields, tag: tag)
        }
        let extensions = try DER.optionalExplicitlyTagged(&fields, tagNumber: 3, tagClass: .contextSpecific) {
            try DER.sequence(of: Certificate.Extension.self, identifier: .sequence, rootNode: $0)
        }
        try fields.end(of: "the certificate's fields")
        guard let extensions else { return }
        guard version == 2 else { throw DERError("only v3 certificates have extensions") }
        guard !extensions.isEmpty else { throw DERError("the list of extensions is empty") }
        try read(extensions)
    }

    /// The SubjectPublicKeyInfo of a certificate, of which nothing else is read but what comes before it. Roots are older
    /// than today's rules, and are trusted for their keys alone.
    static func keyInfo(of der: [UInt8]) throws(DERError) -> [UInt8] {
        try DERError.reading {
            var outer = try DER.parse(der).elements()
            var fields = try outer.take().elements()
            _ = try DER.optionalExplicitlyTagged(&fields, tagNumber: 0, tagClass: .contextSpecific) { $0 }
            try fields.skipSerialNumber()
            // Signature algorithm, issuer, validity, subject.
            for _ in 0..<4 { _ = try fields.take().elements() }
            return try checkedKeyInfo(fields.take())
        }
    }

    /// A SubjectPublicKeyInfo that is all of these bytes.
    static func keyInfo(only der: [UInt8]) throws(DERError) -> [UInt8] {
        try DERError.reading { try checkedKeyInfo(DER.parse(der)) }
    }

    /// The SubjectPublicKeyInfo of a PKCS #10 signing request.
    static func keyInfo(ofRequest der: [UInt8]) throws(DERError) -> [UInt8] {
        try DERError.reading {
            var outer = try DER.parse(der).elements()
            var fields = try outer.take().elements()
            _ = try outer.take().elements()
            _ = try ASN1BitString(derEncoded: &outer)
            try outer.end(of: "the request")
            guard try Int(derEncoded: &fields) == 0 else { throw DERError("not version 1") }
            _ = try fields.take().elements()
            return try checkedKeyInfo(fields.take())
        }
    }

    /// SEQUENCE of an algorithm (a SEQUENCE that begins with an identifier) and a BIT STRING, nothing more.
    private static func checkedKeyInfo(_ node: ASN1Node) throws -> [UInt8] {
        var fields = try node.elements()
        var algorithm = try fields.take().elements()
        _ = try ASN1ObjectIdentifier(derEncoded: &algorithm)
        _ = algorithm.next()
        try algorithm.end(of: "the key's algorithm")
        let key = try ASN1BitString(derEncoded: &fields)
        guard key.paddingBits == 0, !key.bytes.isEmpty else { throw DERError("the key is empty") }
        try fields.end(of: "the key")
        return Array(node.encodedBytes)
    }

    private mutating func read(_ extensions: [Certificate.Extension]) throws {
        var seen: Set<ASN1ObjectIdentifier> = []
        for element in extensions {
            guard seen.insert(element.oid).inserted else { throw DERError("an extension occurs twice") }
            switch element.oid {
            case .X509ExtensionID.subjectAlternativeName: alternativeNames = try Self.names(element.value)
            case .X509ExtensionID.extendedKeyUsage:
                let usages = try DER.sequence(
                    of: ASN1ObjectIdentifier.self, identifier: .sequence, rootNode: DER.parse(element.value))
                guard !usages.isEmpty else { throw DERError("the extended key usage is empty") }
                extendedKeyUsages = usages
            case .X509ExtensionID.keyUsage: keyUsage = try ASN1BitString(derEncoded: element.value).bytes.first ?? 0
            case .X509ExtensionID.basicConstraints:
                var constraints = try DER.parse(element.value).elements()
                if let first = constraints.next(), first.identifier == .boolean {
                    isAuthority = try Bool(derEncoded: first)
                }
            case .X509ExtensionID.nameConstraints:
                excludedNames = Array(try NameConstraints(element).excludedDNSDomains)
            default: continue
            }
        }
    }

    private static func names(_ value: ArraySlice<UInt8>) throws -> SubjectNames {
        var names = SubjectNames()
        var list = try DER.parse(value).elements()
        while let name = list.next() {
            names.count += 1
            switch name.identifier {
            case ASN1Identifier(tagWithNumber: 2, tagClass: .contextSpecific):
                names.dnsNames.append(String(try ASN1IA5String(derEncoded: name, withIdentifier: name.identifier)))
            case ASN1Identifier(tagWithNumber: 7, tagClass: .contextSpecific):
                let bytes = try ASN1OctetString(derEncoded: name, withIdentifier: name.identifier).bytes
                guard let address = IPAddress(bytes: bytes) else {
                    throw DERError("an IP address has \(bytes.count) bytes")
                }
                names.ipAddresses.append(address)
            default: continue
            }
        }
        return names
    }
}

extension ASN1NodeCollection.Iterator {
    /// Serial numbers may be negative in old certificates.
    fileprivate mutating func skipSerialNumber() throws {
        let number = try take()
        guard number.identifier == .integer else { throw DERError("the serial number is missing") }
    }

    /// All bytes of the next element, a SEQUENCE.
    fileprivate mutating func takeSequence() throws -> [UInt8] {
        let node = try take()
        _ = try node.elements()
        return Array(node.encodedBytes)
    }
}
