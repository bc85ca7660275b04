// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import Testing
import TrustPinning
import TrustPinningNIOTesting
import TrustPinningTesting

@testable import TrustPinningNIO

/// Real servers, each with one kind of certificates, evaluated with policies: the rows of the decision table that
/// affect connections.
@Suite("Servers evaluated with policies")
struct EvaluatedServerTests {
    @Test("A server receives a request only if it is trusted", arguments: ServedChain.all)
    func table(row: ServedChain) async throws {
        let authority = try Shared.authority.get()
        let served = try row.serve(authority)
        let server = try await LoopbackServer.start(chain: served.chain, key: served.key)
        let roots = try RootStore.certificates([authority.root.der])
        let trust = TrustEvaluator(
            policies: try row.policies(authority, served.key), systemTrust: RootStoreTrust(roots: roots))
        let session = try server.session(tls: PinnedTLS(trust: trust, now: { TestDate.today.date }))
        let url = try server.url("/", host: row.host)
        let request = PinnedRequest(url: url, method: .POST, body: .bytes("secret".utf8))
        guard !row.reason.isTrusted else {
            #expect(String(try await session.data(for: request).0) == "hello")
            return
        }
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(for: request) }
        guard case .untrusted(_, let verdict) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(verdict.decision?.reason == row.reason)
        if let failure = row.failure {
            let isNamed = verdict.decision?.events.contains { event in
                switch event {
                case .systemTrustFailed(let why), .systemTrustFailedPermissive(let why): why.code == failure
                default: false
                }
            }
            #expect(isNamed == true, "\(verdict.reason)")
        }
        #expect(await server.wait { $0.closed == 1 })
        #expect(server.figures.handshakes == 0)
        #expect(server.figures.applicationBytes == 0)
    }

    @Test("Servers with keys of any algorithm match their pins", arguments: TestKey.Algorithm.signing)
    func keys(algorithm: TestKey.Algorithm) async throws {
        let authority = try TestAuthority("Keys", algorithm: algorithm)
        let server = try await LoopbackServer.start(chain: authority.served, key: authority.leaf.key)
        let policy = try PinningPolicy(pins: [
            Pin(.spki, authority.leaf.pin, scope: .leaf), Pin(.spki, authority.backupKey().pin, role: .backup),
        ])
        let policies = try PolicySet([HostPolicy(.exact("www.example.com"), policy)], unlisted: .refuse)
        let trust = TrustEvaluator(
            policies: policies, systemTrust: RootStoreTrust(roots: try .certificates([authority.root.der])))
        let session = try server.session(tls: PinnedTLS(trust: trust, now: { TestDate.today.date }))
        #expect(String(try await session.data(from: server.url()).0) == "hello")
    }

    @Test("A policy change closes kept connections")
    func update() async throws {
        let authority = try Shared.authority.get()
        let server = try await LoopbackServer.start()
        let good = try ServedChain.policy(authority, authority.leaf.pin)
        let hosts = try HostPolicy(.exact("www.example.com"), good)
        let trust = TrustEvaluator(
            policies: try PolicySet([hosts], unlisted: .refuse),
            systemTrust: RootStoreTrust(roots: try .certificates([authority.root.der])))
        let session = try server.session(tls: PinnedTLS(trust: trust, now: { TestDate.today.date }))
        for _ in 0..<2 { _ = try await session.data(from: server.url()) }
        #expect(server.figures.accepted == 1)

        // The same policy in another set keeps the connection.
        trust.update(try PolicySet([hosts], unlisted: .systemTrust))
        _ = try await session.data(from: server.url())
        #expect(server.figures.accepted == 1)

        let other = try ServedChain.policy(authority, TestKey(.p256, "nobody's").pin)
        trust.update(try PolicySet([HostPolicy(.exact("www.example.com"), other)], unlisted: .refuse))
        let url = try server.url()
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(from: url) }
        guard case .untrusted(_, let verdict) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(verdict.decision?.reason == .pinningFailed)
        #expect(await server.wait { $0.closed == 2 })
        #expect(server.figures.requests.count == 3)
    }

    @Test("Expiry of pins closes kept connections")
    func expiry() async throws {
        let authority = try Shared.authority.get()
        let server = try await LoopbackServer.start()
        let expiry = PinningPolicy.Expiry(TestDate(2026, 6, 2).date, afterwards: .refuse)
        let policy = try ServedChain.policy(authority, authority.leaf.pin, expiry: expiry)
        let trust = TrustEvaluator(
            policies: try PolicySet([HostPolicy(.exact("www.example.com"), policy)], unlisted: .refuse),
            systemTrust: RootStoreTrust(roots: try .certificates([authority.root.der])))
        let now = NIOLockedValueBox(TestDate.today.date)
        let session = try server.session(tls: PinnedTLS(trust: trust, now: { now.withLockedValue { $0 } }))
        for _ in 0..<2 { _ = try await session.data(from: server.url()) }
        #expect(server.figures.accepted == 1)
        now.withLockedValue { $0 = TestDate(2026, 6, 3).date }
        let url = try server.url()
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(from: url) }
        guard case .untrusted(_, let verdict) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(verdict.decision?.reason == .pinSetExpiredRefused)
        #expect(server.figures.requests.count == 2)
    }

    @Test("Redirects are followed only within the policy")
    func redirects() async throws {
        let authority = try Shared.authority.get()
        let server = try await LoopbackServer.start { request in
            guard request.head.uri.hasPrefix("/to/") else { return [.send(LoopbackServer.ok("end"))] }
            let host = request.head.uri.dropFirst(4)
            let place = "https://\(host):\(request.head.headers["host"][0].split(separator: ":")[1])/"
            return [.send(LoopbackServer.answer("302 Found", "", ["Location: \(place)"]))]
        }
        let shared = try ServedChain.policy(authority, authority.leaf.pin)
        let other = try PinningPolicy(pins: [
            Pin(.ca, authority.intermediate.pin), Pin(.spki, authority.backupKey().pin, role: .backup),
        ])
        let policies = try PolicySet(
            [
                HostPolicy(.exact("www.example.com"), shared), HostPolicy(.wildcard("*.api.example.com"), shared),
                HostPolicy(.exact("v2.api.example.com"), other),
            ], unlisted: .systemTrust)
        let trust = TrustEvaluator(
            policies: policies, systemTrust: RootStoreTrust(roots: try .certificates([authority.root.der])))
        let session = try server.session(
            tls: PinnedTLS(trust: trust, now: { TestDate.today.date }),
            hosts: ["www.example.com", "v1.api.example.com", "v2.api.example.com", "other.example.org"])
        #expect(String(try await session.data(from: server.url("/to/v1.api.example.com")).0) == "end")
        for host in ["v2.api.example.com", "other.example.org"] {
            let url = try server.url("/to/\(host)")
            let error = await #expect(throws: PinnedSessionError.self) { try await session.data(from: url) }
            guard case .redirectRefused = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
        }
    }
}

