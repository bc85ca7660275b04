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

@Suite("Waiting requests")
struct QueuedRequestTests {
    /// A server that does not respond to the first request until ``release()``.
    private struct Scene {
        let server: LoopbackServer
        private let held: NIOLockedValueBox<LoopbackServer.Connection?>

        init(asksForClient: Bool = false) async throws {
            let authority = try Shared.authority.get()
            let held = NIOLockedValueBox<LoopbackServer.Connection?>(nil)
            self.held = held
            server = try await LoopbackServer.start(
                chain: authority.served, key: authority.leaf.key, asksForClient: asksForClient,
                script: { request in
                    switch (request.head.method, request.head.uri) {
                    case (_, "/held"): [.call { connection in held.withLockedValue { $0 = connection } }]
                    case (.PUT, _): [.abort]
                    default: [.send(LoopbackServer.ok("\(request.connection)"))]
                    }
                })
        }

        func isHeld() async -> Bool { await server.wait { _ in held.withLockedValue { $0 != nil } } }

        func release() { held.withLockedValue { $0 }?.take([.send(LoopbackServer.ok("held"))]) }
    }

    enum Change: CaseIterable {
        case policy, expiry

        /// The reason of the decision after the change.
        var reason: TrustDecision.Reason { self == .policy ? .pinningFailed : .pinSetExpiredRefused }
    }

    /// Policies that trust the server until they change.
    private struct Policies {
        let tls: PinnedTLS
        private let trust: TrustEvaluator
        private let other: PolicySet
        private let now: NIOLockedValueBox<Date>

        /// - Parameter onVerify: Called during each verification of a chain.
        init(onVerify: @escaping @Sendable () -> Void = {}) throws {
            let authority = try Shared.authority.get()
            let expiry = PinningPolicy.Expiry(TestDate(2026, 6, 2).date, afterwards: .refuse)
            let trust = TrustEvaluator(
                policies: try Self.set(ServedChain.policy(authority, authority.leaf.pin, expiry: expiry)),
                systemTrust: WatchedTrust(
                    roots: RootStoreTrust(roots: try .certificates([authority.root.der])), onVerify: onVerify))
            let now = NIOLockedValueBox(TestDate.today.date)
            other = try Self.set(ServedChain.policy(authority, TestKey(.p256, "nobody's").pin))
            tls = try PinnedTLS(trust: trust, now: { now.withLockedValue { $0 } })
            (self.trust, self.now) = (trust, now)
        }

        private static func set(_ policy: PinningPolicy) throws -> PolicySet {
            try PolicySet([HostPolicy(.exact("www.example.com"), policy)], unlisted: .refuse)
        }

        func make(_ change: Change) {
            switch change {
            case .policy: trust.update(other)
            case .expiry: now.withLockedValue { $0 = TestDate(2026, 6, 3).date }
            }
        }
    }

    /// System trust that reports each verification.
    private struct WatchedTrust: SystemTrust {
        let roots: RootStoreTrust
        let onVerify: @Sendable () -> Void

        func verify(_ request: SystemTrustRequest) async -> SystemTrustResult {
            onVerify()
            return await roots.verify(request)
        }
    }

    @Test("A waiting request is refused if the policy changes or expires before its turn", arguments: Change.allCases)
    func trust(change: Change) async throws {
        let scene = try await Scene()
        let policies = try Policies()
        let session = try scene.server.session(tls: policies.tls) { $0.connectionsPerHost = 1 }
        let (held, next) = try (scene.server.url("/held"), scene.server.url("/next"))
        let first = Task { try await session.data(from: held) }
        #expect(await scene.isHeld())
        let second = Task { try await session.data(from: next) }
        #expect(try await session.wait { $0.waiting == 1 })
        policies.make(change)
        scene.release()
        #expect(String(try await first.value.0) == "held")
        let error = await #expect(throws: PinnedSessionError.self) { try await second.value }
        guard case .untrusted(_, let verdict) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(verdict.decision?.reason == change.reason)
        #expect(scene.server.figures.requests.map(\.head.uri) == ["/held"])
    }

