// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TrustPinning
import TrustPinningTesting

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// In each test of a refusal, a pin matches.
@Suite("System trust by swift-certificates")
struct RootStoreTrustTests {
    /// Evaluates a leaf whose key is pinned.
    private func evaluate(
        _ leaf: TestCertificate, issuers: [TestCertificate], root: TestCertificate, host: String = "www.example.com",
        on day: TestDate = .today
    ) async throws -> TrustDecision {
        let policy = try PinningPolicy(pins: [.of(leaf.pin), .of(root.pin, .ca), .spare()])
        let trust = RootStoreTrust(roots: try .certificates([root.der]))
        let evaluator = TrustEvaluator(policies: try .only(policy, host: host), systemTrust: trust)
        return await evaluator.evaluate([leaf.der] + issuers.map(\.der), host: host, on: day)
    }

    /// The code of the failure, or `nil` if the server is trusted.
    private func failure(_ decision: TrustDecision) -> SystemTrustFailure.Code? {
        for case .systemTrustFailed(let failure) in decision.events { return failure.code }
        return nil
    }

    private func leafFailure(
        host: String = "www.example.com", on day: TestDate = .today, _ change: (inout CertificateTemplate) -> Void
    ) async throws -> SystemTrustFailure.Code? {
        let authority = try TestAuthority()
        let leaf = try authority.issue(CertificateTemplate().with(change), key: TestKey(.p256, "pinned"))
        let decision = try await evaluate(
            leaf, issuers: [authority.intermediate], root: authority.root, host: host, on: day)
        #expect(decision.isTrusted == (failure(decision) == nil))
        return failure(decision)
    }