/// A server's chain, the policy for it, and the required result.
struct ServedChain: Sendable, CustomTestStringConvertible {
    typealias Served = (chain: [[UInt8]], key: TestKey)

    var testDescription: String
    var host = "www.example.com"
    var reason: TrustDecision.Reason
    var failure: SystemTrustFailure.Code?
    var serve: @Sendable (TestAuthority) throws -> Served = { ($0.served, $0.leaf.key) }
    var policies: @Sendable (TestAuthority, TestKey) throws -> PolicySet

    /// Returns a policy with one pin and a backup.
    static func policy(
        _ authority: TestAuthority, _ pin: String, scope: Pin.Scope = .any, mode: PinningPolicy.Mode = .strict,
        requiresSystemTrust: Bool = true, fallback: Bool = false, expiry: PinningPolicy.Expiry? = nil
    ) throws -> PinningPolicy {
        try PinningPolicy(
            pins: [
                Pin(.spki, pin, scope: scope), Pin(.spki, TestKey(.p256, "offline").pin, role: .backup),
            ], mode: mode, requiresSystemTrust: requiresSystemTrust, allowsSystemTrustFallback: fallback, expiry: expiry
        )
    }

    private static func set(_ policy: PinningPolicy) throws -> PolicySet {
        try PolicySet([HostPolicy(.includingSubdomains("example.com"), policy)], unlisted: .refuse)
    }

    /// Pins the server's key.
    private static let pinned: @Sendable (TestAuthority, TestKey) throws -> PolicySet = { authority, key in
        try set(policy(authority, key.pin))
    }

    /// Pins a key that the server does not have.
    private static func mismatch(
        mode: PinningPolicy.Mode = .strict, fallback: Bool = false
    ) -> @Sendable (TestAuthority, TestKey) throws -> PolicySet {
        { authority, _ in try set(policy(authority, TestKey(.p256, "nobody's").pin, mode: mode, fallback: fallback)) }
    }

    private static func leaf(_ change: @escaping @Sendable (inout CertificateTemplate) -> Void)
        -> @Sendable (TestAuthority) throws -> Served
    {
        { authority in
            let leaf = try authority.issue(CertificateTemplate().with(change), key: authority.leaf.key)
            return ([leaf.der, authority.intermediate.der], leaf.key)
        }
    }

    private static func selfSigned(_ change: @escaping @Sendable (inout CertificateTemplate) -> Void = { _ in })
        -> @Sendable (TestAuthority) throws -> Served
    {
        { _ in
            let leaf = try TestCertificate(CertificateTemplate().with(change), key: TestKey(.p256, "of its own making"))
            return ([leaf.der], leaf.key)
        }
    }

