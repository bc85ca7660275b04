// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TrustPinningTesting

@testable import TrustPinning

@Suite("Short RSA keys")
struct WeakKeyTests {
    /// A SubjectPublicKeyInfo with an RSA modulus of this many bits. Evaluation without system trust uses no key.
    private static func keyInfo(bits: Int, algorithm: [UInt8]) -> [UInt8] {
        let modulus = [UInt8](repeating: 0xb7, count: bits / 8)
        let key = DERWriter.sequence(DERWriter.integer(magnitude: modulus), DERWriter.integer(65_537))
        return DERWriter.sequence(DERWriter.sequence(algorithm, DERWriter.null), DERWriter.bitString(key))
    }

    private static let anyUse = DERWriter.objectIdentifier(1, 2, 840, 113_549, 1, 1, 1)
    private static let onlyPSS = DERWriter.objectIdentifier(1, 2, 840, 113_549, 1, 1, 10)

    @Test(
        "A pinned leaf with a short RSA key is refused by policies that waive system trust",
        arguments: [512, 1024, 2040, 2048, 4096], [anyUse, onlyPSS])
    func rsa(bits: Int, algorithm: [UInt8]) async throws {
        let info = Self.keyInfo(bits: bits, algorithm: algorithm)
        let leaf = try TestCertificate(
            CertificateTemplate().with { $0.replacementKeyInfo = info }, key: TestKey(.p256, "signer"))
        let pin = try Pin(.spki, PinHash(sha256Of: info), scope: .leaf)
        let policy = try PinningPolicy(pins: [pin, .spare()], requiresSystemTrust: false)
        let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: FixedTrust.failing())
        let decision = await evaluator.evaluate([leaf.der])
        guard bits < 2048 else {
            #expect(decision.reason == .leafPinMatchWithoutSystemTrust)
            return
        }
        #expect(decision.reason == .trustFailed)
        #expect(decision.description.contains("RSA key has \(bits) bits, and must have at least 2048"))
    }

    @Test("A pinned leaf with a malformed RSA key is refused by policies that waive system trust")
    func unreadable() async throws {
        let info = DERWriter.sequence(
            DERWriter.sequence(Self.anyUse, DERWriter.null), DERWriter.bitString(DERWriter.octetString([1, 2, 3])))
        let leaf = try TestCertificate(
            CertificateTemplate().with { $0.replacementKeyInfo = info }, key: TestKey(.p256, "signer"))
        let pin = try Pin(.spki, PinHash(sha256Of: info), scope: .leaf)
        let policy = try PinningPolicy(pins: [pin, .spare()], requiresSystemTrust: false)
        let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: FixedTrust.failing())
        #expect(await evaluator.evaluate([leaf.der]).reason == .trustFailed)
    }
}
