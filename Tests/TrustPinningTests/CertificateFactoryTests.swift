// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import SwiftASN1
import Testing
import TrustPinningTesting
import X509

@Suite("Test certificates")
struct CertificateFactoryTests {
    @Test("swift-certificates can read the test certificates", arguments: TestKey.Algorithm.signing)
    func readable(algorithm: TestKey.Algorithm) throws {
        let authority = try TestAuthority(algorithm: algorithm)
        let leaf = try Certificate(derEncoded: authority.leaf.der)
        let intermediate = try Certificate(derEncoded: authority.intermediate.der)
        let root = try Certificate(derEncoded: authority.root.der)
        #expect(intermediate.publicKey.isValidSignature(leaf.signature, for: leaf))
        #expect(root.publicKey.isValidSignature(intermediate.signature, for: intermediate))
        #expect(root.publicKey.isValidSignature(root.signature, for: root))
        #expect(leaf.notValidAfter == TestDate.leafEnd.date)
        #expect(try leaf.extensions.subjectAlternativeNames?.count == 2)
    }
}
