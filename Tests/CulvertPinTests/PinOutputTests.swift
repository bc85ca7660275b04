// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineTesting
import FoundationEssentials
import Testing
import TrustPinning
import TrustPinningTesting

@testable import culvert_pin

@Suite("Output of culvert pin")
struct PinOutputTests {
    @Test("`culvert pin show` prints no control characters of an issuer's name", arguments: ["text", "policy", "json"])
    func issuerName(form: String) async throws {
        let authority = try TestAuthority("Sly\u{1b}[2J\u{202e}\u{9b}")
        let scene = try await PinScene(chain: authority.served, key: authority.leaf.key)
        defer { scene.remove() }
        try scene.write("root.pem", authority.root.pem)
        let show = PinShow(
            environment: scene.environment, connect: scene.place, roots: scene.roots, onlyPolicy: form == "policy",
            json: form == "json")
        #expect(await show.run("www.example.com") == 0)
        let printed = scene.captured.output + scene.captured.error
        #expect(printed.contains("any certificate of Sly?[2J?? Intermediate for the host passes"))
        for mark: Unicode.Scalar in ["\u{1b}", "\u{202e}", "\u{9b}"] {
            #expect(!printed.unicodeScalars.contains(mark), "\(mark.value)")
        }
    }

    @Test("`culvert pin show` explains which hash of an authority is its ca pin")
    func authorityPins() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let file = try scene.write("chain.pem", scene.authority.leaf.pem + scene.authority.intermediate.pem)
        #expect(await PinShow(environment: scene.environment).run(file) == 0)
        let intermediate = scene.authority.intermediate
        #expect(
            scene.captured.output.hasSuffix(
                """
                  spki         sha256/\(intermediate.pin)
                  certificate  sha256/\(intermediate.certificatePin)
                  ca pin       the spki hash; PinGuard's ca pin is the certificate hash

                """))
        #expect(scene.captured.output.ranges(of: "  ca pin  ").count == 1)
    }

    @Test("`culvert pin check` and `rehearse` report a ca pin that is a certificate hash")
    func carriedOverPin() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let issuer = scene.authority.intermediate
        let policy = try PinningPolicy(pins: [
            Pin(.ca, issuer.certificatePin), Pin(.spki, scene.authority.backupKey().pin, role: .backup),
        ])
        let file = try scene.write(
            "policy.json", PolicySet([HostPolicy(.exact("www.example.com"), policy)], unlisted: .systemTrust).json)
        let reason = "no pin matches; the ca pin sha256/\(issuer.certificatePin) is the hash of an issuer's certificate"
        #expect(await scene.check(file) == 1)
        #expect(scene.captured.output.contains(reason))
        let chain = try scene.write("chain.pem", scene.authority.leaf.pem + issuer.pem)
        #expect(await scene.rehearse(file, chain) == 1)
        let next = try scene.write("next.key", TestKey(.p256, "next").pem)
        #expect(await scene.rehearse(file, next, issuers: try scene.write("issuer.pem", issuer.pem)) == 1)
        #expect(scene.captured.output.ranges(of: reason).count == 3)
    }
}
