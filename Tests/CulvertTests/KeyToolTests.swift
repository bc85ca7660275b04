// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CommandLineTesting
import Testing
import WireGuardCore

@testable import culvert

@Suite("culvert key")
struct KeyToolTests {
    /// Alice's key pair of RFC 7748 section 6.1, in base64; `wg pubkey` gives the same.
    private static let privateKey = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo="
    private static let publicKey = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="

    private func run(_ body: (KeyTool) -> Int32, worldAccessible: Bool = false) -> (Int32, CapturedConsole) {
        let captured = CapturedConsole()
        let status = body(KeyTool(console: captured.console(outputIsWorldAccessible: worldAccessible)))
        return (status, captured)
    }

    @Test(
        "The public key is equal to that of wg pubkey, with any white space at the end of the input",
        arguments: ["", "\n", "\r\n", " \n\n"])
    func knownPair(ending: String) {
        let (status, captured) = run { $0.publicKey(of: Array((Self.privateKey + ending).utf8), json: false) }
        #expect(status == 0)
        #expect(captured.output == Self.publicKey + "\n")
        #expect(captured.error.isEmpty)
    }

    @Test("As JSON it is one object with one member")
    func json() {
        let (status, captured) = run { $0.publicKey(of: Array(Self.privateKey.utf8), json: true) }
        #expect(status == 0)
        #expect(captured.output == "{\n  \"publicKey\": \"\(Self.publicKey)\"\n}\n")
    }

    @Test(
        "Input that is not a private key is refused without being shown",
        arguments: [
            ("", "is empty"), ("\n\n", "is empty"), ("dwdtCnMYpX08FsFyUbJmRd9ML4fr", "has 28"),
            ("dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=\ndwdt", "has 49 with white space among them"),
            ("dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCp=", "not base64"),
            ("!wdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=", "not base64"),
            ("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "all zeros"),
        ])
    func badInput(input: String, problem: String) {
        let (status, captured) = run { $0.publicKey(of: Array(input.utf8), json: false) }
        #expect(status == 1)
        #expect(captured.output.isEmpty)
        #expect(captured.error.contains(problem))
        #expect(!captured.error.contains("dwdtCnMY"))
    }

    @Test("Input that cannot be read is an error")
    func unreadable() {
        let (status, captured) = run { $0.publicKey(of: nil, json: false) }
        #expect(status == 1)
        #expect(captured.error.contains("cannot be read"))
    }

    @Test("Generated keys are clamped, fresh, and give a public key back")
    func generate() throws {
        let (status, captured) = run { $0.generate(json: false) }
        let (_, second) = run { $0.generate(json: false) }
        #expect(status == 0)
        #expect(captured.output.hasSuffix("=\n") && captured.output.utf8.count == 45)
        #expect(captured.output != second.output)
        let key = try #require(PrivateKey(base64: captured.output.dropLast()))
        let hex = Array(key.exportedHex)
        let first = try #require(UInt8(String(hex[0...1]), radix: 16))
        let last = try #require(UInt8(String(hex[62...63]), radix: 16))
        #expect(first & 7 == 0 && last & 0x80 == 0 && last & 0x40 != 0)
        let (publicStatus, publicCapture) = run { $0.publicKey(of: Array(captured.output.utf8), json: false) }
        #expect(publicStatus == 0)
        #expect(publicCapture.output == key.publicKey.base64 + "\n")
    }

    @Test("A pre-shared key is 32 fresh bytes")
    func preshared() {
        let (status, captured) = run { $0.preshared(json: false) }
        #expect(status == 0)
        #expect(PresharedKey(base64: captured.output.dropLast()) != nil)
        let (_, second) = run { $0.preshared(json: false) }
        #expect(captured.output != second.output)
    }

    @Test("A secret in a file that every user may read gets a warning; a public key does not")
    func worldAccessible() {
        #expect(run({ $0.generate(json: true) }, worldAccessible: true).1.error.contains("every user may read"))
        #expect(run({ $0.preshared(json: false) }, worldAccessible: true).1.error.contains("umask 077"))
        let (_, captured) = run(
            { $0.publicKey(of: Array(Self.privateKey.utf8), json: false) }, worldAccessible: true)
        #expect(captured.error.isEmpty)
    }

    @Test("Text that could be a key is removed from messages")
    func redaction() {
        let text = "Unexpected argument '\(Self.privateKey)' and \(String(repeating: "ab", count: 32)). See --help"
        #expect(KeyRedaction.redact(text) == "Unexpected argument '(redacted)' and (redacted). See --help")
        #expect(KeyRedaction.redact("no key here") == "no key here")
    }
}
