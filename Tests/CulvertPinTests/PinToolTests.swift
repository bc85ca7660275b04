// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CommandLineTesting
import FoundationEssentials
import Testing
import TrustPinning
import TrustPinningNIO
import TrustPinningNIOTesting
import TrustPinningTesting
import TunnelSystem

@testable import culvert_pin

/// A folder with a policy and certificates, a server on loopback, and a date at which both are valid.
struct PinScene {
    let folder: URL
    let authority: TestAuthority
    let server: LoopbackServer
    let captured = CapturedConsole()
    var now = TestDate.today.date

    init(chain: [[UInt8]]? = nil, key: TestKey? = nil) async throws {
        authority = try TestAuthority()
        server = try await LoopbackServer.start(
            chain: chain ?? authority.served, key: key ?? authority.leaf.key)
        folder = FileManager.default.temporaryDirectory.appending(path: "culvert-pin-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try write("root.pem", authority.root.pem)
    }

    func remove() { try? FileManager.default.removeItem(at: folder) }

    @discardableResult
    func write(_ name: String, _ text: String) throws -> String {
        let file = folder.appending(path: name)
        try Data(text.utf8).write(to: file)
        return file.path
    }

    func path(_ name: String) -> String { folder.appending(path: name).path }

    var environment: PinEnvironment { PinEnvironment(console: captured.console(), now: now, probe: ServerProbe()) }
    var place: String { "127.0.0.1:\(server.port)" }
    var roots: String { path("root.pem") }

    /// Creates a policy that pins the leaf's key and the backup key.
    func policy(
        primary: String? = nil, mode: PinningPolicy.Mode = .strict, expiry: PinningPolicy.Expiry? = nil
    ) throws -> String {
        let policy = try PinningPolicy(
            pins: [
                Pin(.spki, primary ?? authority.leaf.pin, scope: .leaf),
                Pin(.spki, authority.backupKey().pin, role: .backup, scope: .leaf),
            ], mode: mode, expiry: expiry)
        let set = try PolicySet([HostPolicy(.exact("www.example.com"), policy)], unlisted: .systemTrust)
        return try write("policy.json", set.json)
    }

    func check(_ policy: String, days: Int = 7, json: Bool = false, hosts: [String] = ["www.example.com"]) async
        -> Int32
    {
        await PinCheck(environment: environment, days: days, connect: place, roots: roots, json: json).run(
            policy, hosts)
    }

    func rehearse(_ policy: String, _ file: String, issuers: String? = nil, date: String? = nil) async -> Int32 {
        await PinRehearsal(environment: environment, issuers: issuers, date: date, roots: roots).run(policy, file)
    }
}

@Suite("culvert pin show")
struct PinShowTests {
    @Test("`culvert pin show` prints the certificates of a server, their pins and a policy that it passes")
    func server() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let show = PinShow(environment: scene.environment, connect: scene.place, roots: scene.roots)
        #expect(await show.run("www.example.com") == 0)
        let output = scene.captured.output
        for certificate in [scene.authority.leaf, scene.authority.intermediate, scene.authority.root] {
            #expect(output.contains("spki         sha256/\(certificate.pin)"))
            #expect(output.contains("certificate  sha256/\(certificate.certificatePin)"))
        }
        #expect(output.contains("system trust: yes"))
        #expect(output.contains("214 days left"))
        #expect(output.contains("not sent"))
        let text = try #require(output.split(separator: "Policy:\n").last?.split(separator: "\nNote:").first)
        let policies = try PolicySet(json: String(text))
        #expect(policies.policy(for: try HostName("www.example.com"))?.mode == .strict)
        let file = try scene.write("shown.json", String(text))
        #expect(await scene.check(file) == 0)
    }

