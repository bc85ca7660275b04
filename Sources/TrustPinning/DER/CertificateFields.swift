// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import SwiftASN1
internal import X509

/// The fields of a certificate (RFC 5280 section 4.1) that pin matching and server evaluation need.
///
/// Keys are not interpreted, so that a certificate can be read even if no library here supports its key. For this
/// reason, this type is used instead of that of swift-certificates. The structure is checked, including the extensions
/// that are used here. Signatures are not verified.
package struct CertificateFields: Sendable, Hashable {
    package let der: [UInt8]
    /// The complete SubjectPublicKeyInfo: the input of the hash of an spki pin.
    package let subjectPublicKeyInfo: [UInt8]
    package let issuer: [UInt8]
    package let subject: [UInt8]
    /// Seconds since 1970.
    package let notBefore: Int64
    package let notAfter: Int64
    /// The names of the subject alternative name extension, unchanged, or `nil` without this extension.
    package private(set) var alternativeNames: SubjectNames?
    /// The extended key usages, or `nil` without this extension.
    package private(set) var extendedKeyUsages: [ASN1ObjectIdentifier]?
    /// The key usage bits, or `nil` without this extension. The RFC's bit 0 is the most significant bit here.
    package private(set) var keyUsage: UInt8?
    package private(set) var isAuthority = false
    /// The DNS names that the name constraints of an authority exclude.
    private(set) var excludedNames: [String] = []

    package struct SubjectNames: Sendable, Hashable {
        package var dnsNames: [String] = []
        package var ipAddresses: [IPAddress] = []
        /// The number of names of all kinds.
        package var count = 0
    }

    /// The maximum size of an accepted certificate, in bytes. The largest certificates on the web have tens of KiB.
    package static let maximumSize = 256 * 1024

    package init(_ der: [UInt8]) throws(DERError) {
        guard der.count <= Self.maximumSize else { throw DERError("a certificate has \(der.count) bytes") }
        self = try DERError.reading { try Self(reading: der) }
    }

    private init(reading der: [UInt8]) throws {
        self.der = der
        var outer = try DER.parse(der).elements()
        var fields = try outer.requireNext().elements()
        _ = try outer.requireNext().elements()
        _ = try ASN1BitString(derEncoded: &outer)
        try outer.requireEnd(of: "the certificate")

        let version = try DER.optionalExplicitlyTagged(&fields, tagNumber: 0, tagClass: .contextSpecific) {
            try Int(derEncoded: $0)
        }
        guard version == nil || version == 1 || version == 2 else {
            throw DERError("the version is not one of v1, v2 and v3")
        }
        try fields.skipSerialNumber()
        _ = try fields.requireNext().elements()
        issuer = try fields.nextSequence()
        var validity = try fields.requireNext().elements()
        notBefore = try validity.requireNext().time()
        notAfter = try validity.requireNext().time()
        try validity.requireEnd(of: "the validity")
        subject = try fields.nextSequence()
        subjectPublicKeyInfo = try Self.checkedKeyInfo(fields.requireNext())
        // Skip the unique identifiers of issuer and subject, which are not used.
        for number: UInt in 1...2 {
            let tag = ASN1Identifier(tagWithNumber: number, tagClass: .contextSpecific)
            let _: ASN1OctetString? = try DER.optionalImplicitlyTagged(&fields, tag: tag)
        }
        let extensions = try DER.optionalExplicitlyTagged(&fields, tagNumber: 3, tagClass: .contextSpecific) {
            try DER.sequence(of: Certificate.Extension.self, identifier: .sequence, rootNode: $0)
        }
        try fields.requireEnd(of: "the certificate's fields")
        guard let extensions else { return }
        guard version == 2 else { throw DERError("only v3 certificates have extensions") }
        guard !extensions.isEmpty else { throw DERError("the list of extensions is empty") }
        try read(extensions)
    }

    /// The SubjectPublicKeyInfo of a certificate. Reads only the fields before it and itself: it is used for roots,
    /// which may violate current rules, and of which only the keys are used.
    static func keyInfo(of der: [UInt8]) throws(DERError) -> [UInt8] {
        try DERError.reading {
            var outer = try DER.parse(der).elements()
            var fields = try outer.requireNext().elements()
            _ = try DER.optionalExplicitlyTagged(&fields, tagNumber: 0, tagClass: .contextSpecific) { $0 }
            try fields.skipSerialNumber()
            // Signature algorithm, issuer, validity, subject.
            for _ in 0..<4 { _ = try fields.requireNext().elements() }
            return try checkedKeyInfo(fields.requireNext())
        }
    }

    /// Reads a SubjectPublicKeyInfo that fills `der` completely.
    static func keyInfo(only der: [UInt8]) throws(DERError) -> [UInt8] {
        try DERError.reading { try checkedKeyInfo(DER.parse(der)) }
    }

    /// The SubjectPublicKeyInfo of a PKCS #10 signing request.
    static func keyInfo(ofRequest der: [UInt8]) throws(DERError) -> [UInt8] {
        try DERError.reading {
            var outer = try DER.parse(der).elements()
            var fields = try outer.requireNext().elements()
            _ = try outer.requireNext().elements()
            _ = try ASN1BitString(derEncoded: &outer)
            try outer.requireEnd(of: "the request")
            guard try Int(derEncoded: &fields) == 0 else { throw DERError("not version 1") }
            _ = try fields.requireNext().elements()
            return try checkedKeyInfo(fields.requireNext())
        }
    }

    /// Checks for a SEQUENCE of an algorithm (a SEQUENCE that begins with an identifier) and a BIT STRING, and nothing
    /// else.
    private static func checkedKeyInfo(_ node: ASN1Node) throws -> [UInt8] {
        var fields = try node.elements()
        var algorithm = try fields.requireNext().elements()
        _ = try ASN1ObjectIdentifier(derEncoded: &algorithm)
        _ = algorithm.next()
        try algorithm.requireEnd(of: "the key's algorithm")
        let key = try ASN1BitString(derEncoded: &fields)
        guard key.paddingBits == 0, !key.bytes.isEmpty else { throw DERError("the key is empty") }
        try fields.requireEnd(of: "the key")
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
    /// Skips the serial number, which may be negative in old certificates.
    fileprivate mutating func skipSerialNumber() throws {
        let number = try requireNext()
        guard number.identifier == .integer else { throw DERError("the serial number is missing") }
    }

    /// Returns all bytes of the next element, which must be a SEQUENCE.
    fileprivate mutating func nextSequence() throws -> [UInt8] {
        let node = try requireNext()
        _ = try node.elements()
        return Array(node.encodedBytes)
    }
}
