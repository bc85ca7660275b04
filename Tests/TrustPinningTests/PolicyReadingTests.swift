// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TrustPinning
import TrustPinningTesting

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

@Suite("Policies in JSON and property lists")
struct PolicyReadingTests {
    private static func good() throws -> String {
        let one = try TestKey(.p256, "one").pin
        let two = try TestKey(.p256, "two").pin
        return """
            {
              "version": 1,
              "unlistedHosts": "systemTrust",
              "hosts": [
                {"host": "www.example.com", "pins": [{"hash": "\(one)"}, {"hash": "sha256/\(two)", "role": "backup"}]},
                {"host": "example.com", "includeSubdomains": true, "mode": "permissive", "expires": "2027-01-31",
                 "afterExpiry": "refuse", "pins": [{"kind": "ca", "hash": "\(one)", "scope": "root"}]},
                {"host": "open.example.com", "exclude": true},
                {"host": "*.example.net", "mode": "audit"},
                {"host": "10.0.0.1", "requiresSystemTrust": false, "allowsSystemTrustFallback": true,
                 "pins": [{"hash": "\(one)", "scope": "leaf"}, {"hash": "\(two)", "role": "backup"}]}
              ]
            }
            """
    }

    @Test("Policies in JSON are equal to policies in code")
    func reading() throws {
        let one = try TestKey(.p256, "one").pin
        let two = try TestKey(.p256, "two").pin
        let expiry = PinningPolicy.Expiry(TestDate(2027, 1, 31).date, afterwards: .refuse)
        let expected = try PolicySet(
            [
                HostPolicy(
                    .exact("www.example.com"), PinningPolicy(pins: [.of(one), .of(two, role: .backup)])),
                HostPolicy(
                    .includingSubdomains("example.com"),
                    PinningPolicy(pins: [.of(one, .ca, scope: .root)], mode: .permissive, expiry: expiry)),
                .excluding(.exact("open.example.com")),
                HostPolicy(.wildcard("example.net"), PinningPolicy(pins: [], mode: .audit)),
                HostPolicy(
                    .exact("10.0.0.1"),
                    PinningPolicy(
                        pins: [.of(one, scope: .leaf), .of(two, role: .backup)], requiresSystemTrust: false,
                        allowsSystemTrustFallback: true)),
            ], unlisted: .systemTrust)
        #expect(try PolicySet(json: Self.good()) == expected)
        #expect(try PolicySet(json: expected.json) == expected)
        let strict = try PolicySet([], unlisted: .pinned(PinningPolicy(pins: [.of(one), .spare()])))
        #expect(try PolicySet(json: strict.json) == strict)
    }

