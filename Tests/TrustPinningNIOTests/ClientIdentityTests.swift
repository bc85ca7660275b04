// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NIOConcurrencyHelpers
import Testing
import TrustPinning
import TrustPinningNIOTesting
import TrustPinningTesting

@testable import TrustPinningNIO

@Suite("Client identities")
struct ClientIdentityTests {
    @Test(
        "Client identities are read from PKCS#12",
        arguments: [
            IdentityFixtures.modern, IdentityFixtures.legacy, IdentityFixtures.clear,
        ])
    func bundles(text: String) throws {
        let passphrase = text == IdentityFixtures.clear ? nil : IdentityFixtures.passphrase
        let identity = try ClientIdentity(pkcs12: IdentityFixtures.bytes(text), passphrase: passphrase)
        #expect(identity.certificates.count == 2)
        #expect(identity.validity.lowerBound == TestDate(2026, 1, 1).date)
        #expect(identity.validity.upperBound == TestDate(2027, 1, 1).date)
        #expect(identity.certificates == (try Self.identity()).certificates)
    }

    @Test("Client identities need the correct passphrase", arguments: [nil, "", "wrong"])
    func passphrase(passphrase: String?) {
        #expect(throws: ClientIdentityError.unreadableBundle) {
            try ClientIdentity(pkcs12: IdentityFixtures.bytes(IdentityFixtures.modern), passphrase: passphrase)
        }
    }

    @Test(
        "Incomplete bundles, which would end the process, are refused",
        arguments: [
            (IdentityFixtures.withoutKey, ClientIdentityError.noKey),
            (IdentityFixtures.withoutKeyInClear, .noKey),
            (IdentityFixtures.withoutCertificate, .noCertificate),
        ])
    func incomplete(text: String, error: ClientIdentityError) {
        #expect(throws: error) {
            try ClientIdentity(pkcs12: IdentityFixtures.bytes(text), passphrase: IdentityFixtures.passphrase)
        }
    }

    @Test("Bundles truncated at any length are refused")
    func truncated() {
        let bundle = IdentityFixtures.bytes(IdentityFixtures.clear)
        for count in 0..<bundle.count {
            #expect(throws: ClientIdentityError.self) {
                try ClientIdentity(pkcs12: Array(bundle[..<count]), passphrase: nil)
            }
        }
    }

    @Test(
        "Client identities are read from PEM, with encrypted or unencrypted keys",
        arguments: [
            (IdentityFixtures.keyPEM, nil), (IdentityFixtures.encryptedKeyPEM, "secret"),
        ])
    func pem(key: String, passphrase: String?) throws {
        let identity = try ClientIdentity(
            certificatePEM: Array(IdentityFixtures.chainPEM.utf8), keyPEM: Array(key.utf8), passphrase: passphrase)
        #expect(identity.certificates.count == 2)
    }

    @Test("An unreadable key, or the key of another certificate, is refused")
    func wrongKeys() {
        let chain = Array(IdentityFixtures.chainPEM.utf8)
        #expect(throws: ClientIdentityError.keyOfAnotherCertificate) {
            try ClientIdentity(certificatePEM: chain, keyPEM: Array(IdentityFixtures.otherKeyPEM.utf8))
        }
        #expect(throws: ClientIdentityError.unreadableKey) {
            try ClientIdentity(
                certificatePEM: chain, keyPEM: Array(IdentityFixtures.encryptedKeyPEM.utf8), passphrase: "no")
        }
        #expect(throws: ClientIdentityError.unreadableKey) { try ClientIdentity(certificatePEM: chain, keyPEM: chain) }
        #expect(throws: ClientIdentityError.unreadableCertificate) {
            try ClientIdentity(certificatePEM: [], keyPEM: Array(IdentityFixtures.keyPEM.utf8))
        }
    }

    @Test("A client identity is only for its hosts")
    func binding() async throws {
        let identities = ClientIdentities(now: { TestDate.today.date })
        identities.set(
            try Self.identity(), for: [try HostPattern("api.example.com"), try HostPattern("*.v1.example.com")])
        for (host, isShown) in [
            ("api.example.com", true), ("API.example.com.", true), ("a.v1.example.com", true),
            ("v1.example.com", false),
            ("a.b.v1.example.com", false), ("example.com", false), ("evilapi.example.com", false), ("127.0.0.1", false),
        ] {
            let result = await identities.result(for: try HostName(host))
            if case .success = result { #expect(isShown, "\(host)") } else { #expect(!isShown, "\(host)") }
        }
    }

    @Test(
        "Client identities are not sent outside of their validity period",
        arguments: [
            (TestDate(2025, 12, 31), false), (TestDate(2026, 1, 1), true), (TestDate(2026, 12, 31), true),
            (TestDate(2027, 1, 1), false),
        ])
    func dates(date: TestDate, isShown: Bool) async throws {
        let identities = ClientIdentities(now: { date.date })
        identities.set(try Self.identity(), for: [try HostPattern("api.example.com")])
        switch await identities.result(for: try HostName("api.example.com")) {
        case .success: #expect(isShown)
        case .renewalRequired: #expect(!isShown)
        case .unavailable: Issue.record("unavailable")
        }
    }

    @Test("Each client identity is reported once before it expires")
    func renewal() async throws {
        let events = NIOLockedValueBox<[ClientIdentityEvent]>([])
        let date = NIOLockedValueBox(TestDate(2026, 12, 1).date)
        let identities = ClientIdentities(
            renewalLead: .seconds(14 * 86_400), now: { date.withLockedValue { $0 } },
            onEvent: { event in events.withLockedValue { $0.append(event) } })
        let hosts = [try HostPattern("api.example.com")]
        identities.set(try Self.identity(), for: hosts)
        _ = await identities.result(for: try HostName("api.example.com"))
        #expect(events.withLockedValue { $0 }.isEmpty)
        date.withLockedValue { $0 = TestDate(2026, 12, 18).date }
        for _ in 0..<3 { _ = await identities.result(for: try HostName("api.example.com")) }
        let expected = ClientIdentityEvent.renewalRequired(hosts: hosts, end: TestDate(2027, 1, 1).date)
        #expect(events.withLockedValue { $0 } == [expected])
        identities.set(try Self.identity(), for: hosts)
        #expect(events.withLockedValue { $0 } == [expected, expected])
    }

    @Test("A client identity is loaded once, and again after a failure")
    func loader() async throws {
        let count = NIOLockedValueBox(0)
        let events = NIOLockedValueBox<[ClientIdentityEvent]>([])
        let identities = ClientIdentities(
            now: { TestDate.today.date }, onEvent: { event in events.withLockedValue { $0.append(event) } })
        let hosts = [try HostPattern("api.example.com")]
        identities.setLoader(for: hosts) { () throws(ClientIdentityError) in
            let number = count.withLockedValue { count in
                count += 1
                return count
            }
            guard number > 1 else { throw .unreadableBundle }
            return try Self.identity()
        }
        let host = try HostName("api.example.com")
        if case .unavailable = await identities.result(for: host) {} else { Issue.record("shown") }
        for _ in 0..<3 { if case .success = await identities.result(for: host) {} else { Issue.record("not shown") } }
        #expect(count.withLockedValue { $0 } == 2)
        #expect(events.withLockedValue { $0 } == [.unloadable(hosts: hosts, .unreadableBundle)])
    }

    @Test("A client identity is sent only to its host, and only on request")
    func overTheWire() async throws {
        let authority = try Shared.authority.get()
        let asking = try await LoopbackServer.start(
            chain: authority.served, key: authority.leaf.key, asksForClient: true)
        let silent = try await LoopbackServer.start()
        let events = NIOLockedValueBox<[ClientIdentityEvent]>([])
        let identities = ClientIdentities(
            now: { TestDate.today.date }, onEvent: { event in events.withLockedValue { $0.append(event) } })
        let identity = try Self.identity()
        identities.set(identity, for: [try HostPattern("www.example.com")])
        let tls = try PinnedTLS(identities: identities) { _ in ServerVerdict(isTrusted: true, reason: "test") }

        #expect(String(try await silent.session(tls: tls).data(from: silent.url()).0) == "hello")
        #expect(events.withLockedValue { $0 }.isEmpty)

        let session = try asking.session(tls: tls)
        #expect(String(try await session.data(from: asking.url()).0) == "hello")
        #expect(asking.figures.clientChains == [identity.certificates])
        #expect(events.withLockedValue { $0 } == [.used(host: try HostName("www.example.com"))])

        // The identity is not for this other name of the same server.
        #expect(String(try await session.data(from: asking.url("/", host: "other.example.org")).0) == "hello")
        #expect(asking.figures.clientChains.count == 1)
        #expect(events.withLockedValue { $0 }.last == .missing(host: try HostName("other.example.org")))
    }

    @Test("Client identities are not sent to an untrusted server")
    func untrusted() async throws {
        let authority = try Shared.authority.get()
        let server = try await LoopbackServer.start(
            chain: authority.served, key: authority.leaf.key, asksForClient: true)
        let events = NIOLockedValueBox<[ClientIdentityEvent]>([])
        let identities = ClientIdentities(
            now: { TestDate.today.date }, onEvent: { event in events.withLockedValue { $0.append(event) } })
        identities.set(try Self.identity(), for: [try HostPattern("www.example.com")])
        let tls = try PinnedTLS(identities: identities) { _ in ServerVerdict(isTrusted: false, reason: "test") }
        let session = try server.session(tls: tls)
        let url = try server.url()
        await #expect(throws: PinnedSessionError.self) { try await session.data(from: url) }
        #expect(await server.wait { $0.closed == 1 })
        #expect(server.figures.clientChains.isEmpty)
        #expect(events.withLockedValue { $0 }.isEmpty)
    }

    @Test("A replaced client identity is used immediately, and old connections are not reused")
    func rotation() async throws {
        let authority = try Shared.authority.get()
        let server = try await LoopbackServer.start(
            chain: authority.served, key: authority.leaf.key, asksForClient: true)
        let identities = ClientIdentities(now: { TestDate.today.date })
        let hosts = [try HostPattern("www.example.com")]
        identities.set(try Self.identity(), for: hosts)
        let tls = try PinnedTLS(identities: identities) { _ in ServerVerdict(isTrusted: true, reason: "test") }
        let session = try server.session(tls: tls)
        for _ in 0..<2 { _ = try await session.data(from: server.url()) }
        #expect(server.figures.accepted == 1)

        let key = try TestKey(.p256, "next client")
        let next = try authority.issue(
            CertificateTemplate().with {
                $0.subject = "device-2"
                $0.usages = [.clientAuth]
            }, key: key)
        let identity = try ClientIdentity(certificatePEM: Array(next.pem.utf8), keyPEM: Array(key.pem.utf8))
        identities.set(identity, for: hosts)
        _ = try await session.data(from: server.url())
        #expect(server.figures.accepted == 2)
        #expect(server.figures.clientChains.last == [next.der])
        #expect(await server.wait { $0.closed == 1 })

        identities.remove(for: hosts)
        _ = try await session.data(from: server.url())
        #expect(server.figures.accepted == 3)
        #expect(server.figures.clientChains.count == 2)
    }

    @Test("Client identities with keys of any algorithm are sent", arguments: TestKey.Algorithm.signing)
    func keys(algorithm: TestKey.Algorithm) async throws {
        let authority = try TestAuthority("Clients", algorithm: algorithm)
        let server = try await LoopbackServer.start(
            chain: authority.served, key: authority.leaf.key, asksForClient: true)
        let identities = ClientIdentities(now: { TestDate.today.date })
        let identity = try ClientIdentity(
            certificatePEM: Array((authority.leaf.pem + authority.intermediate.pem).utf8),
            keyPEM: Array(authority.leaf.key.pem.utf8))
        identities.set(identity, for: [try HostPattern("www.example.com")])
        let tls = try PinnedTLS(identities: identities) { _ in ServerVerdict(isTrusted: true, reason: "test") }
        _ = try await server.session(tls: tls).data(from: server.url())
        #expect(server.figures.clientChains == [identity.certificates])
    }

    @Test("Each environment has its own client identity, connection and events")
    func environments() async throws {
        let authority = try Shared.authority.get()
        let server = try await LoopbackServer.start(
            chain: authority.served, key: authority.leaf.key, asksForClient: true)
        let policies = try PolicySet(
            [HostPolicy(.exact("www.example.com"), ServedChain.policy(authority, authority.leaf.pin))],
            unlisted: .refuse)
        let trust = TrustEvaluator(
            configuration: try TrustConfiguration([.production: policies, .acceptance: policies]),
            systemTrust: RootStoreTrust(roots: try .certificates([authority.root.der])))
        let stream = trust.activity()
        let identities = ClientIdentities(now: { TestDate.today.date })
        let identity = try Self.identity()
        identities.set(identity, for: [try HostPattern("www.example.com")], in: .acceptance)
        let session = try server.session(
            tls: PinnedTLS(trust: trust, identities: identities, now: { TestDate.today.date }))
        for environment in [TrustEnvironment.production, .acceptance] {
            try trust.select(environment)
            for _ in 0..<2 { _ = try await session.data(from: server.url()) }
        }
        #expect(server.figures.clientChains.filter { !$0.isEmpty } == [identity.certificates])
        let host = try HostName("www.example.com")
        var told: [ClientIdentityEvent] = []
        for await activity in stream {
            if case .identity(let event, _) = activity { told.append(event) }
            if told.count == 2 { break }
        }
        #expect(told == [.missing(host: host), .used(host: host)])
    }

    private static func identity() throws(ClientIdentityError) -> ClientIdentity {
        try ClientIdentity(
            certificatePEM: Array(IdentityFixtures.chainPEM.utf8), keyPEM: Array(IdentityFixtures.keyPEM.utf8))
    }
}
