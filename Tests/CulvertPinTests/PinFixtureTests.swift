// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineTesting
import CompatibilityFixtures
import Foundation
import Testing
import TrustPinningNIO

@testable import TrustPinning
@testable import culvert_pin

/// A signed policy and an app's store of it, written by an earlier commit.
@Suite("Signed policies of an earlier version") struct PinFixtureTests {
    /// A folder that this object removes.
    private final class Scratch {
        let folder = FileManager.default.temporaryDirectory.appending(path: "culvert-pin-\(UUID().uuidString)")
        func path(_ name: String) -> String { folder.appending(path: name).path }
        init() throws { try Fixtures.copy("pinning", to: folder.path) }
        deinit { try? FileManager.default.removeItem(at: folder) }
    }

    private func updater(_ store: URL) throws -> RemotePolicyUpdater {
        let key = try PolicyVerificationKey(pem: Fixtures.text("pinning/signing.pub"))
        return RemotePolicyUpdater(
            evaluator: TrustEvaluator(policies: try PolicySet([], unlisted: .systemTrust)),
            verifier: RemotePolicyVerifier(appID: "com.example.app", keys: ["fixture": key]),
            store: FileRemotePolicyStore(folder: store))
    }

    @Test("An app accepts the envelope, and its store contains the version and the envelope")
    func written() async throws {
        let scratch = try Scratch()
        let folder = Fixtures.place("pinning/store", otherwise: scratch.folder.appending(path: "new"))
        let envelope = Array(try Data(contentsOf: Fixtures.url("pinning/envelope.json")))
        #expect(try await updater(folder).apply(envelope, at: Fixtures.madeAt) == .applied(version: 7))
        let store = FileRemotePolicyStore(folder: folder)
        #expect(try store.envelopes("com.example.app/production") == [envelope])
        #expect(try store.acceptedVersion("com.example.app/production")?.version == 7)
    }

    @Test("A store is restored, and a later version with the same key replaces its policies")
    func store() async throws {
        let scratch = try Scratch()
        let updater = try updater(scratch.folder.appending(path: "store"))
        #expect(try await updater.restore() == 7)
        let old = Array(try Data(contentsOf: Fixtures.url("pinning/envelope.json")))
        #expect(try await updater.apply(old, at: Fixtures.madeAt) == .unchanged)
        // A key from an earlier `culvert pin keygen`.
        let captured = CapturedConsole()
        let signing = PinSigning(
            environment: PinEnvironment(console: captured.console(), now: try Fixtures.madeAt, probe: ServerProbe()))
        let terms = PinSigning.Terms(
            appID: "com.example.app", environment: "production", keyID: "fixture", version: 8, days: 30)
        try #require(signing.sign(scratch.path("policy.json"), keyFile: scratch.path("signing.key"), terms) == 0)
        #expect(try await updater.apply(Array(captured.output.utf8), at: Fixtures.madeAt) == .applied(version: 8))
        let error = await #expect(throws: EnvelopeError.self) { try await updater.apply(old, at: Fixtures.madeAt) }
        #expect(error?.code == .rolledBack)
    }

    @Test("`culvert pin verify` accepts the envelope with the public key of the fixtures")
    func verify() throws {
        let captured = CapturedConsole()
        let signing = PinSigning(
            environment: PinEnvironment(console: captured.console(), now: try Fixtures.madeAt, probe: ServerProbe()))
        let status = signing.verify(
            Fixtures.url("pinning/envelope.json").path, keyFile: Fixtures.url("pinning/signing.pub").path,
            appID: "com.example.app", environmentName: "production", keyID: nil, lowestVersion: 7, at: nil,
            onlyPolicy: false)
        #expect(status == 0 && captured.output.contains("valid: version 7 for com.example.app, production"))
    }
}
