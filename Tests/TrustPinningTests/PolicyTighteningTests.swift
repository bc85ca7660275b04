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

@Suite("Tightening policies")
struct PolicyTighteningTests {
    private let one: Pin
    private let two: Pin
    private let backup: Pin

    init() throws {
        one = try .of(TestKey(.p256, "one").pin)
        two = try .of(TestKey(.p256, "two").pin)
        backup = try .spare()
    }

    private func set(_ policy: PinningPolicy) throws -> PolicySet { try .only(policy) }

    private func isTighter(_ new: PolicySet, than old: PolicySet) -> Bool { new.loosenings(comparedTo: old).isEmpty }

    @Test("Pins, modes, system trust, fallback and expiry determine whether a policy is tighter")
    func policies() throws {
        typealias Expiry = PinningPolicy.Expiry
        let early = TestDate(2026, 7, 1).date
        let late = TestDate(2026, 8, 1).date
        let all = [one, two, backup]
        let fewer = [one, backup]
        let strict = try PinningPolicy(pins: all)
        func untrusted(_ expiry: Expiry?) throws -> PinningPolicy {
            try PinningPolicy(pins: all, requiresSystemTrust: false, expiry: expiry)
        }
        let table: [(String, PinningPolicy, PinningPolicy, Bool)] = [
            ("the same", strict, strict, true), ("a pin less", strict, try PinningPolicy(pins: fewer), true),
            ("a pin more", try PinningPolicy(pins: fewer), strict, false),
            (
                "a narrower scope", try PinningPolicy(pins: fewer),
                try PinningPolicy(pins: [Pin(.spki, one.hash, scope: .leaf), backup]), true
            ),
            (
                "a wider scope", try PinningPolicy(pins: [Pin(.spki, one.hash, scope: .leaf), backup]),
                try PinningPolicy(pins: fewer), false
            ),
            ("permissive to strict", try PinningPolicy(pins: all, mode: .permissive), strict, true),
            ("strict to permissive", strict, try PinningPolicy(pins: all, mode: .permissive), false),
            ("audit to strict", try PinningPolicy(pins: all, mode: .audit), strict, true),
            ("strict to audit", strict, try PinningPolicy(pins: all, mode: .audit), false),
            (
                "permissive to audit", try PinningPolicy(pins: all, mode: .permissive),
                try PinningPolicy(pins: all, mode: .audit),
                false
            ),
            ("fallback", strict, try PinningPolicy(pins: all, allowsSystemTrustFallback: true), false),
            ("no fallback", try PinningPolicy(pins: all, allowsSystemTrustFallback: true), strict, true),
            ("without system trust", strict, try PinningPolicy(pins: all, requiresSystemTrust: false), false),
            ("with system trust", try PinningPolicy(pins: all, requiresSystemTrust: false), strict, true),
            (
                "without system trust, other leaf pins",
                try PinningPolicy(pins: fewer, mode: .permissive, requiresSystemTrust: false),
                try PinningPolicy(pins: [two, backup], mode: .permissive, requiresSystemTrust: false), false
            ),
            ("to expire open", strict, try PinningPolicy(pins: all, expiry: Expiry(late)), false),
            ("to expire closed", strict, try PinningPolicy(pins: all, expiry: Expiry(late, afterwards: .refuse)), true),
            ("not to expire open", try PinningPolicy(pins: all, expiry: Expiry(late)), strict, true),
            (
                "to expire open sooner", try PinningPolicy(pins: all, expiry: Expiry(late)),
                try PinningPolicy(pins: all, expiry: Expiry(early)), false
            ),
            (
                "to expire open later", try PinningPolicy(pins: all, expiry: Expiry(early)),
                try PinningPolicy(pins: all, expiry: Expiry(late)), true
            ),
            (
                "to expire closed later", try PinningPolicy(pins: all, expiry: Expiry(early, afterwards: .refuse)),
                try PinningPolicy(pins: all, expiry: Expiry(late, afterwards: .refuse)), false
            ),
            (
                "to expire open instead of closed",
                try PinningPolicy(pins: all, expiry: Expiry(early, afterwards: .refuse)),
                try PinningPolicy(pins: all, expiry: Expiry(late)), false
            ),
            (
                "without system trust, never to expire", try untrusted(Expiry(early)), try untrusted(nil), false
            ),
            ("without system trust, to expire later", try untrusted(Expiry(early)), try untrusted(Expiry(late)), false),
            (
                "without system trust, to expire closed later", try untrusted(Expiry(early)),
                try untrusted(Expiry(late, afterwards: .refuse)), false
            ),
            (
                "without system trust, to expire closed at the same time", try untrusted(Expiry(early)),
                try untrusted(Expiry(early, afterwards: .refuse)), true
            ),
            ("without system trust, the same", try untrusted(Expiry(early)), try untrusted(Expiry(early)), true),
        ]
        for (name, old, new, expected) in table {
            #expect(try isTighter(set(new), than: set(old)) == expected, "\(name)")
        }
    }