    @Test("`culvert pin show --backup` pins the given backup key")
    func backup() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let key = try scene.authority.backupKey()
        let show = PinShow(
            environment: scene.environment, connect: scene.place, backup: try scene.write("next.key", key.pem),
            roots: scene.roots, onlyPolicy: true)
        #expect(await show.run("www.example.com:443") == 0)
        let policy = try #require(
            try PolicySet(json: scene.captured.output).policy(for: try HostName("www.example.com")))
        #expect(policy.pins.map(\.hash.base64) == [scene.authority.leaf.pin, key.pin])
        #expect(policy.pins.map(\.role) == [.primary, .backup])
        #expect(!scene.captured.output.contains("PRIVATE"))
    }

    @Test("`culvert pin show` reports a backup that is already in use")
    func backupInUse() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let show = PinShow(
            environment: scene.environment, connect: scene.place,
            backup: try scene.write("same.key", scene.authority.leaf.key.pem), roots: scene.roots, onlyPolicy: true)
        #expect(await show.run("www.example.com") == 0)
        #expect(scene.captured.error.contains("no backup"))
        #expect(try PolicySet(json: scene.captured.output).hosts.first?.policy?.mode == .audit)
    }

    @Test("`culvert pin show --json` prints one JSON document")
    func json() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let show = PinShow(environment: scene.environment, connect: scene.place, roots: scene.roots, json: true)
        #expect(await show.run("www.example.com") == 0)
        let document = try JSON.read(policy: Array(scene.captured.output.utf8))
        #expect(document["chain"]?.list?.count == 3)
        #expect(document["systemTrust"] == .bool(true))
        _ = try PolicySet(try #require(document["policy"]))
    }

    @Test("`culvert pin show` reports why a chain has no system trust, and pins a self-signed key")
    func selfSigned() async throws {
        let key = try TestKey(.ed25519, "of its own making")
        let leaf = try TestCertificate(key: key)
        let scene = try await PinScene(chain: [leaf.der], key: key)
        defer { scene.remove() }
        let next = try scene.write("next.key", TestKey(.ed25519, "next").pem)
        let show = PinShow(environment: scene.environment, connect: scene.place, backup: next, roots: scene.roots)
        #expect(await show.run("www.example.com") == 0)
        #expect(scene.captured.output.contains("system trust: no: no path leads"))
        #expect(scene.captured.output.contains("\"requiresSystemTrust\": false"))
    }

    @Test(
        "`culvert pin show` prints the pins of a file's certificate or key",
        arguments: ["leaf.pem", "next.key", "leaf.der"])
    func files(name: String) async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let leaf = scene.authority.leaf
        try scene.write("leaf.pem", leaf.pem + scene.authority.intermediate.pem)
        try scene.write("next.key", leaf.key.pem)
        try Data(leaf.der).write(to: scene.folder.appending(path: "leaf.der"))
        #expect(await PinShow(environment: scene.environment).run(scene.path(name)) == 0)
        #expect(scene.captured.output.contains("sha256/\(leaf.pin)"))
        #expect(!scene.captured.output.contains("BEGIN"))
    }

    @Test("`culvert pin show` exits with 2 for an invalid target, and with 6 for an unreachable server")
    func failures() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let empty = try scene.write("empty.pem", "")
        #expect(await PinShow(environment: scene.environment).run(empty) == 2)
        #expect(await PinShow(environment: scene.environment).run(scene.path("none.pem")) == 2)
        #expect(await PinShow(environment: scene.environment).run("no host") == 2)
        let nowhere = PinShow(environment: scene.environment, connect: "127.0.0.1:1", json: true)
        #expect(await nowhere.run("www.example.com") == 6)
        #expect(scene.captured.error.contains("Connection refused"))
        #expect(scene.captured.output.contains("\"chain\": null"))
    }

    @Test("`culvert pin show` reports invalid input without connecting")
    func badInputs() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let garbage = scene.path("garbage")
        try Data((0..<200).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ 1) }).write(to: URL(filePath: garbage))
        let cases: [(PinShow, String, String)] = [
            (PinShow(environment: scene.environment), garbage, "garbage: neither a certificate"),
            (PinShow(environment: scene.environment), scene.path("none.pem"), "none.pem: No such file"),
            (PinShow(environment: scene.environment), scene.folder.path, "Is a directory"),
            (PinShow(environment: scene.environment), "a.example:65536", "a port from 1 to 65535"),
            (PinShow(environment: scene.environment), "https://a.example", "a URL"),
            (
                PinShow(environment: scene.environment, connect: "127.0.0.1:99999"), "a.example",
                "--connect: '127.0.0.1:99999'"
            ),
            (PinShow(environment: scene.environment, roots: garbage), "a.example", "garbage: neither"),
            (PinShow(environment: scene.environment, backup: scene.path("none.csr")), "a.example", "none.csr: No such"),
        ]
        for (show, target, message) in cases {
            let before = scene.captured.error.count
            #expect(await show.run(target) == 2, "\(target)")
            #expect(scene.captured.error.dropFirst(before).contains(message), "\(message)")
        }
        #expect(scene.server.figures.accepted == 0)
    }

    @Test("Control characters of certificates are replaced")
    func controlCharacters() {
        #expect(Printable.text("a\u{1b}[2Jb\u{202e}c\u{9b}d\n") == "a?[2Jb?c?d?")
    }
}

