// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// What is read of a certificate (RFC 5280 section 4.1) to match pins with it and to judge a server by it.
///
/// Keys are not interpreted, so certificates with keys that no library here knows are read as well. The structure is
/// checked down to the extensions that are used here; nothing is checked with cryptography.
package struct CertificateFields: Sendable, Hashable {
    package let der: [UInt8]
    /// The whole SubjectPublicKeyInfo, which is what an spki pin hashes.
    package let subjectPublicKeyInfo: [UInt8]
    package let serialNumber: [UInt8]
    package let issuer: [UInt8]
    package let subject: [UInt8]
    /// Seconds since 1970.
    package let notBefore: Int64
    package let notAfter: Int64
    /// Those of the subject alternative name, as they are written there. Nil: there is no such extension.
    package private(set) var alternativeNames: SubjectNames?
    /// Encoded object identifiers. Nil: there is no such extension.
    package private(set) var extendedKeyUsages: [[UInt8]]?
    /// Bit 0 of the RFC is the most significant bit here. Nil: there is no such extension.
    package private(set) var keyUsage: UInt8?
    package private(set) var isAuthority = false

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
        self.der = der
        var outer = try DERReader.only(.sequence, der[...]).reader
        var fields = try outer.read(.sequence).reader
        _ = try outer.read(.sequence)
        _ = try outer.read(.bitString).bitString()
        try outer.end(of: "the certificate")

        var version = 0
        if let tagged = try fields.readOptional(.constructed(0)) {
            version = try DERReader.only(.integer, tagged.content).smallInteger()
            guard version == 1 || version == 2 else { throw DERError("the version is not one of v1, v2 and v3") }
        }
        serialNumber = Array(try fields.read(.integer).integer())
        _ = try fields.read(.sequence)
        issuer = Array(try fields.read(.sequence).bytes)
        var validity = try fields.read(.sequence).reader
        notBefore = try Self.time(&validity)
        notAfter = try Self.time(&validity)
        try validity.end(of: "the validity")
        subject = Array(try fields.read(.sequence).bytes)
        subjectPublicKeyInfo = Array(try Self.checkedKeyInfo(try fields.read(.sequence)).bytes)
        _ = try fields.readOptional(.primitive(1))
        _ = try fields.readOptional(.primitive(2))
        if let tagged = try fields.readOptional(.constructed(3)) {
            guard version == 2 else { throw DERError("only v3 certificates have extensions") }
            try readExtensions(try DERReader.only(.sequence, tagged.content))
        }
        try fields.end(of: "the certificate's fields")
    }

    private static func time(_ reader: inout DERReader) throws(DERError) -> Int64 {
        if reader.nextTag == DERTag.generalizedTime.rawValue { return try reader.read().time() }
        return try reader.read(.utcTime).time()
    }

    /// The SubjectPublicKeyInfo of a certificate, of which nothing else is read but what comes before it. Roots are older
    /// than today's rules, and are trusted for their keys alone.
    static func keyInfo(of der: [UInt8]) throws(DERError) -> [UInt8] {
        var outer = try DERReader.only(.sequence, der[...]).reader
        var fields = try outer.read(.sequence).reader
        _ = try fields.readOptional(.constructed(0))
        _ = try fields.read(.integer)
        // Signature algorithm, issuer, validity, subject.
        for _ in 0..<4 { _ = try fields.read(.sequence) }
        return Array(try checkedKeyInfo(try fields.read(.sequence)).bytes)
    }

    /// SEQUENCE of an algorithm (a SEQUENCE that begins with an identifier) and a BIT STRING, nothing more.
    static func checkedKeyInfo(_ element: DERElement) throws(DERError) -> DERElement {
        var reader = element.reader
        var algorithm = try reader.read(.sequence).reader
        let identifier = try algorithm.read(.objectIdentifier)
        guard !identifier.content.isEmpty else { throw DERError("the algorithm of the key is empty") }
        if !algorithm.isAtEnd { _ = try algorithm.read() }
        try algorithm.end(of: "the key's algorithm")
        let key = try reader.read(.bitString).bitString()
        guard key.unusedBits == 0, !key.octets.isEmpty else { throw DERError("the key is empty") }
        try reader.end(of: "the key")
        return element
    }

    private mutating func readExtensions(_ list: DERElement) throws(DERError) {
        var reader = list.reader
        var seen: Set<[UInt8]> = []
        guard !reader.isAtEnd else { throw DERError("the list of extensions is empty") }
        while !reader.isAtEnd {
            var fields = try reader.read(.sequence).reader
            let identifier = Array(try fields.read(.objectIdentifier).content)
            if let critical = try fields.readOptional(.boolean), try !critical.boolean() {
                throw DERError("a default value is written out")
            }
            let value = try fields.read(.octetString).content
            try fields.end(of: "an extension")
            guard seen.insert(identifier).inserted else { throw DERError("an extension occurs twice") }
            switch identifier {
            case ObjectIdentifiers.subjectAlternativeName: alternativeNames = try Self.names(value)
            case ObjectIdentifiers.extendedKeyUsage: extendedKeyUsages = try Self.usages(value)
            case ObjectIdentifiers.keyUsage:
                let bits = try DERReader.only(.bitString, value).bitString()
                keyUsage = bits.octets.first ?? 0
            case ObjectIdentifiers.basicConstraints:
                var constraints = try DERReader.only(.sequence, value).reader
                isAuthority = try constraints.readOptional(.boolean)?.boolean() ?? false
            default: continue
            }
        }
    }

    private static func names(_ value: ArraySlice<UInt8>) throws(DERError) -> SubjectNames {
        var reader = try DERReader.only(.sequence, value).reader
        var names = SubjectNames()
        while !reader.isAtEnd {
            let name = try reader.read()
            names.count += 1
            switch name.tag {
            case DERTag.primitive(2).rawValue:
                guard name.content.allSatisfy({ $0 < 0x80 }) else {
                    throw DERError("a DNS name holds something other than ASCII")
                }
                names.dnsNames.append(String(decoding: name.content, as: UTF8.self))
            case DERTag.primitive(7).rawValue:
                guard let address = IPAddress(bytes: name.content) else {
                    throw DERError("an IP address has \(name.content.count) bytes")
                }
                names.ipAddresses.append(address)
            default: continue
            }
        }
        return names
    }

    private static func usages(_ value: ArraySlice<UInt8>) throws(DERError) -> [[UInt8]] {
        var reader = try DERReader.only(.sequence, value).reader
        var usages: [[UInt8]] = []
        while !reader.isAtEnd { usages.append(Array(try reader.read(.objectIdentifier).content)) }
        guard !usages.isEmpty else { throw DERError("the extended key usage is empty") }
        return usages
    }
}

/// Contents of the object identifiers that are used here.
package enum ObjectIdentifiers {
    package static let subjectAlternativeName: [UInt8] = [0x55, 0x1d, 0x11]
    package static let extendedKeyUsage: [UInt8] = [0x55, 0x1d, 0x25]
    package static let keyUsage: [UInt8] = [0x55, 0x1d, 0x0f]
    package static let basicConstraints: [UInt8] = [0x55, 0x1d, 0x13]
    package static let serverAuthentication: [UInt8] = [0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01]
    package static let commonName: [UInt8] = [0x55, 0x04, 0x03]
}
