// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import SwiftASN1
import TrustPinning

/// What can be seen of a PKCS#12 bundle without its passphrase (RFC 7292, section 4).
///
/// The TLS library ends the process when a bundle that it could decrypt has no key or no certificate in it. This looks
/// first, and refuses.
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
            let outer = try content(of: BER.parse(bundle), skipping: 1)
            for info in try children(of: BER.parse(octets(ofDataIn: outer))) {
                switch try identifier(of: info) {
                case data:
                    for bag in try children(of: BER.parse(octets(ofDataIn: info))) {
                        bags.insert(try identifier(of: bag))
                    }
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

    private static func children(of node: ASN1Node) throws -> ASN1NodeCollection {
        guard case .constructed(let children) = node.content else { throw ClientIdentityError.unreadableBundle }
        return children
    }

    /// The element of a sequence behind `count` others.
    private static func content(of node: ASN1Node, skipping count: Int) throws -> ASN1Node {
        var position = 0
        for child in try children(of: node) {
            if position == count { return child }
            position += 1
        }
        throw ClientIdentityError.unreadableBundle
    }

    private static func identifier(of node: ASN1Node) throws -> ASN1ObjectIdentifier {
        try ASN1ObjectIdentifier(berEncoded: content(of: node, skipping: 0))
    }

    /// The octets in a ContentInfo of the type data: SEQUENCE { OID, [0] { OCTET STRING } }.
    private static func octets(ofDataIn info: ASN1Node) throws -> ArraySlice<UInt8> {
        guard try identifier(of: info) == data else { throw ClientIdentityError.unreadableBundle }
        let wrapped = try content(of: content(of: info, skipping: 1), skipping: 0)
        return try ASN1OctetString(berEncoded: wrapped).bytes
    }
}