@Suite("culvert pin check")
struct PinCheckTests {
    @Test("A server that matches for long enough passes `culvert pin check`")
    func passes() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let policy = try scene.policy()
        #expect(await scene.check(policy, days: 214) == 0)
        #expect(scene.captured.output.hasPrefix("PASSES       www.example.com  matches primary spki pin"))
        #expect(scene.captured.output.contains("214 days left"))
        #expect(await scene.check(policy, days: 215) == 1)
        #expect(scene.captured.output.contains("EXPIRING"))
        #expect(await scene.check(policy, hosts: []) == 0)
    }

    @Test("Pins that expire too early fail `culvert pin check`")
    func pinExpiry() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let policy = try scene.policy(expiry: PinningPolicy.Expiry(TestDate(2026, 6, 11).date))
        #expect(await scene.check(policy, days: 10) == 0)
        #expect(scene.captured.output.contains("10 days left (pins until 2026-06-11)"))
        #expect(await scene.check(policy, days: 11) == 1)
    }

    @Test(
        "Servers that apps accept only by lenience fail `culvert pin check`",
        arguments: [PinningPolicy.Mode.audit, .permissive, .strict])
    func lenience(mode: PinningPolicy.Mode) async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let policy = try scene.policy(primary: TestKey(.p256, "nobody's").pin, mode: mode)
        #expect(await scene.check(policy) == 1)
        #expect(scene.captured.output.hasPrefix("FAILS        www.example.com  no pin matches"))
    }

    @Test("Unpinned hosts and untrusted chains fail `culvert pin check`")
    func notPinned() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let policy = try scene.policy()
        #expect(await scene.check(policy, hosts: ["v1.api.example.com"]) == 1)
        #expect(scene.captured.output.contains("no pins are for this host"))
        let check = PinCheck(environment: scene.environment, connect: scene.place)
        #expect(await check.run(policy, ["www.example.com"]) == 1)
        #expect(scene.captured.output.contains("the system does not vouch for the server"))
    }

    @Test("After a rotation, only the backup key passes `culvert pin check`")
    func rotation() async throws {
        let authority = try TestAuthority()
        let next = try authority.rotatedLeaf()
        let scene = try await PinScene(chain: [next.der, authority.intermediate.der], key: next.key)
        defer { scene.remove() }
        #expect(await scene.check(try scene.policy()) == 0)
        #expect(scene.captured.output.contains("matches backup spki pin"))
        #expect(scene.captured.output.contains("only a backup matches"))

        let lost = try authority.issue(key: TestKey(.p256, "lost"))
        let after = try await PinScene(chain: [lost.der, authority.intermediate.der], key: lost.key)
        defer { after.remove() }
        #expect(await after.check(try after.policy()) == 1)
    }

    @Test("`culvert pin check` distinguishes unreachable servers from failing ones")
    func unreachable() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let check = PinCheck(environment: scene.environment, connect: "127.0.0.1:1", roots: scene.roots, json: true)
        #expect(await check.run(try scene.policy(), ["www.example.com"]) == 6)
        #expect(scene.captured.output.contains("\"status\": \"unreachable\""))
    }

    @Test("`culvert pin check --json` prints one JSON document")
    func json() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        #expect(await scene.check(try scene.policy(), json: true) == 0)
        let document = try JSON.read(policy: Array(scene.captured.output.utf8))
        let host = try #require(document["hosts"]?.list?.first)
        #expect(document["passes"] == .bool(true))
        #expect(host["decision"] == .string("pinMatch"))
        #expect(host["daysLeft"] == .integer(214))
    }

    @Test(
        "`culvert pin check` reports an invalid policy without connecting",
        arguments: [
            "", "{", "[]", "{\"version\": 1, \"unlistedHosts\": \"refuse\", \"hosts\": [{\"host\": \"*.com\"}]}",
            "{\"version\": 1, \"unlistedHosts\": \"refuse\", \"hosts\": []}",
        ])
    func badPolicy(text: String) async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        #expect(await scene.check(try scene.write("bad.json", text), hosts: []) == 2)
        #expect(scene.captured.error.contains("bad.json"))
        #expect(scene.server.figures.accepted == 0)
    }
}

@Suite("culvert pin check with many servers")
struct PinCheckManyTests {
    @Test("`culvert pin check` checks more servers than its connection limit")
    func many() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let hosts = (0..<200).map { "127.0.0.1:\(1 + $0 % 8)" }
        let check = PinCheck(environment: scene.environment, roots: scene.roots, json: true)
        #expect(await check.run(try scene.policy(), hosts) == 6)
        let document = try JSON.read(policy: Array(scene.captured.output.utf8))
        let ports = try #require(document["hosts"]?.list).map { $0["port"] }
        let expected: [JSON?] = (0..<200).map { index in JSON.integer(1 + index % 8) }
        #expect(ports == expected)
    }
}