    @Test(
        "A request is refused if the policy changes or expires while its connection opens",
        arguments: Change.allCases)
    func trustWhileOpening(change: Change) async throws {
        let server = try await LoopbackServer.start()
        let box = NIOLockedValueBox<Policies?>(nil)
        let policies = try Policies { box.withLockedValue { $0 }?.make(change) }
        box.withLockedValue { $0 = policies }
        // The policies hold the box.
        defer { box.withLockedValue { $0 = nil } }
        let session = try server.session(tls: policies.tls) { $0.connectionsPerHost = 1 }
        let url = try server.url()
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(from: url) }
        guard case .untrusted(_, let verdict) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(verdict.decision?.reason == change.reason)
        // The first connection was trusted when it opened, and the request was not sent on it.
        #expect(server.figures.accepted == 2)
        #expect(server.figures.requests.isEmpty)
    }

    @Test("A request is sent on a second connection if its identity is removed while the first one opens")
    func identityWhileOpening() async throws {
        let server = try await LoopbackServer.start { [.send(LoopbackServer.ok("\($0.connection)"))] }
        let identities = ClientIdentities(now: { TestDate.today.date })
        let hosts = [try HostPattern("www.example.com")]
        identities.set(
            try ClientIdentity(
                certificatePEM: Array(IdentityFixtures.chainPEM.utf8), keyPEM: Array(IdentityFixtures.keyPEM.utf8)),
            for: hosts)
        let tls = try PinnedTLS(identities: identities) { _ in
            identities.remove(for: hosts)
            return ServerVerdict(isTrusted: true, reason: "test")
        }
        let session = try server.session(tls: tls) { $0.connectionsPerHost = 1 }
        #expect(String(try await session.data(from: server.url()).0) == "1")
        #expect(server.figures.requests.map(\.connection) == [1])
        #expect(await server.wait { $0.closed == 1 })
    }

    @Test("A waiting request is not sent on a connection whose identity was removed before its turn")
    func identity() async throws {
        let scene = try await Scene(asksForClient: true)
        let identities = ClientIdentities(now: { TestDate.today.date })
        let hosts = [try HostPattern("www.example.com")]
        let identity = try ClientIdentity(
            certificatePEM: Array(IdentityFixtures.chainPEM.utf8), keyPEM: Array(IdentityFixtures.keyPEM.utf8))
        identities.set(identity, for: hosts)
        let tls = try PinnedTLS(identities: identities) { _ in ServerVerdict(isTrusted: true, reason: "test") }
        let session = try scene.server.session(tls: tls) { $0.connectionsPerHost = 1 }
        let (held, next) = try (scene.server.url("/held"), scene.server.url("/next"))
        let first = Task { try await session.data(from: held) }
        #expect(await scene.isHeld())
        let second = Task { try await session.data(from: next) }
        #expect(try await session.wait { $0.waiting == 1 })
        identities.remove(for: hosts)
        scene.release()
        #expect(String(try await first.value.0) == "held")
        #expect(String(try await second.value.0) == "1")
        #expect(scene.server.figures.clientChains.filter { !$0.isEmpty } == [identity.certificates])
    }

    @Test("A request whose connection the server closes is sent at most twice, the second time on a new connection")
    func attempts() async throws {
        let scene = try await Scene()
        let session = try scene.server.session { $0.connectionsPerHost = 1 }
        let (held, next) = try (scene.server.url("/held"), scene.server.url("/next"))
        let first = Task { try await session.data(from: held) }
        #expect(await scene.isHeld())
        let request = PinnedRequest(url: next, method: .PUT, body: .bytes("data".utf8))
        let put = Task { try await session.data(for: request) }
        #expect(try await session.wait { $0.waiting == 1 })
        // They receive the slot of the closed connection, so that the second attempt uses theirs.
        let others = (0..<3).map { _ in Task { try await session.data(from: next) } }
        #expect(try await session.wait { $0.waiting == 4 })
        scene.release()
        _ = try await first.value
        await #expect(throws: PinnedSessionError.self) { try await put.value }
        for other in others { _ = try await other.value }
        let puts = scene.server.figures.requests.filter { $0.head.method == .PUT }
        #expect(puts.count == 2)
        #expect(puts.last?.index == 0)
    }
}