    @Test("All invalid fields are reported together, with their paths")
    func everyProblem() throws {
        let json = """
            {
              "version": 2,
              "hosts": [
                {"host": "*.com", "mode": "lax", "pins": [{"hash": "AAAA"}, {"kind": "key", "hash": 7}, 5]},
                {"pins": [], "expires": "2027-02-30", "pin": 1},
                {"host": "a.example.com", "exclude": true, "mode": "strict"},
                {"host": "*.example.com", "includeSubdomains": true, "afterExpiry": "refuse"},
                "b.example.com",
                {"host": "c.example.com", "pins": [{"kind": "ca", "scope": "leaf", "hash": "\(try TestKey(.p256, "a").pin)"}]}
              ],
              "unlisted": "refuse"
            }
            """
        let error = try #require(throws: PolicyError.self) { try PolicySet(json: json) }
        #expect(
            error.problems.map(\.path) == [
                "version", "hosts[0].host", "hosts[0].mode", "hosts[0].pins[0].hash", "hosts[0].pins[1].kind",
                "hosts[0].pins[1].hash", "hosts[0].pins[2]", "hosts[1].host", "hosts[1].expires", "hosts[1].pin",
                "hosts[2].mode", "hosts[3].host", "hosts[3].afterExpiry", "hosts[4]", "hosts[5].pins[0].scope",
                "unlistedHosts", "unlisted",
            ], "\(error)")
    }

    @Test("The rule for unlisted hosts and the second strict pin cannot be omitted")
    func missing() throws {
        let noDefault = try #require(throws: PolicyError.self) { try PolicySet(json: #"{"version": 1, "hosts": []}"#) }
        #expect(noDefault.problems.map(\.path) == ["unlistedHosts"])
        let onePin = try #require(throws: PolicyError.self) {
            try PolicySet(
                json:
                    #"{"version": 1, "unlistedHosts": {"pins": [{"hash": "\#(try TestKey(.p256, "a").pin)"}]}, "hosts": []}"#
            )
        }
        #expect(onePin.problems.map(\.path) == ["unlistedHosts.pins", "unlistedHosts.pins"])
    }

    @Test(
        "Policies are refused unless the text is strict JSON",
        arguments: [
            "", "{", "}", "[1,]", #"{"a":1,}"#, #"{"a":1 "b":2}"#, #"{"a":1,"a":2}"#, #"{"a":1,"\u0061":2}"#, "01",
            "1.0", "1e3", "-",
            "-0", "nul", "truefalse", #""\ud800""#, #""\x""#, "\"\u{1}\"", #""a"#, "{1:2}", "{} {}", "'a'", "NaN", "+1",
            "99999999999999999999", String(repeating: "[", count: 100_000), #"{"a":"#,
        ])
    func strictJSON(text: String) {
        #expect(throws: PolicyError.self) { try PolicySet(json: text) }
    }

    @Test("Truncated text is refused at every length")
    func truncation() throws {
        let bytes = Array(try Self.good().utf8)
        for length in 0..<bytes.count {
            #expect(throws: PolicyError.self) { try PolicySet(json: Array(bytes[..<length])) }
        }
        var invalid = bytes
        invalid[20] = 0xff
        #expect(throws: PolicyError.self) { try PolicySet(json: invalid) }
    }

    @Test("Environments are read from JSON and from an XML property list")
    func environments() throws {
        let one = try TestKey(.p256, "one").pin
        let two = try TestKey(.p256, "two").pin
        let json = """
            {"version": 1, "selected": "development", "environments": {
              "development": {"unlistedHosts": "systemTrust", "hosts": []},
              "production": {"unlistedHosts": "refuse", "hosts": [
                {"host": "www.example.com", "expires": "2027-01-31T12:00:00Z",
                 "pins": [{"hash": "\(one)"}, {"hash": "\(two)", "role": "backup"}]}]}}}
            """
        let list = """
            <?xml version="1.0" encoding="UTF-8"?>
            <plist version="1.0"><dict>
            <key>CFBundleName</key><string>App</string>
            <key>CulvertTrust</key><dict>
              <key>version</key><integer>1</integer>
              <key>selected</key><string>development</string>
              <key>environments</key><dict>
                <key>development</key><dict>
                  <key>unlistedHosts</key><string>systemTrust</string><key>hosts</key><array/>
                </dict>
                <key>production</key><dict>
                  <key>unlistedHosts</key><string>refuse</string>
                  <key>hosts</key><array><dict>
                    <key>host</key><string>www.example.com</string>
                    <key>expires</key><date>2027-01-31T12:00:00Z</date>
                    <key>pins</key><array>
                      <dict><key>hash</key><string>\(one)</string></dict>
                      <dict><key>hash</key><string>\(two)</string><key>role</key><string>backup</string></dict>
                    </array>
                  </dict></array>
                </dict>
              </dict>
            </dict>
            </dict></plist>
            """
        let configuration = try TrustConfiguration(json: Array(json.utf8))
        #expect(configuration.selected == .development)
        #expect(configuration.environments.count == 2)
        #expect(try TrustConfiguration(propertyList: Array(list.utf8)) == configuration)
        #expect(throws: PolicyError.self) { try TrustConfiguration(propertyList: Array(list.utf8), key: "Other") }
        #expect(throws: PolicyError.self) { try TrustConfiguration(propertyList: Array(json.utf8.prefix(10))) }
        let wrong = list.replacing("<string>refuse</string>", with: "<true/>")
        let error = try #require(throws: PolicyError.self) { try TrustConfiguration(propertyList: Array(wrong.utf8)) }
        #expect(error.problems.map(\.path) == ["CulvertTrust.environments.production.unlistedHosts"])
    }

    @Test("Policies are found among other members of an Info.plist, and may not contain foreign members")
    func foreignMembers() throws {
        func list(_ policies: String, _ others: String = "") -> [UInt8] {
            Array(
                """
                <?xml version="1.0" encoding="UTF-8"?>
                <plist version="1.0"><dict>
                \(others)
                <key>CulvertTrust</key>\(policies)
                </dict></plist>
                """.utf8)
        }
        let good = """
            <dict><key>version</key><integer>1</integer><key>unlistedHosts</key><string>refuse</string>
            <key>hosts</key><array/></dict>
            """
        let date = "<date>2027-01-31T12:00:00Z</date>"
        let dated = "<dict><key>host</key>\(date)<key>exclude</key><true/></dict>"
        let deep = String(repeating: "<array>", count: 40) + String(repeating: "</array>", count: 40)
        let others = """
            <key>A</key><real>1.5</real><key>B</key><data>AAEC</data><key>C</key>\(deep)<key>D</key><false/>
            <key>E</key><date>2027-01-31T12:00:00Z</date><key>F</key><dict><key>version</key><real>2.5</real></dict>
            """
        let expected = try PolicySet([], unlisted: .refuse)
        #expect(try TrustConfiguration(propertyList: list(good, others)).policies == expected)
        let bad: [(String, [String])] = [
            (good.replacing("<integer>1</integer>", with: "<real>1.5</real>"), ["CulvertTrust.version"]),
            (good.replacing("<integer>1</integer>", with: "<true/>"), ["CulvertTrust.version"]),
            (good.replacing("<integer>1</integer>", with: "<string>1</string>"), ["CulvertTrust.version"]),
            (good.replacing("<string>refuse</string>", with: "<data>AAEC</data>"), ["CulvertTrust.unlistedHosts"]),
            (good.replacing("<integer>1</integer>", with: date), ["CulvertTrust.version"]),
            (good.replacing("<string>refuse</string>", with: date), ["CulvertTrust.unlistedHosts"]),
            (good.replacing("<array/>", with: "<dict/>"), ["CulvertTrust.hosts"]),
            (good.replacing("<array/>", with: "<array>\(dated)</array>"), ["CulvertTrust.hosts[0].host"]),
            (good.replacing("<array/>", with: "<array><data>AAEC</data></array>"), ["CulvertTrust.hosts[0]"]),
            (good.replacing("<key>hosts</key>", with: "<key>Hosts</key>"), ["CulvertTrust.Hosts"]),
            ("<data>AAEC</data>", ["CulvertTrust"]), (deep, ["CulvertTrust"]),
        ]
        for (policies, paths) in bad {
            let error = #expect(throws: PolicyError.self) {
                try TrustConfiguration(propertyList: list(policies, others))
            }
            #expect(error?.problems.map(\.path) == paths, "\(policies)")
        }
    }

    @Test("Times are written in the form in which they are read")
    func timestamps() {
        for seconds: Int64 in [0, -1, 951_782_400, 1_798_761_599, 253_402_300_799, -62_167_219_200, 4_102_444_800] {
            #expect(Timestamp.parse(Timestamp.text(seconds)) == seconds)
        }
        #expect(Timestamp.text(1_780_272_000) == "2026-06-01T00:00:00Z")
        #expect(TestDate.today.seconds == 1_780_272_000)
        for text in ["2027-02-29", "2027-1-1", "2027-01-01T24:00:00Z", "2027-01-01T00:00:00+00:00", "+027-01-01", ""] {
            #expect(Timestamp.parse(text) == nil)
        }
    }
}
