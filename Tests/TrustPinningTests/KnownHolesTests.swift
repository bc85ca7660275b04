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

/// Holes and defects of PinGuard and TrustKit, each closed here. docs/trust-pinning.md lists them.
@Suite("Holes of other pinning libraries")
struct KnownHolesTests {
    private func evaluate(
        _ chain: [[UInt8]], _ policy: PinningPolicy, roots: TestAuthority, host: String = "www.example.com"
    ) async throws -> TrustDecision {
        let evaluator = TrustEvaluator(
            policies: try .only(policy, host: host), systemTrust: try RootStoreTrust(roots))
        return await evaluator.evaluate(chain, host: host)
    }

    @Test("Permissive policies refuse self-signed, expired and wrongly named certificates")
    func permissive() async throws {
        let authority = try TestAuthority()
        let selfSigned = try TestCertificate(key: TestKey(.p256, "self"))
        let expired = try authority.issue(
            CertificateTemplate().with { $0.notAfter = TestDate(2026, 5, 1) }, key: authority.leaf.key)
        let misnamed = try authority.issue(
            CertificateTemplate().with { $0.dnsNames = ["other.test"] }, key: authority.leaf.key)
        for requiresSystemTrust in [true, false] {
            let policy = try PinningPolicy(
                pins: [.of(authority.leaf.pin)], mode: .permissive, requiresSystemTrust: requiresSystemTrust)
            for leaf in [selfSigned, expired, misnamed] {
                let decision = try await evaluate([leaf.der, authority.intermediate.der], policy, roots: authority)
                #expect(!decision.isTrusted)
            }
        }
    }

    @Test("A permissive policy is not stricter without required system trust")
    func permissiveOrder() async throws {
        let authority = try TestAuthority()
        let stranger = try TestAuthority("Stranger")
        for (roots, chain) in [(authority, authority.served), (stranger, authority.served)] {
            for pin in [authority.leaf.pin, try TestKey(.p256, "nobody").pin] {
                let required = try PinningPolicy(pins: [.of(pin)], mode: .permissive)
                let notRequired = try PinningPolicy(pins: [.of(pin)], mode: .permissive, requiresSystemTrust: false)
                let strictly = try await evaluate(chain, required, roots: roots).isTrusted
                let loosely = try await evaluate(chain, notRequired, roots: roots).isTrusted
                #expect(loosely || !strictly)
            }
        }
    }

    @Test(
        "An empty hash is not a pin, and unsupported keys match no pin by accident",
        arguments: TestKey.Algorithm.unsupported)
    func emptyHash(algorithm: TestKey.Algorithm) async throws {
        #expect(throws: PinError.self) { try PinHash("") }
        let authority = try TestAuthority()
        let leaf = try authority.issue(key: TestKey(algorithm, "leaf"))
        let policy = try PinningPolicy(pins: [.of(authority.leaf.pin), .spare()], requiresSystemTrust: false)
        let decision = try await evaluate([leaf.der], policy, roots: authority)
        #expect(decision.reason == .pinningFailed)
        // The key's own pin is computed nevertheless.
        let own = try PinningPolicy(pins: [.of(leaf.pin), .spare()], requiresSystemTrust: false)
        #expect(try await evaluate([leaf.der], own, roots: authority).reason == .leafPinMatchWithoutSystemTrust)
    }

    @Test("Without system trust, additional certificates are not links of a chain")
    func unverifiedLinks() async throws {
        let authority = try TestAuthority()
        let attacker = try TestCertificate(key: TestKey(.p256, "attacker"))
        let chain = [attacker.der] + [authority.leaf.der, authority.intermediate.der, authority.root.der]
        let hashes = [authority.leaf.pin, authority.intermediate.pin, authority.root.pin]
        for hash in hashes {
            for kind in [Pin.Kind.spki, .ca] {
                let policy = try PinningPolicy(
                    pins: [Pin(kind, hash), .spare()], requiresSystemTrust: false)
                let decision = try await evaluate(chain, policy, roots: try TestAuthority("Stranger"))
                #expect(decision.reason == .pinningFailed)
            }
        }
    }

    @Test("The leaf's name, dates and usage are checked without system trust too")
    func leafChecks() async throws {
        let key = try TestKey(.p256, "gateway")
        let policy = try PinningPolicy(pins: [.of(key.pin), .spare()], requiresSystemTrust: false)
        let roots = try TestAuthority()
        let good = try TestCertificate(key: key)
        #expect(try await evaluate([good.der], policy, roots: roots).reason == .leafPinMatchWithoutSystemTrust)
        let changes: [(inout CertificateTemplate) -> Void] = [
            { $0.notAfter = TestDate(2026, 5, 1) }, { $0.notBefore = TestDate(2026, 7, 1) },
            { $0.dnsNames = ["other.example.com"] }, { $0.dnsNames = [] }, { $0.usages = [.clientAuth] },
            { $0.keyUsage = 0x06 }, { $0.keyUsage = 0x84 }, { $0.isAuthority = true },
        ]
        for change in changes {
            let bad = try TestCertificate(CertificateTemplate().with(change), key: key)
            #expect(try await evaluate([bad.der], policy, roots: roots).reason == .trustFailed)
        }
    }

