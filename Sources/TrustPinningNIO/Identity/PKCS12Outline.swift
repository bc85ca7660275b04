// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import SwiftASN1
import TrustPinning

/// The parts of a PKCS#12 bundle that are visible without its passphrase (RFC 7292, section 4).
///
/// The TLS library ends the process if a bundle that it can decrypt contains no key or no certificate. This check
/// refuses such bundles first.
enum PKCS12Outline {
    private static let data: ASN1ObjectIdentifier = [1, 2, 840, 113_549, 1, 7, 1]
    private static let encryptedData: ASN1ObjectIdentifier = [1, 2, 840, 113_549, 1, 7, 6]
    private static let keyBag: ASN1ObjectIdentifier = [1, 2, 840, 113_549, 1, 12, 10, 1, 1]
    private static let shroudedKeyBag: ASN1ObjectIdentifier = [1, 2, 840, 113_549, 1, 12, 10, 1, 2]
    private static let certificateBag: ASN1ObjectIdentifier = [1, 2, 840, 113_549, 1, 12, 10, 1, 3]

    static func check(_ bundle: [UInt8]) throws(ClientIdentityError) {
        var bags: Set<ASN1ObjectIdentifier> = []
        var isPartlyEncrypted = false
        do {
            var bundle = try children(of: BER.parse(bundle))
            _ = bundle.next()
            for info in try contents(of: octets(ofDataIn: bundle.next())) {
                switch try identifier(of: info) {
                case data: for bag in try contents(of: octets(ofDataIn: info)) { bags.insert(try identifier(of: bag)) }
                case encryptedData: isPartlyEncrypted = true
                default: break
                }
            }
        } catch {
            throw .unreadableBundle
        }
        guard bags.contains(keyBag) || bags.contains(shroudedKeyBag) else { throw .noKey }
        guard bags.contains(certificateBag) || isPartlyEncrypted else { throw .noCertificate }
    }

    private static func children(of node: ASN1Node?) throws -> ASN1NodeCollection.Iterator {
        guard case .constructed(let children)? = node?.content else { throw ClientIdentityError.unreadableBundle }
        return children.makeIterator()
    }

    private static func contents(of octets: ArraySlice<UInt8>) throws -> IteratorSequence<ASN1NodeCollection.Iterator> {
        IteratorSequence(try children(of: BER.parse(octets)))
    }

    private static func identifier(of node: ASN1Node) throws -> ASN1ObjectIdentifier {
        var fields = try children(of: node)
        return try ASN1ObjectIdentifier(berEncoded: &fields)
    }

    /// Returns the octets in a ContentInfo of the type data: SEQUENCE { OID, [0] { OCTET STRING } }.
    private static func octets(ofDataIn info: ASN1Node?) throws -> ArraySlice<UInt8> {
        var fields = try children(of: info)
        guard try ASN1ObjectIdentifier(berEncoded: &fields) == data else { throw ClientIdentityError.unreadableBundle }
        var wrapped = try children(of: fields.next())
        return try ASN1OctetString(berEncoded: &wrapped).bytes
    }
}
