// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TrustPinning
import TrustPinningTesting

@Suite("Pins carried over from PinGuard")
struct CarriedOverPinTests {
    private static let mistake = "is the hash of an issuer's certificate, as PinGuard writes ca pins"

    @Test(
        "A decision reports a ca pin that is a certificate hash, and the key hash to use",
        arguments: PinningPolicy.Mode.allCases)
    func certificateHash(mode: PinningPolicy.Mode) async throws {
        let authority = try TestAuthority()
        for issuer in [authority.intermediate, authority.root] {
            let policy = try PinningPolicy(pins: [.of(issuer.certificatePin, .ca), .spare()], mode: mode)
            let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: try RootStoreTrust(authority))
            let decision = await evaluator.evaluate(authority.served)
            #expect(decision.isTrusted == (mode != .strict))
            #expect(decision.description.contains("the ca pin sha256/\(issuer.certificatePin) \(Self.mistake)"))
            #expect(decision.description.contains("must be the hash of its key, sha256/\(issuer.pin)"))
            #expect(ServerVerdict(decision).reason == decision.description)
        }
    }

    @Test("Other pins that do not match are not reported as mistakes")
    func others() async throws {
        let authority = try TestAuthority()
        let other = try TestAuthority("Other")
        for pin in [
            try Pin.of(other.root.certificatePin, .ca), try .of(authority.leaf.certificatePin, .ca),
            try .of(authority.root.certificatePin, .spki),
        ] {
            let policy = try PinningPolicy(pins: [pin, .spare()])
            let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: try RootStoreTrust(authority))
            let decision = await evaluator.evaluate(authority.served)
            #expect(decision.reason == .pinningFailed)
            #expect(!decision.description.contains(Self.mistake))
        }
    }
}