    @Test("A ca pin matches a new certificate with the same authority key")
    func reissuedAuthority() async throws {
        let authority = try TestAuthority()
        let policy = try PinningPolicy(pins: [.of(authority.intermediate.pin, .ca), .spare()])
        let reissued = try TestCertificate(
            authority.intermediate.template.with { $0.serialNumber = 99 }, key: authority.intermediate.key,
            issuer: authority.root)
        #expect(reissued.certificatePin != authority.intermediate.certificatePin)
        let decision = try await evaluate([authority.leaf.der, reissued.der], policy, roots: authority)
        #expect(decision.reason == .pinMatch)
    }

    @Test("A certificate with an unsupported key does not hide a pin of the leaf")
    func unsupportedOnTheWay() async throws {
        let authority = try TestAuthority()
        let odd = try TestCertificate(.authority("Odd"), key: TestKey(.secp256k1, "odd"))
        let policy = try PinningPolicy(pins: [.of(authority.leaf.pin), .spare()])
        let decision = try await evaluate(
            [authority.leaf.der, odd.der, authority.intermediate.der], policy, roots: authority)
        #expect(decision.reason == .pinMatch)
    }

    @Test("Patterns that match by accident in other libraries are refused")
    func patterns() throws {
        for text in ["*.", "*", "*.com", "", "*..example.com", "*.1.2.3"] {
            #expect(throws: HostNameError.self, "\(text)") { try HostPattern(text) }
        }
        #expect(throws: HostNameError.self) { try HostName("a..example.com") }
        let wildcard = try HostPattern.wildcard("*.example.com")
        #expect(try wildcard.matches(HostName("a.example.com")))
        let set = try PolicySet.only(PinningPolicy(pins: [.spare("a"), .spare()]), host: "WWW.Example.com.")
        #expect(try set.policy(for: HostName("www.EXAMPLE.com")) != nil)
    }

    @Test("The rule for unlisted hosts has no default")
    func unlisted() async throws {
        let authority = try TestAuthority()
        let trust = try RootStoreTrust(authority)
        let refusing = TrustEvaluator(policies: try PolicySet([], unlisted: .refuse), systemTrust: trust)
        let asking = TrustEvaluator(policies: try PolicySet([], unlisted: .systemTrust), systemTrust: trust)
        #expect(await refusing.evaluate(authority.served).reason == .policyMissing)
        #expect(await asking.evaluate(authority.served).reason == .systemTrustAllowed)
        #expect(await asking.evaluate([authority.leaf.der]).reason == .trustFailed)
        #expect(throws: PolicyError.self) { try PolicySet(json: #"{"version": 1, "hosts": []}"#) }
    }

    @Test("An unreadable expiry date is an error, not a policy without expiry")
    func expiryDate() throws {
        for date in ["2027-13-01", "soon", "01.02.2027", ""] {
            let json = """
                {"version": 1, "unlistedHosts": "refuse",
                 "hosts": [{"host": "www.example.com", "mode": "audit", "expires": "\(date)"}]}
                """
            let error = #expect(throws: PolicyError.self) { try PolicySet(json: json) }
            #expect(error?.problems.map(\.path) == ["hosts[0].expires"])
        }
    }

    @Test("A misspelt member is an error, not a default")
    func misspelling() throws {
        let json = """
            {"version": 1, "unlistedHosts": "systemTrust",
             "hosts": [{"host": "www.example.com", "mode": "audit", "excludeSubdomain": true}]}
            """
        let error = #expect(throws: PolicyError.self) { try PolicySet(json: json) }
        #expect(error?.problems.map(\.path) == ["hosts[0].excludeSubdomain"])
    }

    @Test("A length of four octets is refused before it can overflow")
    func lengthOverflow() {
        for octets: [UInt8] in [
            [0x84, 0x7f, 0xff, 0xff, 0xff], [0x84, 0xff, 0xff, 0xff, 0xff], [0x88] + .init(repeating: 0xff, count: 8),
        ] {
            #expect(throws: DERError.self) { try CertificateFields([0x30] + octets + [0, 0]) }
        }
    }

    @Test("A summary of a chain contains no server name")
    func summary() async throws {
        let template = CertificateTemplate(subject: "www.private.co.uk", dnsNames: ["www.private.co.uk"])
        let authority = try TestAuthority(leaf: template)
        let policy = try PinningPolicy(pins: [.of(authority.leaf.pin), .spare()])
        let decision = try await evaluate(authority.served, policy, roots: authority, host: "www.private.co.uk")
        #expect(decision.isTrusted)
        let summaries = decision.events.compactMap { event -> ChainSummary? in
            guard case .chainSummary(let summary) = event else { return nil }
            return summary
        }
        let summary = try #require(summaries.first)
        #expect(summary.count == 3)
        #expect(summary.leafKey == "P-256")
        #expect(summary.alternativeNameCount == 1)
        #expect(summary.issuer == "Example Intermediate")
        #expect(!"\(decision.events)".contains("private"))
    }
}