    @Test("A valid leaf is accepted only within its validity period")
    func validity() async throws {
        for (day, code) in [
            (TestDate(2025, 12, 31), SystemTrustFailure.Code.notYetValid), (.leafStart, nil), (.today, nil),
            (.leafEnd, nil),
            (TestDate(2027, 1, 2), .expired),
        ] { #expect(try await leafFailure(on: day) { _ in } == code, "\(day)") }
    }

    @Test("A chain with an expired intermediate or root is refused")
    func expiredIssuers() async throws {
        let rootKey = try TestKey(.p256, "root")
        let shortRoot = try TestCertificate(
            .authority("Root").with { $0.notAfter = TestDate(2026, 5, 1) }, key: rootKey)
        let root = try TestCertificate(.authority("Root"), key: rootKey)
        let intermediateKey = try TestKey(.p256, "intermediate")
        let shortIntermediate = try TestCertificate(
            .authority("Intermediate").with { $0.notAfter = TestDate(2026, 5, 1) }, key: intermediateKey, issuer: root)
        let intermediate = try TestCertificate(.authority("Intermediate"), key: intermediateKey, issuer: root)
        let leaf = try TestCertificate(key: TestKey(.p256, "leaf"), issuer: intermediate)
        let good = try await evaluate(leaf, issuers: [intermediate], root: root)
        #expect(good.reason == .pinMatch)
        #expect(try await failure(evaluate(leaf, issuers: [shortIntermediate], root: root)) == .expired)
        #expect(try await failure(evaluate(leaf, issuers: [intermediate], root: shortRoot)) == .expired)
        // If both are available, the valid one is used.
        #expect(try await evaluate(leaf, issuers: [shortIntermediate, intermediate], root: root).isTrusted)
    }

    @Test("Names are compared as RFC 9525 requires, without common names")
    func names() async throws {
        let table: [(host: String, names: [String], addresses: [[UInt8]], isRight: Bool)] = [
            ("www.example.com", ["www.example.com"], [], true), ("www.example.com", ["WWW.Example.COM"], [], true),
            ("www.example.com", ["other.example.com", "www.example.com"], [], true),
            ("www.example.com", ["example.com"], [], false), ("www.example.com", ["www.example.com."], [], false),
            ("www.example.com", ["*.example.com"], [], true), ("a.www.example.com", ["*.example.com"], [], false),
            ("example.com", ["*.example.com"], [], false), ("www.example.com", ["*.com"], [], false),
            ("www.example.com", ["*"], [], false), ("www.example.com", ["w*.example.com"], [], false),
            ("www.example.com", ["*w.example.com"], [], false), ("www.example.com", ["www.*.com"], [], false),
            ("www.example.com", ["*.*.com"], [], false),
            ("www.example.com", ["www.example.com\0.evil.test"], [], false),
            ("xn--bcher-kva.example", ["xn--bcher-kva.example"], [], true),
            ("xn--bcher-kva.example.com", ["*.example.com"], [], true),
            ("xn--bcher-kva.example.com", ["xn--*.example.com"], [], false), ("www.example.com", [], [], false),
            ("192.0.2.1", [], [[192, 0, 2, 1]], true), ("192.0.2.2", [], [[192, 0, 2, 1]], false),
            ("192.0.2.1", ["192.0.2.1"], [], false), ("192.0.2.1", ["*.0.2.1"], [], false),
            ("2001:db8::1", [], [[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]], true),
            ("::ffff:192.0.2.1", [], [[192, 0, 2, 1]], false), ("www.example.com", [], [[192, 0, 2, 1]], false),
        ]
        for row in table {
            let code = try await leafFailure(host: row.host) {
                // A common name that would match if it were compared.
                $0.subject = row.host
                $0.dnsNames = row.names
                $0.ipAddresses = row.addresses
            }
            #expect(code == (row.isRight ? nil : .wrongName), "\(row)")
        }
    }

    @Test("Leaves and issuers with a usage other than servers, or issuing, are refused")
    func usage() async throws {
        #expect(try await leafFailure { $0.usages = [.clientAuth] } == .wrongUsage)
        #expect(try await leafFailure { $0.usages = [.codeSigning] } == .wrongUsage)
        #expect(try await leafFailure { $0.usages = [.any] } == .wrongUsage)
        #expect(try await leafFailure { $0.usages = [.clientAuth, .serverAuth] } == nil)
        #expect(try await leafFailure { $0.usages = nil } == nil)
        #expect(try await leafFailure { $0.keyUsage = 0x06 } == .wrongUsage)
        #expect(try await leafFailure { $0.keyUsage = nil } == nil)
        // A server must not be an authority, or have a key that may sign certificates.
        #expect(try await leafFailure { $0.isAuthority = true } == .wrongUsage)
        #expect(try await leafFailure { $0.keyUsage = 0x84 } == .wrongUsage)

        let root = try TestCertificate(.authority("Root"), key: TestKey(.p256, "root"))
        func failure(_ change: (inout CertificateTemplate) -> Void) async throws -> SystemTrustFailure.Code? {
            let template = CertificateTemplate.authority("Intermediate").with(change)
            let intermediate = try TestCertificate(template, key: TestKey(.p256, "intermediate"), issuer: root)
            let leaf = try TestCertificate(key: TestKey(.p256, "leaf"), issuer: intermediate)
            let decision = try await evaluate(leaf, issuers: [intermediate], root: root)
            return self.failure(decision)
        }
        #expect(try await failure { _ in } == nil)
        #expect(try await failure { $0.usages = [.codeSigning] } == .wrongUsage)
        #expect(try await failure { $0.usages = [.serverAuth] } == nil)
        #expect(try await failure { $0.keyUsage = 0x80 } == .wrongUsage)
        for last in [37, 15] as [UInt64] {
            let identifier = DERWriter.objectIdentifier(2, 5, 29, last)
            let unreadable = TestCertificate.extension(identifier, critical: false, DERWriter.null)
            #expect(
                try await failure {
                    $0.keyUsage = last == 15 ? nil : $0.keyUsage
                    $0.extraExtensions = [unreadable]
                } == .constraint)
        }
        #expect(try await failure { $0.isAuthority = false } == .constraint)
        #expect(try await failure { $0.version = 0 } == .constraint)
        #expect(try await failure { $0.permittedDNSSubtrees = ["example.com"] } == nil)
        #expect(try await failure { $0.permittedDNSSubtrees = ["example.net"] } == .constraint)
    }

    /// The extension of an authority that excludes these names and the names below them.
    private func excluding(_ names: [String]) -> [UInt8] {
        let subtrees = names.flatMap { DERWriter.sequence(DERWriter.implicit(2, Array($0.utf8))) }
        return TestCertificate.extension(
            DERWriter.objectIdentifier(2, 5, 29, 30), critical: true,
            DERWriter.sequence(DERWriter.explicit(1, subtrees)))
    }

