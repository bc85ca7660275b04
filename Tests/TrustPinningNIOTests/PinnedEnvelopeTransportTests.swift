// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Testing
import TrustPinning
import TrustPinningNIOTesting
import TrustPinningTesting

@testable import TrustPinningNIO

@Suite("Signed policies over a pinned session")
struct PinnedEnvelopeTransportTests {
    @Test("Fetched policies are applied, and change which server is trusted")
    func update() async throws {
        let authority = try Shared.authority.get()
        let built = try ServedChain.policy(authority, authority.leaf.pin)
        let next = try ServedChain.policy(authority, TestKey(.p256, "next").pin)
        let envelope = try PolicyEnvelope.sign(
            PolicySet([HostPolicy(.exact("www.example.com"), next)], unlisted: .refuse), appID: "app",
            environment: .production, keyID: "key", version: 1, issued: TestDate.today.date, lifetime: .seconds(86_400),
            with: PolicySigningKey(pem: TestKey(.ed25519, "signer").pem))
        let server = try await LoopbackServer.start { _ in [.send(LoopbackServer.ok(envelope.json))] }
        let trust = TrustEvaluator(
            policies: try PolicySet([HostPolicy(.exact("www.example.com"), built)], unlisted: .refuse),
            systemTrust: RootStoreTrust(roots: try .certificates([authority.root.der])))
        let session = try server.session(tls: PinnedTLS(trust: trust, now: { TestDate.today.date }))
        let verifier = RemotePolicyVerifier(
            appID: "app",
            keys: ["key": try PolicyVerificationKey(der: TestKey(.ed25519, "signer").subjectPublicKeyInfo)])
        let folder = FileManager.default.temporaryDirectory.appending(path: "culvert-envelope-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let url = try server.url()
        let updater = RemotePolicyUpdater(
            evaluator: trust, verifier: verifier, store: FileRemotePolicyStore(folder: folder),
            transport: PinnedEnvelopeTransport(session: session, url: url))
        #expect(try await updater.update(at: TestDate.today.date) == .applied(version: 1))
        // The connection belongs to the old policy, and the new one trusts another key.
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(from: url) }
        guard case .untrusted(_, let verdict) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(verdict.decision?.reason == .pinningFailed)
    }

    @Test(
        "Error responses, and responses that are too large, are refused",
        arguments: [
            LoopbackServer.answer("404 Not Found", "{}"), LoopbackServer.ok(String(repeating: " ", count: 1 << 21)),
        ])
    func refused(answer: String) async throws {
        let server = try await LoopbackServer.start { _ in [.send(answer)] }
        let transport = PinnedEnvelopeTransport(session: try server.session(), url: try server.url())
        await #expect(throws: (any Error).self) { try await transport.fetch() }
    }
}
