// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import FoundationNetworking
import PinnedAppModel
import Security
import Testing
import TrustPinning
import TrustPinningFoundation
import TrustPinningTesting

/// The model of Examples/PinnedApp, with a server that has the certificates of a test authority.
@Suite("The pinned app", .timeLimit(.minutes(5)))
struct PinnedAppTests {
    /// A server with a greeting and signed policies, and the settings of an app for it.
    private struct Scene {
        let trust: TrustScene
        let server: StandInServer
        let settings: PinnedAppSettings
        private let envelopes = Recorded<String>()
        private let key: PolicySigningKey

        init(folder: borrowing Folder) throws {
            trust = try TrustScene()
            server = StandInServer(chain: trust.authority.served, asksForClient: true) { [envelopes] request in
                let text = request.url?.path == "/policies.json" ? envelopes.elements.last ?? "" : "hello"
                return .answer(200, body: Array(text.utf8))
            }
            key = try PolicySigningKey(pem: TestKey(.ed25519, "publisher").pem)
            let stranger = try PolicySet(
                [HostPolicy(.exact("api.example.com"), TrustScene.policy([TrustScene.stranger()]))], unlisted: .refuse)
            settings = PinnedAppSettings(
                appID: "com.example.PinnedApp",
                servers: [
                    .production: .init(
                        greeting: try #require(server.url("/greeting")),
                        updates: try #require(server.url("/policies.json")), policies: trust.evaluator.policies),
                    .acceptance: .init(
                        greeting: try #require(server.url("/greeting", host: "api.example.com")),
                        updates: try #require(server.url("/policies.json", host: "api.example.com")),
                        policies: stranger),
                ], keys: ["2026": try PolicyVerificationKey(der: try #require(key.publicKey))],
                folder: URL(filePath: folder.path))
        }

        /// Makes the server deliver policies with the pin of its key, in an envelope with this version.
        func publish(version: Int64) throws {
            let envelope = try PolicyEnvelope.sign(
                trust.evaluator.policies, appID: settings.appID, environment: .production, keyID: "2026",
                version: version, issued: TestDate.today.date, lifetime: .seconds(86_400), with: key)
            envelopes.append(envelope.json)
        }

        @MainActor func makeModel() throws -> PinnedAppModel {
            let systemTrust = try PlatformTrust(roots: [trust.authority.root.der])
            return try PinnedAppModel(settings, systemTrust: systemTrust, now: { TestDate.today.date }) {
                PinnedSession(
                    trust: $0, identities: $1, configuration: PinnedSession.Configuration(), base: TrustScene.loading,
                    now: { TestDate.today.date })
            }
        }
    }

    /// Waits for an event that contains this text.
    @MainActor private static func shows(_ text: String, _ model: PinnedAppModel) async -> Bool {
        await LogExampleTests.reaches { model.events.contains { $0.text.contains(text) } }
    }

    @Test("The list of events shows the matched pin, and the client identity after it was read from PKCS#12")
    @MainActor func identity() async throws {
        let folder = try Folder()
        let scene = try Scene(folder: folder)
        let model = try scene.makeModel()
        await model.send()
        #expect(model.outcome?.isTrusted == true && model.outcome?.text == "status 200: hello")
        #expect(await Self.shows("www.example.com: pinMatched", model))
        #expect(await Self.shows("www.example.com: mtlsIdentityMissing", model))
        #expect(scene.server.figures.clientChains == [[]])

        let bundle = IdentityFixtures.bytes(IdentityFixtures.modern)
        model.passphrase = "wrong"
        model.importIdentity(bundle)
        #expect(model.identified.isEmpty && model.events.last?.isProblem == true)
        model.passphrase = IdentityFixtures.passphrase
        model.importIdentity(bundle)
        #expect(model.identified == [.production] && model.passphrase.isEmpty)
        await model.send()
        #expect(model.outcome?.isTrusted == true)
        #expect(await Self.shows("www.example.com: mtlsIdentityUsed", model))
        #expect(scene.server.figures.clientChains.last == [try TrustScene.identity().certificates[0]])
        #expect(!model.isBusy)
    }

    @Test("A signed update is applied and survives a restart, and an older version is refused")
    @MainActor func updates() async throws {
        let folder = try Folder()
        let scene = try Scene(folder: folder)
        let model = try scene.makeModel()
        await model.restore()
        #expect(model.versions.isEmpty && model.events.isEmpty)
        try scene.publish(version: 2)
        await model.update()
        #expect(model.versions == [.production: 2])
        #expect(await Self.shows("version 2 of the policies applied", model))
        await model.update()
        #expect(await Self.shows("the policies are up to date", model))

        try scene.publish(version: 1)
        await model.update()
        #expect(await Self.shows("policies refused (rolledBack)", model))
        #expect(model.versions == [.production: 2])
        await model.send()
        #expect(model.outcome?.isTrusted == true)

        let restarted = try scene.makeModel()
        await restarted.restore()
        #expect(restarted.versions == [.production: 2])
        await restarted.update()
        #expect(await Self.shows("policies refused (rolledBack)", restarted))
    }

    @Test("Another environment has its own server and policies, and no request is sent to a server without its pins")
    @MainActor func environments() async throws {
        let folder = try Folder()
        let scene = try Scene(folder: folder)
        let model = try scene.makeModel()
        #expect(model.environments == [.acceptance, .production] && model.environment == .production)
        await model.send()
        #expect(model.outcome?.isTrusted == true)
        model.select(.acceptance)
        #expect(model.environment == .acceptance && model.outcome == nil)
        await model.send()
        #expect(model.outcome?.isTrusted == false)
        #expect(await Self.shows("api.example.com: pinMismatch", model))
        #expect(scene.server.figures.requests.map(\.url?.host) == ["www.example.com"])
        // An environment without a server is refused, and the selected one stays.
        model.select("unknown")
        #expect(model.environment == .acceptance && model.events.last?.isProblem == true)
        model.select(.production)
        await model.send()
        #expect(model.outcome?.isTrusted == true)
    }

    @Test("The settings of the example are valid")
    @MainActor func settings() throws {
        let settings = try PinnedAppSettings.example(folder: URL(filePath: "/unused"))
        #expect(Set(settings.servers.keys) == [.production, .acceptance])
        #expect(try PinnedAppModel(settings).environment == .production)
    }
}
