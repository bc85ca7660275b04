// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CommandLineTesting
import FoundationEssentials
import Testing
import TrustPinning
import TrustPinningNIO
import TrustPinningTesting

@testable import culvert_pin

@Suite("culvert pin keygen, sign and verify")
struct PinSigningTests {
    /// A folder with a policy and the files that the commands write.
    struct Scene {
        let folder: URL
        let captured = CapturedConsole()

        init() throws {
            folder = FileManager.default.temporaryDirectory.appending(path: "culvert-sign-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let policy = try PinningPolicy(pins: [
                Pin(.spki, TestKey(.p256, "one").pin), Pin(.spki, TestKey(.p256, "two").pin, role: .backup),
            ])
            let set = try PolicySet([HostPolicy(.exact("api.example.com"), policy)], unlisted: .refuse)
            try write("policy.json", set.json)
        }

        func remove() { try? FileManager.default.removeItem(at: folder) }

        func path(_ name: String) -> String { folder.appending(path: name).path }

        func write(_ name: String, _ text: String) throws {
            try Data(text.utf8).write(to: folder.appending(path: name))
        }

        func signing(json: Bool = false, now: Date = TestDate.today.date, _ console: CapturedConsole? = nil)
            -> PinSigning
        {
            let console = (console ?? captured).console()
            return PinSigning(
                environment: PinEnvironment(console: console, now: now, probe: ServerProbe()), json: json)
        }

        static let terms = PinSigning.Terms(
            appID: "com.example.app", environment: "production", keyID: "2026a", version: 7, days: 30)