    private func failure(
        host: String, names: [String], excluded: [String], ofRoot: Bool = false
    ) async throws -> SystemTrustFailure.Code? {
        let constraints = excluding(excluded)
        let root = try TestCertificate(
            .authority("Root").with { if ofRoot { $0.extraExtensions = [constraints] } }, key: TestKey(.p256, "root"))
        let intermediate = try TestCertificate(
            .authority("Intermediate").with { if !ofRoot { $0.extraExtensions = [constraints] } },
            key: TestKey(.p256, "intermediate"), issuer: root)
        let template = CertificateTemplate().with { $0.dnsNames = names }
        let leaf = try TestCertificate(template, key: TestKey(.p256, "leaf"), issuer: intermediate)
        return try await failure(evaluate(leaf, issuers: [intermediate], root: root, host: host))
    }

    @Test("Hosts that an issuer excludes, and wildcards that include one, are refused")
    func excludedNames() async throws {
        let wildcard = ["*.example.com"]
        let table: [(host: String, names: [String], excluded: String, isRight: Bool)] = [
            ("bar.example.com", wildcard, "bar.example.com", false),
            ("bar.example.com", wildcard, "BAR.Example.com", false),
            ("foo.example.com", wildcard, "bar.example.com", false),
            ("foo.example.com", ["foo.example.com"] + wildcard, "bar.example.com", false),
            ("foo.example.com", ["foo.example.com"], "bar.example.com", true),
            ("bar.example.com", ["bar.example.com"], "bar.example.com", false),
            ("bar.example.com", wildcard, "example.com", false), ("bar.example.com", wildcard, ".example.com", false),
            ("bar.example.com", wildcard, "com", false), ("bar.example.com", wildcard, "", false),
            // The excluded name has more labels than the wildcard, or another parent.
            ("bar.example.com", wildcard, "a.bar.example.com", true),
            ("bar.example.com", wildcard, ".bar.example.com", true),
            ("bar.example.com", wildcard, "bar.example.net", true),
            ("bar.example.com", wildcard, "ar.example.com", false),
            ("bar.example.com", ["bar.example.com"], "ar.example.com", true),
        ]
        for row in table {
            for ofRoot in [false, true] {
                let code = try await failure(
                    host: row.host, names: row.names, excluded: [row.excluded], ofRoot: ofRoot)
                #expect(code == (row.isRight ? nil : .constraint), "\(row), of the root: \(ofRoot)")
            }
        }
    }

    @Test("A chain with too many names and constraints is refused quickly")
    func manyConstraints() async throws {
        func code(_ names: Int, _ constraints: Int, ofRoot: Bool = false) async throws -> SystemTrustFailure.Code? {
            try await failure(
                host: "www.example.com", names: ["www.example.com"] + (1..<names).map { "n\($0).example.com" },
                excluded: (0..<constraints).map { "n\($0).example.net" }, ofRoot: ofRoot)
        }
        #expect(try await code(64, 64) == nil)
        #expect(try await code(501, 500) == .constraint)
        #expect(try await code(501, 500, ofRoot: true) == .constraint)
    }

    @Test("A path longer than an authority permits is refused")
    func pathLength() async throws {
        let authority = try TestAuthority()
        let below = try TestCertificate(
            .authority("Below"), key: TestKey(.p256, "below"), issuer: authority.intermediate)
        let leaf = try TestCertificate(key: TestKey(.p256, "leaf"), issuer: below)
        let decision = try await evaluate(leaf, issuers: [below, authority.intermediate], root: authority.root)
        #expect(failure(decision) == .constraint)
    }

