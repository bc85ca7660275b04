// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NIOHTTP1
import Testing
import TrustPinning
import TrustPinningNIOTesting
import TrustPinningTesting

@testable import TrustPinningNIO

@Suite("Reports over a session")
struct SessionReportTransportTests {
    private func transport(to server: LoopbackServer, trusts: Bool = true) throws -> SessionReportTransport {
        let authority = try trusts ? Shared.authority.get() : TestAuthority("Other")
        var configuration = SessionReportTransport.configuration
        let url = try server.url()
        let place = "127.0.0.1:\(url.port ?? 0)"
        try configuration.setDetour(from: "www.example.com:\(url.port ?? 0)", to: place)
        return SessionReportTransport(
            systemTrust: RootStoreTrust(roots: try .certificates([authority.root.der])), configuration: configuration,
            now: { TestDate.today.date })
    }

    @Test("Reports arrive as JSON, even at the host whose pins failed")
    func arrives() async throws {
        let server = try await LoopbackServer.start { _ in [.send(LoopbackServer.ok(""))] }
        let authority = try Shared.authority.get()
        let reporter = PinFailureReporter(
            app: ReportingApp(bundleID: "com.example.app", version: "1"),
            uris: [try server.url("/reports").absoluteString],
            transport: try transport(to: server))
        let policy = try ServedChain.policy(authority, TestKey(.p256, "nobody's").pin)
        let trust = TrustEvaluator(
            policies: try PolicySet([HostPolicy(.exact("www.example.com"), policy)], unlisted: .refuse),
            systemTrust: RootStoreTrust(roots: try .certificates([authority.root.der])), observers: [reporter.observer])
        let session = try server.session(tls: PinnedTLS(trust: trust, now: { TestDate.today.date }))
        let url = try server.url()
        await #expect(throws: PinnedSessionError.self) { try await session.data(from: url) }
        await reporter.flush()
        #expect(reporter.counts.sent == 1)
        let requests = server.figures.requests
        #expect(requests.count == 1)
        let request = try #require(requests.first)
        #expect(request.head.method == .POST)
        #expect(request.head.uri == "/reports")
        #expect(request.head.headers["content-type"] == ["application/json"])
        #expect(request.text.contains("\"hostname\": \"www.example.com\""))
    }

    @Test("Reports to an untrusted or refusing server, or an invalid URL, fail")
    func fails() async throws {
        let server = try await LoopbackServer.start { _ in
            [.send(LoopbackServer.answer("500 Internal Server Error", ""))]
        }
        let uri = try server.url("/reports").absoluteString
        let refused = try transport(to: server)
        await #expect(throws: SessionReportTransport.Failure.status(500)) {
            try await refused.send([0x7b, 0x7d], to: uri)
        }
        let untrusted = try transport(to: server, trusts: false)
        await #expect(throws: PinnedSessionError.self) { try await untrusted.send([0x7b, 0x7d], to: uri) }
        #expect(server.figures.requests.count == 1)
        await #expect(throws: PinnedSessionError.self) {
            try await refused.send([], to: uri.replacing("https:", with: "http:"))
        }
        await #expect(throws: (any Error).self) { try await refused.send([], to: "no place") }
    }
}
