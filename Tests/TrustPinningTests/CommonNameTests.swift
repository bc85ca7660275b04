// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TrustPinning
import TrustPinningTesting

@Suite("Certificates with a common name only")
struct CommonNameTests {
    private func decision(
        subject: String = "server401", dnsNames: [String] = [], host: String = "server401", accepts: Bool,
        authority: TestAuthority? = nil, change: (inout CertificateTemplate) -> Void = { _ in }
    ) async throws -> TrustDecision {
        let authority = try authority ?? TestAuthority()
        let leaf = try authority.issue(
            CertificateTemplate(subject: subject, dnsNames: dnsNames).with(change), key: TestKey(.p256, "named"))
        let roots = try RootStore.certificates([authority.root.der], acceptsCommonName: accepts)
        let evaluator = TrustEvaluator(
            policies: .systemTrustOnly, systemTrust: RootStoreTrust(roots: roots, rememberedChains: 0))
        return await evaluator.evaluate([leaf.der, authority.intermediate.der], host: host)
    }

    @Test("A common name counts only if the root store accepts common names")
    func gate() async throws {
        #expect(try await decision(accepts: true).isTrusted)
        #expect(try await !decision(accepts: false).isTrusted)
        #expect(try await decision(subject: "Server401", accepts: true).isTrusted, "names have no case")
    }

    @Test("A common name is ignored if the certificate has alternative names")
    func alternativeNames() async throws {
        #expect(try await !decision(dnsNames: ["www.example.com"], accepts: true).isTrusted)
        #expect(try await decision(dnsNames: ["server401"], host: "server401", accepts: true).isTrusted)
        // This holds even without a DNS name among them.
        #expect(try await !decision(accepts: true) { $0.ipAddresses = [[127, 0, 0, 1]] }.isTrusted)
    }

    @Test(
        "A common name matches literally: no wildcard, no other name, no address",
        arguments: [
            ("*.example.com", "www.example.com"), ("server401", "server402"), ("server401 ", "server401"),
            ("server401\0.example", "server401"), ("192.0.2.1", "192.0.2.1"), ("", "server401"),
            ("server401,server402", "server402"),
        ])
    func exact(_ subject: String, _ host: String) async throws {
        #expect(try await !decision(subject: subject, host: host, accepts: true).isTrusted)
    }

    @Test("The authority, date and usage of a certificate with a common name are checked")
    func others() async throws {
        let other = try TestAuthority("Other")
        let leaf = try other.issue(
            CertificateTemplate(subject: "server401", dnsNames: []), key: TestKey(.p256, "named"))
        let roots = try RootStore.certificates([TestAuthority().root.der], acceptsCommonName: true)
        let evaluator = TrustEvaluator(policies: .systemTrustOnly, systemTrust: RootStoreTrust(roots: roots))
        #expect(await !evaluator.evaluate([leaf.der, other.intermediate.der], host: "server401").isTrusted)
        #expect(try await !decision(accepts: true) { $0.usages = [.clientAuth] }.isTrusted)
        #expect(try await !decision(accepts: true) { $0.notAfter = TestDate(2026, 5, 1) }.isTrusted)
    }

    @Test("A chain with name constraints is refused if the leaf has only a common name")
    func constraints() async throws {
        let rootKey = try TestKey(.p256, "constrained root")
        let root = try TestCertificate(
            .authority("Constrained").with { $0.permittedDNSSubtrees = ["example.com"] }, key: rootKey)
        let leaf = try TestCertificate(
            CertificateTemplate(subject: "www.example.com", dnsNames: []), key: TestKey(.p256, "named"), issuer: root)
        let roots = try RootStore.certificates([root.der], acceptsCommonName: true)
        let evaluator = TrustEvaluator(policies: .systemTrustOnly, systemTrust: RootStoreTrust(roots: roots))
        #expect(await !evaluator.evaluate([leaf.der], host: "www.example.com").isTrusted)
    }
}