    @Test("Self-signed leaves, unknown roots, and signatures of another key with the same name are refused")
    func issuers() async throws {
        let authority = try TestAuthority()
        let impostor = try TestAuthority("Other")
        let selfSigned = try TestCertificate(key: TestKey(.p256, "self"))
        #expect(try await failure(evaluate(selfSigned, issuers: [], root: authority.root)) == .unknownIssuer)
        #expect(
            try await failure(evaluate(authority.leaf, issuers: [authority.intermediate], root: impostor.root))
                == .unknownIssuer)
        let sameName = try TestCertificate(
            authority.intermediate.template, key: TestKey(.p256, "impostor"), issuer: impostor.root)
        let leaf = try TestCertificate(key: TestKey(.p256, "leaf"), issuer: sameName)
        #expect(
            try await failure(evaluate(leaf, issuers: [authority.intermediate], root: authority.root)) == .unknownIssuer
        )
        var forged = authority.leaf.der
        forged[forged.count - 1] ^= 1
        let trust = try RootStoreTrust(authority)
        let request = SystemTrustRequest(
            chain: [forged, authority.intermediate.der], host: try HostName("www.example.com"),
            date: TestDate.today.date)
        guard case .untrusted = await trust.verify(request) else {
            Issue.record("a changed signature was verified")
            return
        }
    }

    @Test("Leaves with unsupported keys are refused, pinned or not", arguments: TestKey.Algorithm.unsupported)
    func unsupportedKeys(algorithm: TestKey.Algorithm) async throws {
        let authority = try TestAuthority()
        let leaf = try authority.issue(key: TestKey(algorithm, "leaf"))
        #expect(
            try await failure(evaluate(leaf, issuers: [authority.intermediate], root: authority.root)) == .unreadable)
    }

    @Test("Unknown critical extensions are refused")
    func criticalExtensions() async throws {
        let unknown = DERWriter.objectIdentifier(1, 3, 6, 1, 4, 1, 99_999, 1)
        for (critical, isTrusted) in [(true, false), (false, true)] {
            let code = try await leafFailure {
                $0.extraExtensions = [TestCertificate.extension(unknown, critical: critical, DERWriter.null)]
            }
            #expect((code == nil) == isTrusted)
        }
    }

    @Test("A verified chain is cached for its host, certificates and validity period")
    func memory() async throws {
        let authority = try TestAuthority()
        let trust = try RootStoreTrust(authority)
        func isTrusted(_ chain: [[UInt8]], host: String = "www.example.com", on day: TestDate = .today) async throws
            -> Bool
        {
            let request = SystemTrustRequest(chain: chain, host: try HostName(host), date: day.date)
            guard case .trusted(let verified) = await trust.verify(request) else { return false }
            #expect(verified == authority.whole)
            return true
        }
        for _ in 0..<2 {
            #expect(try await isTrusted(authority.served))
            #expect(try await isTrusted(authority.served, host: "a.api.example.com"))
            #expect(try await !isTrusted(authority.served, host: "example.com"))
            #expect(try await !isTrusted([authority.leaf.der]))
            #expect(try await !isTrusted(authority.served, on: TestDate(2028, 1, 1)))
            #expect(try await !isTrusted(authority.served, on: TestDate(2025, 1, 1)))
        }
    }

    @Test("The search ends quickly for certificates that all sign each other")
    func maze() async throws {
        // All certificates have the same name and key, but different alternative names, so each can issue each other.
        let key = try TestKey(.p256, "maze")
        let maze = try (0..<9).map { index in
            let template = CertificateTemplate.authority("Maze").with { $0.dnsNames = ["\(index).example.com"] }
            return try TestCertificate(template, key: key)
        }
        let leaf = try TestCertificate(key: TestKey(.p256, "leaf"), issuer: maze[0])
        let root = try TestAuthority().root
        let clock = ContinuousClock()
        let start = clock.now
        #expect(try await failure(evaluate(leaf, issuers: maze, root: root)) == .unknownIssuer)
        #expect(clock.now - start < .seconds(60))
    }

    @Test("A root store reads a bundle, or reports that none exists")
    func bundles() async throws {
        let authority = try TestAuthority()
        let file = FileManager.default.temporaryDirectory.appending(
            path: "roots-\(UInt64.random(in: 0...UInt64.max)).pem")
        defer { try? FileManager.default.removeItem(at: file) }
        let junk = PEMWriter.pem("CERTIFICATE", [0x30, 0])
        try Data((junk + "# a comment\n" + authority.root.pem).utf8).write(to: file)
        let host = try HostName("www.example.com")
        let request = SystemTrustRequest(chain: authority.served, host: host, date: TestDate.today.date)
        let good = RootStoreTrust(roots: .bundle(atPaths: ["/nowhere", file.path]))
        #expect(await good.verify(request) == .trusted(chain: authority.whole))
        guard case .untrusted(let failure) = await RootStoreTrust(roots: .bundle(atPaths: ["/nowhere"])).verify(request)
        else {
            Issue.record("trusted without roots")
            return
        }
        #expect(failure.code == .rootsUnavailable)
        #expect(throws: PinError.self) { try RootStore.certificates([]) }
        #expect(throws: PinError.self) { try RootStore.certificates([[0x30, 0]]) }
        #expect(throws: PinError.self) { try RootStore.certificates(pem: "") }
    }
}
