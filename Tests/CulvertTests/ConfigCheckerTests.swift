// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CommandLineTesting
import Testing
import WireGuardCore

@testable import culvert

@Suite("culvert config check")
struct ConfigCheckerTests {
    private static let secret = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo="
    private static let good = """
        [Interface]
        PrivateKey = \(secret)
        Address = 10.0.0.2/24

        [Peer]
        PublicKey = hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=
        AllowedIPs = 10.0.0.0/24
        Endpoint = 192.0.2.1:51820
        """
    private static let bad = """
        [Interface]
        PrivateKey = \(secret)
        ListenPort = 70000

        [Peer]
        PublicKey = short
        AllowedIps = 10.0.0.0/33
        Nonsense = 1
        """

    private func check(_ files: [CheckedFile], json: Bool = false) -> (Int32, CapturedConsole) {
        let captured = CapturedConsole()
        return (ConfigChecker(console: captured.console()).check(files, json: json), captured)
    }

    private func file(_ text: String, worldReadable: Bool = false) -> CheckedFile {
        CheckedFile(name: "wg0.conf", bytes: Array(text.utf8), isWorldReadable: worldReadable)
    }

    @Test("A good file is ok and gives status 0")
    func good() {
        let (status, captured) = check([file(Self.good)])
        #expect(status == 0)
        #expect(captured.output == "wg0.conf: ok\n")
        #expect(captured.error.isEmpty)
    }

    @Test("Every mistake is reported with line and column, without secrets, and gives status 1")
    func bad() {
        let (status, captured) = check([file(Self.bad)])
        #expect(status == 1)
        for place in [
            "wg0.conf:3:14: error: ", "wg0.conf:6:13: error: ", "wg0.conf:7:23: error: ", "wg0.conf:8:1: error: ",
        ] {
            #expect(captured.output.contains(place))
        }
        #expect(captured.output.hasSuffix("wg0.conf: 4 errors\n"))
        #expect(!captured.output.contains(Self.secret))
    }

    @Test("A file that every user may read gets a warning if it contains a secret, valid or not")
    func worldReadable() {
        let (status, captured) = check([file(Self.good, worldReadable: true)])
        #expect(status == 0)
        #expect(captured.output.contains("wg0.conf:1:1: warning: every user"))
        #expect(captured.output.contains("fix: chmod 600 wg0.conf"))
        #expect(captured.output.hasSuffix("wg0.conf: ok, with 1 warning\n"))
        #expect(check([file(Self.bad, worldReadable: true)]).1.output.contains("warning: every user"))
        let harmless = Self.good.replacing("PrivateKey = \(Self.secret)", with: "# PrivateKey = \(Self.secret)")
        #expect(!check([file(harmless, worldReadable: true)]).1.output.contains("warning: every user"))
    }

    @Test("A file that cannot be read gives status 2, and the others are still examined")
    func unreadable() {
        let (status, captured) = check([CheckedFile(path: "/nonexistent/wg0.conf"), file(Self.bad)])
        #expect(status == 2)
        #expect(captured.error == "culvert: /nonexistent/wg0.conf: No such file or directory\n")
        #expect(captured.output.contains("wg0.conf: 4 errors"))
    }

    @Test("A folder is refused as a file")
    func folder() {
        #expect(CheckedFile(path: "/").bytes == nil)
    }

    @Test("As JSON it is one document with all files, problems and sums")
    func json() {
        let (status, captured) = check([file(Self.bad), CheckedFile(path: "/nonexistent")], json: true)
        #expect(status == 2)
        #expect(captured.error.isEmpty)
        #expect(
            captured.output.hasPrefix(
                "{\n  \"files\": [\n    {\n      \"file\": \"wg0.conf\",\n      \"valid\": false,"))
        #expect(captured.output.contains("\"line\": 3,\n          \"column\": 14,\n          \"text\": \"70000\""))
        #expect(captured.output.contains("\"unreadable\": \"No such file or directory\""))
        #expect(captured.output.hasSuffix("\"errors\": 4,\n  \"warnings\": 0,\n  \"unreadable\": 1\n}\n"))
        #expect(!captured.output.contains(Self.secret))
    }

    @Test("A file without a private key is an error unless it is allowed")
    func missingKey() {
        let text = Self.good.replacing("PrivateKey = \(Self.secret)\n", with: "")
        #expect(check([file(text)]).0 == 1)
        let captured = CapturedConsole()
        let checker = ConfigChecker(console: captured.console(), requiresPrivateKey: false)
        #expect(checker.check([file(text)], json: false) == 0)
    }
}