        /// Generates a key and signs an envelope.
        func sign(_ kind: PinKeyKind, terms: PinSigning.Terms = Scene.terms) throws {
            let keys = CapturedConsole()
            try #require(signing(keys).generate(kind, to: path("signing.key")) == 0)
            try write("signing.pub", keys.output)
            let envelope = CapturedConsole()
            try #require(
                signing(envelope).sign(path("policy.json"), keyFile: path("signing.key"), terms) == 0)
            try write("envelope.json", envelope.output)
        }

        func verify(
            key: String = "signing.pub", app: String = "com.example.app", environment: String = "production",
            keyID: String? = nil, lowest: Int64 = 1, at date: String? = nil, json: Bool = false,
            onlyPolicy: Bool = false
        ) -> Int32 {
            signing(json: json).verify(
                path("envelope.json"), keyFile: path(key), appID: app, environmentName: environment, keyID: keyID,
                lowestVersion: lowest, at: date, onlyPolicy: onlyPolicy)
        }
    }

    @Test(
        "Apps accept policies that `culvert pin sign` has signed with each kind of key",
        arguments: PinKeyKind.allCases)
    func roundTrip(kind: PinKeyKind) throws {
        let scene = try Scene()
        defer { scene.remove() }
        try scene.sign(kind)
        #expect(scene.verify(key: kind == .hmac ? "signing.key" : "signing.pub") == 0)
        #expect(scene.captured.output.contains("valid: version 7 for com.example.app, production"))
        #expect(scene.captured.output.contains("may only tighten") == (kind == .hmac))
    }

    @Test(
        "`culvert pin verify` refuses envelopes for another app, environment, key or time, and changed ones")
    func refusals() throws {
        let scene = try Scene()
        defer { scene.remove() }
        try scene.sign(.ed25519)
        #expect(scene.verify(app: "com.example.other") == 1)
        #expect(scene.verify(environment: "acceptance") == 1)
        #expect(scene.verify(keyID: "2025b") == 1)
        #expect(scene.verify(lowest: 8) == 1)
        #expect(scene.verify(at: "2026-07-02") == 1)
        #expect(scene.verify(at: "2026-05-01") == 1)
        #expect(scene.verify() == 0)
        for code in ["wrongApp", "wrongEnvironment", "unknownKey", "rolledBack", "expired", "notYetIssued"] {
            #expect(scene.captured.error.contains(code))
        }
        let text = String(decoding: try Data(contentsOf: scene.folder.appending(path: "envelope.json")), as: UTF8.self)
        try scene.write("envelope.json", String(text.replacing("\"version\": 7", with: "\"version\": 8")))
        #expect(scene.verify(json: true) == 1)
        #expect(scene.captured.output.contains("\"code\": \"badSignature\""))
        try scene.write("envelope.json", "{}")
        #expect(scene.verify() == 1)
    }

    @Test("`culvert pin verify --policy` prints the signed policy byte for byte")
    func policy() throws {
        let scene = try Scene()
        defer { scene.remove() }
        try scene.sign(.p384)
        #expect(scene.verify(onlyPolicy: true) == 0)
        let policy = try Data(contentsOf: scene.folder.appending(path: "policy.json"))
        #expect(scene.captured.output == String(decoding: policy, as: UTF8.self))
    }

    @Test(
        "`culvert pin keygen` writes private files, and never replaces one")
    func keyFile() throws {
        let scene = try Scene()
        defer { scene.remove() }
        let path = scene.path("signing.key")
        #expect(scene.signing().generate(.ed25519, to: path) == 0)
        #expect(!scene.captured.output.contains("PRIVATE"))
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        let before = try Data(contentsOf: URL(filePath: path))
        #expect(scene.signing().generate(.ed25519, to: path) == 2)
        #expect(try Data(contentsOf: URL(filePath: path)) == before)
    }

    @Test("`culvert pin sign` refuses keys that other users can read, and invalid policies")
    func careful() throws {
        let scene = try Scene()
        defer { scene.remove() }
        let path = scene.path("signing.key")
        #expect(scene.signing().generate(.p256, to: path) == 0)
        try scene.write(
            "bad.json", "{\"version\": 1, \"unlistedHosts\": \"refuse\", \"hosts\": [{\"host\": \"*.com\"}]}")
        #expect(scene.signing().sign(scene.path("bad.json"), keyFile: path, Scene.terms) == 2)
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: path)
        #expect(scene.signing().sign(scene.path("policy.json"), keyFile: path, Scene.terms) == 2)
        #expect(scene.captured.error.contains("chmod 600"))
    }

    @Test(
        "The commands accept keys of other programs, and refuse a private key as public key"
    )
    func publicKeys() throws {
        let scene = try Scene()
        defer { scene.remove() }
        let key = try TestKey(.ed25519, "signer")
        try scene.write("openssl.key", key.pem)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: scene.path("openssl.key"))
        try scene.write("openssl.pub", PEMWriter.pem("PUBLIC KEY", key.subjectPublicKeyInfo))
        let envelope = CapturedConsole()
        #expect(
            scene.signing(envelope).sign(scene.path("policy.json"), keyFile: scene.path("openssl.key"), Scene.terms)
                == 0)
        try scene.write("envelope.json", envelope.output)
        #expect(scene.verify(key: "openssl.pub") == 0)
        #expect(scene.verify(key: "openssl.key") == 2)
    }

    @Test("`culvert pin sign` selects the policies of one environment")
    func environments() throws {
        let scene = try Scene()
        defer { scene.remove() }
        let set = try String(contentsOf: URL(filePath: scene.path("policy.json")), encoding: .utf8)
            .replacing("\"version\": 1,", with: "")
        try scene.write(
            "policy.json",
            """
            {"version": 1, "environments": {"production": \(set),
             "acceptance": {"unlistedHosts": "systemTrust", "hosts": []}}}
            """)
        try scene.sign(.ed25519)
        #expect(scene.verify() == 0)
        #expect(scene.captured.output.contains("api.example.com"))
        var terms = Scene.terms
        terms.environment = "staging"
        let status = scene.signing().sign(scene.path("policy.json"), keyFile: scene.path("signing.key"), terms)
        #expect(status == 2)
        #expect(scene.captured.error.contains("policy.json: environment: there are no policies for staging"))
    }

    @Test("An error names the file that is not a key, and the file to use")
    func badKeys() throws {
        let scene = try Scene()
        defer { scene.remove() }
        try scene.sign(.ed25519)
        try Data((0..<200).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ 1) })
            .write(to: URL(filePath: scene.path("garbage")))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: scene.path("garbage"))
        for name in ["garbage", "none.key", "policy.json"] {
            let before = scene.captured.error.count
            #expect(scene.verify(key: name) == 2)
            #expect(scene.signing().sign(scene.path("policy.json"), keyFile: scene.path(name), Scene.terms) == 2)
            let said = scene.captured.error.dropFirst(before)
            #expect(said.split(separator: "\n").allSatisfy { $0.contains(name) }, "\(said)")
        }
        #expect(scene.captured.error.contains("culvert pin keygen"))
    }
}
