// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import AppleTunnelModel
import Foundation
import FoundationNetworking
import Security
import Testing
import TrustPinning
import TrustPinningFoundation
import TrustPinningTesting

@Suite("The example's pinned request")
struct PinnedExampleTests {
    @Test("The server with the pinned key gets the request and answers it, and no other server gets it")
    @MainActor func request() async throws {
        let scene = try TrustScene()
        let server = StandInServer(chain: scene.authority.served) { _ in .answer(200, body: Array("hello".utf8)) }
        let trust = try PlatformTrust(roots: [scene.authority.root.der])
        let model = PinnedModel { policies in
            PinnedSession(
                trust: TrustEvaluator(policies: policies, systemTrust: trust), identities: nil,
                configuration: PinnedSession.Configuration(), base: TrustScene.loading, now: { TestDate.today.date })
        }
        model.address = try #require(server.url()).absoluteString
        let (own, spare) = (try Pin(.spki, scene.authority.leaf.pin), try Pin(.spki, TestKey(.p256, "spare").pin))
        model.pins = "\(own.hash)\n\(spare.hash)\n"
        await model.send()
        #expect(model.outcome?.text == "www.example.com answered with status 200 and 5 bytes")
        #expect(model.outcome?.isTrusted == true)
        #expect(server.figures.requests.count == 1 && !model.isBusy)

        model.pins = "\(try TrustScene.stranger().hash) \(spare.hash)"
        await model.send()
        #expect(model.outcome?.isTrusted == false)
        #expect(model.outcome?.text.hasPrefix("www.example.com is not trusted: ") == true)
        #expect(server.figures.requests.count == 1, "nothing was sent")

        // An invalid policy is reported before a connection is made.
        for (address, pins) in [("nowhere", model.pins), (model.address, "\(own.hash)"), (model.address, "abc")] {
            (model.address, model.pins) = (address, pins)
            await model.send()
            #expect(model.outcome?.isTrusted == false && !model.isBusy)
        }
        #expect(server.figures.handshakes == 2)
    }
}
