// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineTesting
import Foundation
import Testing
import TrustPinning
import TrustPinningNIO
import TrustPinningTesting

@testable import culvert_pin

@Suite("Contract of culvert-pin")
struct CommandLineContractTests {
    @Test("docs/command-line.txt has the commands, options, exit statuses and JSON members of culvert-pin")
    func contract() async throws {
        var contract = try ProgramContract(dump: PinCommand._dumpHelp())
        try await addServers(to: &contract)
        try addEnvelopes(to: &contract)
        let problems = try contract.check()
        #expect(problems.isEmpty, "\(ContractFile.advice)")
    }

    private func output(_ body: (PinEnvironment) async -> Int32) async throws -> String {
        let captured = CapturedConsole()
        _ = await body(PinEnvironment(console: captured.console(), now: TestDate.today.date, probe: ServerProbe()))
        try #require(!captured.output.isEmpty, "\(captured.error)")
        return captured.output
    }

    private func addServers(to contract: inout ProgramContract) async throws {
        let authority = try TestAuthority()
        // The last certificate is not part of the chain.
        var template = CertificateTemplate()
        template.subject = ""
        let nameless = try TestCertificate(template, key: TestKey(.p256, "nameless"))
        let stranger = try TestCertificate(key: TestKey(.p256, "stranger"))
        let scene = try await PinScene(chain: authority.served + [nameless.der, stranger.der])
        defer { scene.remove() }
        let other = try await PinScene(chain: [nameless.der], key: nameless.key)
        defer { other.remove() }
        func show(_ target: String, roots: String? = nil, connect: String? = nil) async throws -> String {
            try await output {
                await PinShow(environment: $0, connect: connect ?? scene.place, roots: roots, json: true).run(target)
            }
        }
        // Servers with system trust, without system trust, and without common names, and a port without a server.
        try contract.add(
            "culvert-pin show --json server", open: ["policy"],
            [
                try await show("www.example.com", roots: scene.roots), try await show("www.example.com"),
                try await show("www.example.com", connect: other.place),
                try await show("www.example.com", connect: "127.0.0.1:1"),
            ])
        try scene.write("file.pem", scene.authority.leaf.pem + nameless.pem + scene.authority.leaf.key.pem)
        try contract.add("culvert-pin show --json file", [try await show(scene.path("file.pem"))])

        // A server that passes, one that has changed to the backup key, and an unreachable one.
        let policy = try scene.policy()
        func check(_ place: String) async throws -> String {
            try await output {
                await PinCheck(environment: $0, connect: place, roots: scene.roots, json: true).run(policy, [])
            }
        }
        let backup = try authority.backupKey()
        let onBackup = try await PinScene(
            chain: [authority.rotatedLeaf().der, authority.intermediate.der], key: backup)
        defer { onBackup.remove() }
        try contract.add(
            "culvert-pin check --json",
            [try await check(scene.place), try await check(onBackup.place), try await check("127.0.0.1:1")])
        let next = try scene.write("next.key", backup.pem)
        let unpinned = try scene.write("other.key", TestKey(.p256, "other").pem)
        var rehearsals: [String] = []
        for file in [next, unpinned] {
            rehearsals.append(
                try await output {
                    await PinRehearsal(environment: $0, roots: scene.roots, json: true).run(policy, file)
                })
        }
        try contract.add("culvert-pin rehearse --json", rehearsals)
    }

    private func addEnvelopes(to contract: inout ProgramContract) throws {
        let scene = try PinSigningTests.Scene()
        defer { scene.remove() }
        var keys: [String] = []
        for kind in [PinKeyKind.ed25519, .hmac] {
            let captured = CapturedConsole()
            try #require(
                scene.signing(json: true, captured).generate(kind, to: scene.path("\(kind).key")) == 0)
            keys.append(captured.output)
        }
        try contract.add("culvert-pin keygen --json", keys)
        try scene.sign(.ed25519)
        let envelope = String(decoding: try Data(contentsOf: URL(filePath: scene.path("envelope.json"))), as: UTF8.self)
        try contract.add("culvert-pin sign --json", [envelope])
        #expect(scene.verify(json: true) == 0)
        let valid = scene.captured.output
        #expect(scene.verify(app: "com.example.other", json: true) == 1)
        try contract.add("culvert-pin verify --json valid", open: ["policy"], [valid])
        try contract.add("culvert-pin verify --json invalid", [String(scene.captured.output.dropFirst(valid.count))])
    }
}
