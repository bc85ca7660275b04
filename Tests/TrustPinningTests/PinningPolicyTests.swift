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

@Suite("Pinning policies")
struct PinningPolicyTests {
    /// The reasons why a policy is not valid; empty if it is.
    private func problems(
        _ pins: [Pin], _ mode: PinningPolicy.Mode = .strict, requiresSystemTrust: Bool = true, fallback: Bool = false
    ) -> [String] {
        do {
            _ = try PinningPolicy(
                pins: pins, mode: mode, requiresSystemTrust: requiresSystemTrust, allowsSystemTrustFallback: fallback)
            return []
        } catch { return error.problems.map(\.description) }
    }

    @Test("Policies that enforce pins need two distinct ones, including a backup")
    func twoPins() throws {
        let one = try Pin.of(TestKey(.p256, "one").pin)
        let two = try Pin.of(TestKey(.p256, "two").pin)
        let backup = try Pin.spare()
        #expect(problems([one, backup]).isEmpty)
        #expect(problems([one, two, backup]).isEmpty)
        #expect(problems([]).count == 2)
        #expect(problems([one]).count == 2)
        #expect(problems([backup]).count == 1)
        #expect(problems([one, two]).count == 1)
        // Two pins with the same hash are one key, regardless of their other fields.
        let again = try Pin(.ca, one.hash, role: .backup)
        #expect(problems([one, again]).contains { $0.contains("both primary and backup") })
        #expect(problems([one, again]).contains { $0.contains("two distinct hashes, not 1") })
        #expect(problems([one, one, backup]) == ["pins: a pin occurs twice"])
    }

    @Test("Permissive policies need one pin, and audits need none")
    func fewerPins() throws {
        let one = try Pin.of(TestKey(.p256, "one").pin)
        #expect(problems([one], .permissive).isEmpty)
        #expect(problems([one], .audit).isEmpty)
        #expect(problems([], .audit).isEmpty)
        #expect(problems([], .permissive).count == 1)
    }

    @Test("Contradictory policies are refused")
    func contradictions() throws {
        let one = try Pin.of(TestKey(.p256, "one").pin)
        let backup = try Pin.spare()
        #expect(problems([one], .audit, requiresSystemTrust: false).count == 1)
        #expect(problems([one], .audit, fallback: true).count == 1)
        #expect(problems([one], .permissive, fallback: true).count == 1)
        #expect(problems([one, backup], fallback: true).isEmpty)
    }

    @Test("Policies without system trust need a leaf pin")
    func leafPins() throws {
        let one = try Pin.of(TestKey(.p256, "one").pin, scope: .root)
        let authority = try Pin.of(TestKey(.p256, "two").pin, .ca, role: .backup)
        #expect(problems([one, authority], requiresSystemTrust: false).count == 1)
        #expect(problems([one, try .spare()], requiresSystemTrust: false).isEmpty)
    }

    @Test("Policies have a bounded number of pins")
    func manyPins() throws {
        let pins = try (0..<64).map { try Pin.of(TestKey(.ed25519, "\($0)").pin) }
        #expect(problems(pins + [try .spare()]).count == 1)
        #expect(problems(pins.dropLast() + [try .spare()]).isEmpty)
    }
}

@Suite("Sets of policies")
struct PolicySetTests {
    private func policy(_ name: String) throws -> PinningPolicy {
        try PinningPolicy(pins: [.of(TestKey(.p256, name).pin), .spare()])
    }

    @Test("Policy sets use the exact name, then the longest pattern, then the rule for unlisted hosts")
    func precedence() throws {
        let set = try PolicySet(
            [
                HostPolicy(.includingSubdomains("example.com"), policy("all")),
                HostPolicy(.wildcard("example.com"), policy("one level")),
                HostPolicy(.exact("www.example.com"), policy("exact")),
                HostPolicy(.includingSubdomains("deep.example.com"), policy("deep")),
                .excluding(.exact("open.example.com")),
                .excluding(.includingSubdomains("free.example.com")),
                HostPolicy(.exact("192.0.2.1"), policy("address")),
            ], unlisted: .pinned(policy("default")))
        let table = [
            "example.com": "all", "www.example.com": "exact", "WWW.EXAMPLE.COM.": "exact",
            "api.example.com": "one level",
            "a.api.example.com": "all", "deep.example.com": "deep", "a.deep.example.com": "deep",
            "a.b.deep.example.com": "deep",
            "192.0.2.1": "address", "192.0.2.2": "default", "other.test": "default", "notexample.com": "default",
        ]
        for (host, name) in table { #expect(try set.policy(for: HostName(host)) == policy(name), "\(host)") }
        for host in ["open.example.com", "free.example.com", "a.b.free.example.com"] {
            #expect(try set.policy(for: HostName(host)) == nil, "\(host)")
        }
        #expect(try set.policy(for: HostName("a.open.example.com")) == policy("all"))
    }

    @Test("The order of hosts in a policy set does not matter")
    func order() throws {
        let hosts = try [
            HostPolicy(.wildcard("example.com"), policy("wild")), HostPolicy(.exact("a.example.com"), policy("exact")),
            HostPolicy(.includingSubdomains("b.example.com"), policy("below")),
        ]
        for list in [hosts, hosts.reversed()] {
            let set = try PolicySet(list, unlisted: .refuse)
            #expect(try set.policy(for: HostName("a.example.com")) == policy("exact"))
            #expect(try set.policy(for: HostName("b.example.com")) == policy("below"))
            #expect(try set.policy(for: HostName("c.example.com")) == policy("wild"))
            #expect(try set.rule(for: HostName("example.com")) == .missing)
        }
    }

    @Test("Policy sets refuse repeated patterns, and exclusions from nothing")
    func problems() throws {
        let error = try #require(throws: PolicyError.self) {
            try PolicySet(
                [
                    HostPolicy(.exact("a.example.com"), policy("1")), HostPolicy(.exact("A.example.com."), policy("2")),
                    .excluding(.exact("b.example.com")),
                ], unlisted: .systemTrust)
        }
        #expect(error.problems.map(\.path) == ["hosts[1].host", "hosts[2]"])
        #expect(throws: Never.self) {
            try PolicySet(
                [.excluding(.exact("b.example.com")), HostPolicy(.includingSubdomains("example.com"), policy("1"))],
                unlisted: .systemTrust)
        }
        #expect(throws: Never.self) { try PolicySet([.excluding(.exact("b.example.com"))], unlisted: .refuse) }
    }

    @Test("The policies of an environment can be selected at run time")
    func environments() throws {
        let production = try PolicySet.only(policy("production"))
        let development = try PolicySet.only(policy("development"))
        var configuration = try TrustConfiguration([.production: production, .development: development])
        #expect(configuration.policies == production)
        try configuration.select(.development)
        #expect(configuration.policies == development)
        #expect(throws: PolicyError.self) { try configuration.select("staging") }
        #expect(configuration.policies == development)
        #expect(throws: PolicyError.self) { try TrustConfiguration([.production: production], selected: "staging") }
        let evaluator = TrustEvaluator(configuration: configuration, systemTrust: FixedTrust.everything)
        try evaluator.select(.production)
        #expect(evaluator.policies == production)
        #expect(throws: PolicyError.self) { try evaluator.select("staging") }
        evaluator.update(development)
        #expect(evaluator.policies == development)
    }
}