@Suite("culvert pin rehearse")
struct PinRehearsalTests {
    @Test("The backup key passes `culvert pin rehearse` without a certificate")
    func backupKey() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let next = try scene.write("next.key", scene.authority.backupKey().pem)
        #expect(await scene.rehearse(try scene.policy(), next) == 0)
        #expect(scene.captured.output.hasPrefix("PASSES  www.example.com  matches backup spki pin"))
        #expect(scene.captured.output.contains("no backup is left"))
        #expect(scene.server.figures.accepted == 0)
    }

    @Test("An unpinned key fails `culvert pin rehearse`")
    func otherKey() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let next = try scene.write("next.key", TestKey(.p256, "another").pem)
        #expect(await scene.rehearse(try scene.policy(), next) == 1)
        #expect(scene.captured.output.hasPrefix("FAILS  www.example.com  no pin matches"))
    }

    @Test(
        "`culvert pin rehearse` evaluates the next certificate as an app would, on any date",
        arguments: [
            (nil, 0), ("2026-12-31", 0), ("2027-01-02", 1), ("2025-12-31", 1),
        ] as [(String?, Int32)])
    func certificate(date: String?, status: Int32) async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let next = try scene.write("next.pem", scene.authority.rotatedLeaf().pem + scene.authority.intermediate.pem)
        #expect(await scene.rehearse(try scene.policy(), next, date: date) == status)
    }

    @Test("A certificate for another host, or without its issuer, fails `culvert pin rehearse`")
    func wrongCertificate() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let template = CertificateTemplate().with { $0.dnsNames = ["other.example.com"] }
        let wrong = try scene.authority.issue(template, key: scene.authority.backupKey())
        let policy = try scene.policy()
        let host = try scene.write("host.pem", wrong.pem + scene.authority.intermediate.pem)
        #expect(await scene.rehearse(policy, host) == 1)
        #expect(scene.captured.output.contains("not for this host"))
        let alone = try scene.write("alone.pem", scene.authority.rotatedLeaf().pem)
        #expect(await scene.rehearse(policy, alone) == 1)
        let issuers = try scene.write("issuers.pem", scene.authority.intermediate.pem)
        #expect(await scene.rehearse(policy, alone, issuers: issuers) == 0)
    }

    @Test("`culvert pin rehearse` compares authority pins with the issuers' certificates")
    func authorities() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let policy = try PinningPolicy(pins: [
            Pin(.spki, scene.authority.leaf.pin, scope: .leaf),
            Pin(.ca, scene.authority.intermediate.pin, role: .backup),
        ])
        let set = try PolicySet([HostPolicy(.exact("www.example.com"), policy)], unlisted: .refuse)
        let file = try scene.write("policy.json", set.json)
        let next = try scene.write("next.key", TestKey(.p256, "another").pem)
        #expect(await scene.rehearse(file, next) == 1)
        #expect(scene.captured.output.contains("--issuers"))
        let issuers = try scene.write("issuers.pem", scene.authority.intermediate.pem)
        #expect(await scene.rehearse(file, next, issuers: issuers) == 0)
        #expect(scene.captured.output.contains("through its issuer"))
    }

    @Test("`culvert pin rehearse` requires --host if the policy lists several hosts")
    func hosts() async throws {
        let scene = try await PinScene()
        defer { scene.remove() }
        let one = try #require(
            try PolicySet(json: Array(Data(contentsOf: URL(filePath: scene.policy())))).hosts.first?.policy)
        let set = try PolicySet(
            [HostPolicy(.exact("a.example.com"), one), HostPolicy(.exact("b.example.com"), one)], unlisted: .refuse)
        let file = try scene.write("two.json", set.json)
        let next = try scene.write("next.key", scene.authority.backupKey().pem)
        #expect(await scene.rehearse(file, next) == 2)
        let rehearsal = PinRehearsal(
            environment: scene.environment, host: "b.example.com", roots: scene.roots, json: true)
        #expect(await rehearsal.run(file, next) == 0)
    }
}

@Suite("Arguments for servers")
struct PinTargetTests {
    @Test(
        "A server argument is a host with an optional port",
        arguments: [
            ("api.example.com", "api.example.com", 443), ("API.example.com:8443", "api.example.com", 8443),
            ("127.0.0.1:1", "127.0.0.1", 1), ("[::1]:8443", "::1", 8443), ("[::1]", "::1", 443), ("::1", "::1", 443),
        ])
    func good(text: String, host: String, port: Int) throws {
        let target = try PinTarget(text)
        #expect(target.host.description == host)
        #expect(target.port == port)
    }

    @Test(
        "Text that is not a host and port is refused",
        arguments: ["", ":443", "a:b", "a:0", "a:65536", "a b", "https://a", "a:"])
    func bad(text: String) {
        #expect(throws: PinToolError.self) { try PinTarget(text) }
    }
}