    @Test("Each group of hosts that patterns distinguish is compared")
    func hosts() throws {
        let strict = try PinningPolicy(pins: [one, backup])
        let looser = try PinningPolicy(pins: [one, two, backup])
        let base = try PolicySet(
            [HostPolicy(.includingSubdomains("example.com"), strict)], unlisted: .systemTrust)
        func with(_ extra: HostPolicy..., unlisted: UnlistedHosts = .systemTrust) throws -> PolicySet {
            try PolicySet(base.hosts + extra, unlisted: unlisted)
        }
        #expect(try isTighter(with(unlisted: .refuse), than: base))
        #expect(try isTighter(with(HostPolicy(.exact("other.test"), looser)), than: base))
        #expect(try !isTighter(base, than: with(HostPolicy(.exact("other.test"), looser))))
        #expect(try !isTighter(with(HostPolicy(.exact("a.example.com"), looser)), than: base))
        #expect(try !isTighter(with(HostPolicy(.wildcard("example.com"), looser)), than: base))
        #expect(try !isTighter(with(HostPolicy(.wildcard("deep.example.com"), looser)), than: base))
        #expect(try !isTighter(with(HostPolicy(.includingSubdomains("deep.example.com"), looser)), than: base))
        #expect(try !isTighter(with(.excluding(.exact("a.example.com"))), than: base))
        let narrower = try PolicySet([HostPolicy(.wildcard("example.com"), strict)], unlisted: .systemTrust)
        #expect(narrower.loosenings(comparedTo: base).count == 2)
        let refusing = try PolicySet([], unlisted: .refuse)
        #expect(isTighter(refusing, than: base))
        #expect(!isTighter(base, than: refusing))
        let address = try PolicySet([HostPolicy(.exact("192.0.2.1"), strict)], unlisted: .systemTrust)
        #expect(try isTighter(address, than: PolicySet([], unlisted: .systemTrust)))
        #expect(try !isTighter(PolicySet([], unlisted: .systemTrust), than: address))
    }

    @Test("New policies cannot choose the host that is compared")
    func namedSample() throws {
        let strict = try PinningPolicy(pins: [one, backup])
        let base = try PolicySet([HostPolicy(.wildcard("example.com"), strict)], unlisted: .refuse)
        // Listing the representative label does not help: then another label represents the other hosts.
        let labels = ["x-culvert-x-any-other-host-x", "0", "1", "2", "a", "z", "10"]
        for count in 1...labels.count {
            var hosts = [HostPolicy.excluding(try .wildcard("example.com"))]
            for label in labels.prefix(count) {
                hosts.append(HostPolicy(try .exact("\(label).example.com"), strict))
                hosts.append(HostPolicy(try .exact("\(label).\(label).invalid"), strict))
            }
            #expect(try !isTighter(PolicySet(hosts, unlisted: .refuse), than: base))
            #expect(try !isTighter(PolicySet(hosts.dropFirst() + base.hosts, unlisted: .systemTrust), than: base))
        }
    }

    @Test("Policies of names close to the maximum length are compared")
    func longNames() throws {
        let strict = try PinningPolicy(pins: [one, backup])
        // There is room for two labels of one character.
        let name = Array(repeating: String(repeating: "n", count: 61), count: 4).joined(separator: ".") + ".nn"
        #expect(name.utf8.count == 250)
        let base = try PolicySet([HostPolicy(.wildcard(name), strict)], unlisted: .refuse)
        let open = try PolicySet([.excluding(.wildcard(name))], unlisted: .refuse)
        #expect(!isTighter(open, than: base))
    }
}