    /// Accepts a self-made certificate if its key is pinned.
    private static let withoutSystemTrust: @Sendable (TestAuthority, TestKey) throws -> PolicySet = { authority, key in
        try set(policy(authority, key.pin, scope: .leaf, requiresSystemTrust: false))
    }

    static let all: [ServedChain] = matches + brokenChains + selfSignedChains + mismatches + rules

    private static let matches: [ServedChain] = [
        ServedChain(testDescription: "pin of the leaf", reason: .pinMatch, policies: pinned),
        ServedChain(testDescription: "pin of the intermediate", reason: .pinMatch) { authority, _ in
            try set(policy(authority, authority.intermediate.pin, scope: .intermediate))
        },
        ServedChain(testDescription: "pin of the root, which is not sent", reason: .pinMatch) { authority, _ in
            try set(policy(authority, authority.root.pin, scope: .root))
        },
        ServedChain(
            testDescription: "pin of an authority that renewed its certificate", reason: .pinMatch,
            serve: { authority in
                let again = try TestCertificate(
                    authority.intermediate.template.with { $0.serialNumber += 1 }, key: authority.intermediate.key,
                    issuer: authority.root)
                return ([authority.leaf.der, again.der], authority.leaf.key)
            },
            policies: { authority, _ in
                try set(
                    PinningPolicy(pins: [
                        Pin(.ca, authority.intermediate.pin), Pin(.spki, TestKey(.p256, "offline").pin, role: .backup),
                    ]))
            }),
        ServedChain(
            testDescription: "leaf renewed for the same key", reason: .pinMatch,
            serve: { ([try $0.reissuedLeaf().der, $0.intermediate.der], $0.leaf.key) }, policies: pinned),
        ServedChain(
            testDescription: "leaf with the backup key", reason: .pinMatch,
            serve: { authority in
                let key = try TestKey(.p256, "offline")
                return ([try authority.issue(key: key).der, authority.intermediate.der], key)
            }, policies: { authority, _ in try set(policy(authority, authority.leaf.pin)) }),
        ServedChain(
            testDescription: "authority cross-signed by a root that is not trusted", reason: .pinMatch,
            serve: { authority in
                let other = try authority.crossSignedIntermediate(by: TestAuthority("Other"))
                return ([authority.leaf.der, other.der, authority.intermediate.der], authority.leaf.key)
            }, policies: pinned),
        ServedChain(
            testDescription: "unreadable certificates later in the chain", reason: .pinMatch,
            serve: { authority in
                let strange = try TestCertificate(.authority("Strange"), key: TestKey(.secp256k1, "strange"))
                return (authority.served + [strange.der], authority.leaf.key)
            }, policies: pinned),
    ]

    /// Cases in which the pin matches.
    private static let brokenChains: [ServedChain] = [
        ServedChain(
            testDescription: "matching pin, chain cut", reason: .trustFailed, failure: .unknownIssuer,
            serve: { ([$0.leaf.der], $0.leaf.key) }, policies: pinned),
        ServedChain(
            testDescription: "matching pin, another authority", reason: .trustFailed, failure: .unknownIssuer,
            serve: { _ in
                let other = try TestAuthority("Other")
                return (other.served, other.leaf.key)
            }, policies: pinned),
        ServedChain(
            testDescription: "matching pin, expired", reason: .trustFailed, failure: .expired,
            serve: leaf {
                $0.notBefore = TestDate(2025, 1, 1)
                $0.notAfter = TestDate(2025, 12, 31)
            }, policies: pinned),
        ServedChain(
            testDescription: "matching pin, not valid yet", reason: .trustFailed, failure: .notYetValid,
            serve: leaf { $0.notBefore = TestDate(2026, 7, 1) }, policies: pinned),
        ServedChain(
            testDescription: "matching pin, wrong host", host: "v1.example.com", reason: .trustFailed,
            failure: .wrongName,
            policies: pinned),
        ServedChain(
            testDescription: "matching pin, host in the common name only", reason: .trustFailed, failure: .wrongName,
            serve: leaf { $0.dnsNames = [] }, policies: pinned),
        ServedChain(
            testDescription: "matching pin, wildcard over two labels", host: "a.b.api.example.com",
            reason: .trustFailed,
            failure: .wrongName, policies: pinned),
        ServedChain(
            testDescription: "matching pin, not for servers", reason: .trustFailed, failure: .wrongUsage,
            serve: leaf { $0.usages = [.clientAuth] }, policies: pinned),
        ServedChain(
            testDescription: "matching pin, issued by a certificate that is no authority", reason: .trustFailed,
            serve: { authority in
                let key = try TestKey(.p256, "issued by a leaf")
                return (
                    [try TestCertificate(key: key, issuer: authority.leaf).der] + authority.served, key
                )
            }, policies: pinned),
        ServedChain(
            testDescription: "matching pin, more than ten certificates", reason: .invalidChain,
            serve: { _ in
                let chain = try TestAuthority.longChain(11)
                return (chain.map(\.der), chain[0].key)
            }, policies: pinned),
    ]

