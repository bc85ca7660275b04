// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Crypto
import FoundationEssentials
import NetworkAddresses
import Provisioning
import SwiftASN1
import X509

/// An ECDSA P-256 key and a certificate for it, both in PEM.
package struct GatewayCertificate: Sendable {
    /// The certificate, or a chain that starts with the certificate of the key.
    package var certificate: String
    /// The private key (PKCS#8). It must not be logged.
    package var key: String

    package init(certificate: String, key: String) {
        self.certificate = certificate
        self.key = key
    }

    // A device whose clock was never set has a time in 1970. Its error is recognised because its time is before the
    // start of the certificate. The certificate of a pinned key never expires during the life of a gateway.
    /// 2000-01-01 00:00:00 UTC.
    static let begin = Date(timeIntervalSince1970: 946_684_800)
    /// 2120-01-01 00:00:00 UTC.
    static let end = Date(timeIntervalSince1970: 4_733_510_400)

    /// Makes a self-signed certificate for a server with this name or address. It is the leaf whose key devices pin.
    static func leaf(host: String, key: P256.Signing.PrivateKey) throws(GatewayDirectoryError) -> GatewayCertificate {
        try make(host: host, key: key, issuer: nil)
    }

    /// Makes a certificate authority and a leaf that it has signed.
    static func authority(
        host: String
    ) throws(GatewayDirectoryError) -> (authority: GatewayCertificate, leaf: GatewayCertificate) {
        let key = P256.Signing.PrivateKey()
        let name: DistinguishedName
        let certificate: Certificate
        do {
            name = try DistinguishedName { CommonName("Culvert addKey authority") }
            certificate = try Certificate(
                version: .v3, serialNumber: Certificate.SerialNumber(),
                publicKey: Certificate.PublicKey(key.publicKey), notValidBefore: begin, notValidAfter: end,
                issuer: name, subject: name, signatureAlgorithm: .ecdsaWithSHA256,
                extensions: try Certificate.Extensions {
                    Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
                    Critical(KeyUsage(keyCertSign: true))
                    SubjectKeyIdentifier(hash: Certificate.PublicKey(key.publicKey))
                }, issuerPrivateKey: Certificate.PrivateKey(key))
        } catch {
            throw GatewayDirectoryError("cannot make the certificate of addKey's authority: \(error)")
        }
        let leaf = try make(host: host, key: P256.Signing.PrivateKey(), issuer: (name, key))
        return (
            GatewayCertificate(certificate: try pem(certificate), key: key.pemRepresentation), leaf
        )
    }

    private static func make(
        host: String, key: P256.Signing.PrivateKey, issuer: (name: DistinguishedName, key: P256.Signing.PrivateKey)?
    ) throws(GatewayDirectoryError) -> GatewayCertificate {
        let name: GeneralName
        if let address = try? IPAddress(host) {
            name = .ipAddress(ASN1OctetString(contentBytes: address.bytes[...]))
        } else {
            name = .dnsName(host)
        }
        do {
            // PIA's clients compare the common name, which must not exceed 64 characters (RFC 5280, ub-common-name).
            let subject = try DistinguishedName { CommonName(host.utf8.count <= 64 ? host : "Culvert gateway") }
            let signer = issuer?.key ?? key
            let certificate = try Certificate(
                version: .v3, serialNumber: Certificate.SerialNumber(),
                publicKey: Certificate.PublicKey(key.publicKey), notValidBefore: begin, notValidAfter: end,
                issuer: issuer?.name ?? subject, subject: subject, signatureAlgorithm: .ecdsaWithSHA256,
                extensions: try Certificate.Extensions {
                    Critical(BasicConstraints.notCertificateAuthority)
                    Critical(KeyUsage(digitalSignature: true))
                    try ExtendedKeyUsage([.serverAuth])
                    SubjectAlternativeNames([name])
                    SubjectKeyIdentifier(hash: Certificate.PublicKey(key.publicKey))
                    if let issuer {
                        AuthorityKeyIdentifier(
                            keyIdentifier: SubjectKeyIdentifier(
                                hash: Certificate.PublicKey(issuer.key.publicKey)
                            ).keyIdentifier)
                    }
                }, issuerPrivateKey: Certificate.PrivateKey(signer))
            return GatewayCertificate(certificate: try pem(certificate), key: key.pemRepresentation)
        } catch {
            throw GatewayDirectoryError("cannot make the certificate for '\(host)': \(error)")
        }
    }

    private static func pem(_ certificate: Certificate) throws(GatewayDirectoryError) -> String {
        do { return try certificate.serializeAsPEM().pemString + "\n" } catch {
            throw GatewayDirectoryError("cannot encode a certificate: \(error)")
        }
    }

    /// Whether the first certificate of a PEM text is for this key.
    static func isCertificate(_ text: String, of key: P256.Signing.PrivateKey) -> Bool {
        guard let document = try? PEMDocument.parseMultiple(pemString: text).first,
            let certificate = try? Certificate(pemDocument: document)
        else { return false }
        return certificate.publicKey == Certificate.PublicKey(key.publicKey)
    }

    /// Returns the pin of a key: the SHA-256 hash of its public key.
    static func pin(_ key: P256.Signing.PrivateKey) throws(GatewayDirectoryError) -> ServerKeyPin {
        let hash = Array(SHA256.hash(data: key.publicKey.derRepresentation))
        guard let pin = ServerKeyPin(bytes: hash) else { throw GatewayDirectoryError("cannot make the pin of a key") }
        return pin
    }
}

extension GatewayCertificate: CustomStringConvertible, CustomReflectable {
    package var description: String { "(certificate and key)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
