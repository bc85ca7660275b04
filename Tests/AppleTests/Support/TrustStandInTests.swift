// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Security
import Testing

@Suite("The stand-in for trust")
struct TrustStandInTests {
    @Test("asks about what it was given, and gives it back")
    func questions() throws {
        let leaf = Data([0x30, 1, 2])
        let certificate = try #require(SecCertificateCreateWithData(nil, leaf as CFData))
        #expect(SecCertificateCreateWithData(nil, Data([1]) as CFData) == nil)
        var trust: SecTrust?
        let policy = SecPolicyCreateSSL(true, NSString(string: "host.example") as CFString)
        #expect(unsafe SecTrustCreateWithCertificates([certificate] as CFArray, policy, &trust) == errSecSuccess)
        let made = try #require(trust)
        // Nobody has said that it is trusted.
        var error: CFError?
        #expect(unsafe SecTrustEvaluateWithError(made, &error) == false)
        #expect(error != nil)
        StandInTrust.decide(leaf: leaf) { question in
            question.hostNames == ["host.example"] && question.certificates == [leaf]
                ? nil : NSError(domain: "test", code: 1)
        }
        #expect(unsafe SecTrustEvaluateWithError(made, nil))
        let chain = SecTrustCopyCertificateChain(made) as? [SecCertificate]
        #expect(chain?.map { SecCertificateCopyData($0) as Data } == [leaf])
        #expect(
            SecTrustSetPolicies(made, SecPolicyCreateSSL(true, NSString(string: "other") as CFString)) == errSecSuccess)
        #expect(unsafe !SecTrustEvaluateWithError(made, nil))
    }
}