    private static let selfSignedChains: [ServedChain] = [
        ServedChain(
            testDescription: "matching pin, self-signed", reason: .trustFailed, failure: .unknownIssuer,
            serve: selfSigned(), policies: pinned),
        ServedChain(
            testDescription: "self-signed, permissive", reason: .trustFailed, failure: .unknownIssuer,
            serve: selfSigned(),
            policies: mismatch(mode: .permissive)),
        ServedChain(
            testDescription: "self-signed, audited", reason: .trustFailed, failure: .unknownIssuer, serve: selfSigned(),
            policies: mismatch(mode: .audit)),
        ServedChain(
            testDescription: "self-signed, as the policy allows", reason: .leafPinMatchWithoutSystemTrust,
            serve: selfSigned(), policies: withoutSystemTrust),
        ServedChain(
            testDescription: "self-signed, as the policy allows, but expired", reason: .trustFailed, failure: .expired,
            serve: selfSigned { $0.notAfter = TestDate(2026, 5, 1) }, policies: withoutSystemTrust),
        ServedChain(
            testDescription: "self-signed, as the policy allows, but for another host", reason: .trustFailed,
            failure: .wrongName, serve: selfSigned { $0.dnsNames = ["other.example.com"] }, policies: withoutSystemTrust
        ),
        ServedChain(
            testDescription: "self-signed, as the policy allows, with another key", reason: .pinningFailed,
            serve: selfSigned(),
            policies: { authority, _ in
                try set(policy(authority, authority.leaf.pin, scope: .leaf, requiresSystemTrust: false))
            }),
    ]

    private static let mismatches: [ServedChain] = [
        ServedChain(testDescription: "no pin matches", reason: .pinningFailed, policies: mismatch()),
        ServedChain(
            testDescription: "leaf with a new key that is not pinned", reason: .pinningFailed,
            serve: { ([try $0.rotatedLeaf().der, $0.intermediate.der], try $0.backupKey()) },
            policies: { authority, _ in try set(policy(authority, authority.leaf.pin)) }),
        ServedChain(
            testDescription: "pinned certificate put into a chain it is no part of", reason: .pinningFailed,
            serve: { authority in
                let other = try TestAuthority("Other")
                return (authority.served + [other.root.der, other.intermediate.der], authority.leaf.key)
            },
            policies: { authority, _ in try set(policy(authority, TestAuthority("Other").root.pin)) }),
        ServedChain(
            testDescription: "no pin matches, with fallback", reason: .pinMismatchAllowedByFallback,
            policies: mismatch(fallback: true)),
        ServedChain(
            testDescription: "no pin matches, permissive", reason: .pinMismatchPermissive,
            policies: mismatch(mode: .permissive)),
        ServedChain(
            testDescription: "no pin matches, audited", reason: .pinMismatchAudited, policies: mismatch(mode: .audit)),
    ]

    private static let rules: [ServedChain] = [
        ServedChain(testDescription: "no policy", reason: .policyMissing) { _, _ in try PolicySet([], unlisted: .refuse)
        },
        ServedChain(testDescription: "left to system trust", reason: .systemTrustAllowed) { _, _ in
            try PolicySet([], unlisted: .systemTrust)
        },
        ServedChain(
            testDescription: "left to system trust, self-signed", reason: .trustFailed, failure: .unknownIssuer,
            serve: selfSigned(), policies: { _, _ in try PolicySet([], unlisted: .systemTrust) }),
        ServedChain(testDescription: "pins expired", reason: .pinSetExpired) { authority, _ in
            let expiry = PinningPolicy.Expiry(TestDate(2026, 5, 31).date)
            return try set(policy(authority, TestKey(.p256, "nobody's").pin, expiry: expiry))
        },
        ServedChain(testDescription: "pins expired, refusing then", reason: .pinSetExpiredRefused) { authority, key in
            let expiry = PinningPolicy.Expiry(TestDate(2026, 5, 31).date, afterwards: .refuse)
            return try set(policy(authority, key.pin, expiry: expiry))
        },
        ServedChain(
            testDescription: "pins expired, self-signed", reason: .trustFailed, failure: .unknownIssuer,
            serve: selfSigned(),
            policies: { authority, key in
                let expiry = PinningPolicy.Expiry(TestDate(2026, 5, 31).date)
                return try set(policy(authority, key.pin, expiry: expiry))
            }),
    ]
}
