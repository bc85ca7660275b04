// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import FoundationNetworking
import Security
import Testing
import TrustPinning
import TrustPinningTesting
import os

@testable import TrustPinningFoundation

@Suite("Policies and reports over URLSession")
struct PolicyTransportTests {
    @Test("Signed policies are fetched, and error responses and oversized ones are refused")
    func envelopes() async throws {
        let scene = try TrustScene()
        let envelope = try PolicyEnvelope.sign(
            scene.evaluator.policies, appID: "app", environment: .production, keyID: "key", version: 1,
            issued: TestDate.today.date, lifetime: .seconds(86_400),
            with: PolicySigningKey(pem: TestKey(.ed25519, "signer").pem))
        let server = StandInServer(chain: scene.authority.served) { request in
            switch request.url?.path {
            case "/policies": .answer(200, body: Array(envelope.json.utf8))
            case "/long": .answer(200, body: [UInt8](repeating: 0x20, count: PolicyEnvelope.maximumSize + 1))
            default: .answer(404)
            }
        }
        let session = scene.session()
        let transport = PinnedEnvelopeTransport(session: session, url: try #require(server.url("/policies")))
        #expect(try await transport.fetch() == Array(envelope.json.utf8))
        let missing = PinnedEnvelopeTransport(session: session, url: try #require(server.url("/")))
        let error = await #expect(throws: EnvelopeError.self) { try await missing.fetch() }
        #expect(error?.code == .fetchFailed)
        let long = PinnedEnvelopeTransport(session: session, url: try #require(server.url("/long")))
        await #expect(throws: PinnedSessionError.responseTooLarge(limit: PolicyEnvelope.maximumSize)) {
            try await long.fetch()
        }
    }

    @Test("Reports arrive as JSON, even at the host whose pins failed")
    func reports() async throws {
        let scene = try TrustScene(pinning: [TrustScene.stranger()])
        let server = StandInServer(chain: scene.authority.served) { request in
            .answer(request.url?.path == "/reports" ? 204 : 500)
        }
        let transport = SessionReportTransport(
            systemTrust: try PlatformTrust(roots: [scene.authority.root.der]), base: TrustScene.loading,
            now: { TestDate.today.date })
        let uri = try #require(server.url("/reports")).absoluteString
        try await transport.send(Array("{}".utf8), to: uri)
        let request = try #require(server.figures.requests.first)
        #expect(request.httpMethod == "POST")
        #expect(request.value(forHTTPHeaderField: "Content-Type") == "application/json")
        let refused = try #require(server.url("/other")).absoluteString
        await #expect(throws: SessionReportTransport.Failure.status(500)) {
            try await transport.send([], to: refused)
        }
        let strange = SessionReportTransport(
            systemTrust: try PlatformTrust(roots: [TestAuthority("Other").root.der]), base: TrustScene.loading,
            now: { TestDate.today.date })
        await #expect(throws: PinnedSessionError.self) { try await strange.send([], to: uri) }
    }

    @Test("The unified log contains the events, and the server's key if no pin matches")
    func unifiedLog() async throws {
        let subsystem = "test.\(UUID().uuidString)"
        let scene = try TrustScene(pinning: [TrustScene.stranger()])
        let evaluator = TrustEvaluator(
            policies: scene.evaluator.policies, systemTrust: try PlatformTrust(roots: [scene.authority.root.der]),
            observers: [TrustEvaluator.unifiedLog(subsystem: subsystem)])
        let decision = await evaluator.evaluate(
            chain: scene.authority.served, host: "www.example.com", at: TestDate.today.date)
        #expect(decision.reason == .pinningFailed)
        let entries = StandInLog.entries(of: subsystem)
        #expect(entries.allSatisfy { $0.category == "trust-pinning" && !$0.text.contains("<private>") })
        let mismatch = try #require(entries.first { $0.text.hasPrefix("pinMismatch ") })
        #expect(mismatch.type == .error)
        #expect(mismatch.text.contains("sha256/\(scene.authority.leaf.pin)"))
        #expect(mismatch.text.contains("policy=www.example.com"))
    }
}
