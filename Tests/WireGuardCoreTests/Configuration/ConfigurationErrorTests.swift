// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing
import WireGuardCore

/// One broken file and the one error that it should give.
struct BrokenFile: Sendable, CustomTestStringConvertible {
    var name: String
    var text: String
    var code: ConfigurationError.Code
    var line: Int
    var column: Int
    /// A word that the fix or the reason must contain.
    var mentions: String

    init(
        _ name: String, _ text: String, _ code: ConfigurationError.Code, _ line: Int, _ column: Int,
        _ mentions: String = ""
    ) {
        self.name = name
        self.text = text
        self.code = code
        self.line = line
        self.column = column
        self.mentions = mentions
    }

    var testDescription: String { name }
}

private func errors(_ text: String) -> [ConfigurationError] {
    TunnelConfiguration.check(Array(text.utf8), name: "wg0.conf").errors
}

@Suite("Errors of a wg-quick file, with their positions")
struct ConfigurationErrorTests {
    private static let zeros = String(repeating: "A", count: 43) + "="

    static let structure: [BrokenFile] = [
        BrokenFile("an empty file", "", .emptyFile, 1, 1, "[Interface]"),
        BrokenFile("a file of comments", "# hello\n\n  # bye\n", .emptyFile, 1, 1),
        BrokenFile("no interface", "[Peer]\nPublicKey = \(Sample.peerText)\n", .missingInterface, 1, 1, "[Interface]"),
        BrokenFile("two interfaces", Sample.interface() + "\n[Interface]\n", .repeatedInterface, 4, 1, "line 1"),
        BrokenFile("an interface without key", "\n [Interface]\nMTU = 1420\n", .missingPrivateKey, 2, 2, "wg genkey"),
        BrokenFile(
            "a peer without key", Sample.interface() + "[Peer]\nAllowedIPs=::/0\n", .missingPublicKey, 3, 1, "PublicKey"
        ),
        BrokenFile(
            "a section with s", Sample.interface() + "[Peers]\nPublicKey = \(Sample.peerText)\n", .unknownSection, 3, 1,
            "[Peer]?"),
        BrokenFile("another section", Sample.interface() + "[Server]\nFoo = 1\n", .unknownSection, 3, 1, "[Peer]"),
        BrokenFile(
            "a section not closed", Sample.interface() + "[Peer\nPublicKey = \(Sample.peerText)\n", .malformedSection,
            3, 1),
        BrokenFile(
            "text after a section", Sample.interface() + "[Peer] x\nPublicKey = \(Sample.peerText)\n",
            .malformedSection, 3, 1),
        BrokenFile("an empty section", Sample.interface() + "[]\n", .unknownSection, 3, 1),
        BrokenFile(
            "a key before the first section", "MTU = 1420\n" + Sample.interface(), .keyBeforeSection, 1, 1,
            "[Interface]"),
        BrokenFile("no equals sign", Sample.interface("ListenPort 51820"), .missingEqualsSign, 3, 1, "ListenPort ="),
        BrokenFile("a comment of another language", Sample.interface("; comment"), .missingEqualsSign, 3, 1, "#"),
        BrokenFile("no key", Sample.interface(" = 5"), .unknownKey, 3, 2),
        BrokenFile("a repeated key", Sample.interface("MTU=1420", "mtu=1421"), .repeatedKey, 4, 1, "line 3"),
        BrokenFile(
            "a repeated private key", Sample.interface("PrivateKey=\(Sample.key(9))"), .repeatedKey, 3, 1, "line 2"),
        BrokenFile("a repeated public key", Sample.peer("PublicKey=\(Sample.key(9))"), .repeatedKey, 5, 1, "[Peer]"),
        BrokenFile("a repeated endpoint", Sample.peer("Endpoint=a:1", "Endpoint=b:1"), .repeatedKey, 6, 1, "line 5"),
        BrokenFile(
            "the same peer twice", Sample.peer() + "[Peer]\nPublicKey = \(Sample.peerText)\n", .repeatedPeer, 6, 13,
            "line 4"),
        BrokenFile("a key of a peer", Sample.interface("AllowedIPs = ::/0"), .wrongSection, 3, 1, "[Peer]"),
        BrokenFile(
            "a public key for the interface", Sample.interface("PublicKey = \(Sample.key(9))"), .wrongSection, 3, 1,
            "delete"),
        BrokenFile("a key of the interface", Sample.peer("DNS = 1.1.1.1"), .wrongSection, 5, 1, "[Interface]"),
        BrokenFile("a byte order mark", "\u{feff}" + Sample.interface(), .byteOrderMark, 1, 1, "without BOM"),
        BrokenFile("a control character", Sample.interface("MTU = 14\u{1b}20"), .controlCharacter, 3, 9),
        BrokenFile("a zero byte", Sample.interface("MTU = 1420\0"), .controlCharacter, 3, 11),
        BrokenFile(
            "a vertical tab in a hook", Sample.interface("PostUp = a\u{b}b"), .controlCharacter, 3, 11, "delete"),
        BrokenFile("a form feed in a hook", Sample.interface("PreDown = a\u{c} b # c"), .controlCharacter, 3, 12),
        BrokenFile("old Macintosh line ends", "[Interface]\rMTU = 1420\r", .controlCharacter, 1, 12, "LF"),
        BrokenFile("a no-break space", Sample.interface("MTU\u{a0}= 1420"), .invisibleCharacter, 3, 4, "type it again"),
        BrokenFile("a zero-width space", Sample.interface("MTU = \u{200b}1420"), .invisibleCharacter, 3, 7),
    ]

    static let values: [BrokenFile] = [
        BrokenFile("an empty number", Sample.interface("MTU ="), .emptyValue, 3, 6, "delete"),
        BrokenFile("an empty key", "[Interface]\nPrivateKey =\n", .emptyValue, 2, 13),
        BrokenFile("an empty command", Sample.interface("PostUp = # nothing"), .emptyValue, 3, 9),
        BrokenFile("an empty endpoint", Sample.peer("Endpoint ="), .emptyValue, 5, 11),
        BrokenFile("an item missing", Sample.peer("AllowedIPs = 10.0.0.0/8,,::/0"), .emptyListItem, 5, 25),
        BrokenFile("a comma at the end", Sample.peer("AllowedIPs = ::/0, "), .emptyListItem, 5, 18),
        BrokenFile("a comma at the start", Sample.interface("Address = ,10.0.0.1"), .emptyListItem, 3, 11),
        BrokenFile(
            "networks parted by spaces", Sample.peer("AllowedIPs = 10.0.0.0/8 ::/0"), .spaceInsideValue, 5, 24, "comma"),
        BrokenFile("a space in a prefix length", Sample.peer("AllowedIPs = 10.0.0.0/1 6"), .spaceInsideValue, 5, 24),
        BrokenFile("a space in a number", Sample.interface("ListenPort = 51 820"), .spaceInsideValue, 3, 16),
        BrokenFile("MTU below the range", Sample.interface("MTU = 575"), .invalidNumber, 3, 7, "576"),
        BrokenFile("MTU above the range", Sample.interface("MTU = 65536"), .invalidNumber, 3, 7, "65535"),
        BrokenFile("MTU of zero", Sample.interface("MTU = 0"), .invalidNumber, 3, 7, "delete the line"),
        BrokenFile("a port above the range", Sample.interface("ListenPort = 65536"), .invalidNumber, 3, 14, "65535"),
        BrokenFile("a port with a sign", Sample.interface("ListenPort = +1"), .invalidNumber, 3, 14),
        BrokenFile("a port in hexadecimal", Sample.interface("ListenPort = 0x10"), .invalidNumber, 3, 14),
        BrokenFile(
            "a very large port", Sample.interface("ListenPort = 99999999999999999999999999"), .invalidNumber, 3, 14),
        BrokenFile("a mark of 33 bits", Sample.interface("FwMark = 0x100000000"), .invalidNumber, 3, 10, "off"),
        BrokenFile("a mark without digits", Sample.interface("FwMark = 0x"), .invalidNumber, 3, 10),
        BrokenFile("a negative mark", Sample.interface("FwMark = -1"), .invalidNumber, 3, 10),
        BrokenFile(
            "a keepalive above the range", Sample.peer("PersistentKeepalive = 65536"), .invalidNumber, 5, 23, "off"),
        BrokenFile("a keepalive with unit", Sample.peer("PersistentKeepalive = 25s"), .invalidNumber, 5, 23),
        BrokenFile("a table that is no name", Sample.interface("Table = -1"), .invalidTable, 3, 9),
        BrokenFile("a table of 33 bits", Sample.interface("Table = 4294967296"), .invalidTable, 3, 9),
        BrokenFile(
            "neither true nor false", Sample.interface("SaveConfig = yes"), .invalidBoolean, 3, 14, "true or false"),
        BrokenFile("an address of a name", Sample.interface("Address = host"), .invalidAddress, 3, 11),
        BrokenFile(
            "an address with large prefix", Sample.interface("Address = 10.0.0.2/33"), .invalidAddress, 3, 20, "32"),
        BrokenFile(
            "the address of nobody", Sample.interface("Address = 0.0.0.0/0"), .invalidAddress, 3, 11, "AllowedIPs"),
        BrokenFile("an address twice", Sample.interface("Address = 10.0.0.2/32, 10.0.0.2/24"), .repeatedAddress, 3, 24),
        BrokenFile("an allowed IP with mask", Sample.peer("AllowedIPs = 10.0.0.0/255.0.0.0"), .invalidAllowedIP, 5, 26),
        BrokenFile("a sign alone", Sample.peer("AllowedIPs = +"), .invalidAllowedIP, 5, 15),
        BrokenFile("two signs", Sample.peer("AllowedIPs = +-10.0.0.0/8"), .invalidAllowedIP, 5, 15),
        BrokenFile(
            "an endpoint without port", Sample.peer("Endpoint = vpn.example.com"), .invalidEndpoint, 5, 27, "host:port"),
        BrokenFile("an endpoint without host", Sample.peer("Endpoint = :51820"), .invalidEndpoint, 5, 12),
        BrokenFile(
            "an IPv6 endpoint without brackets", Sample.peer("Endpoint = 2001:db8::1:51820"), .invalidEndpoint, 5, 12,
            "brackets"),
        BrokenFile("an endpoint with port 0", Sample.peer("Endpoint = a:0"), .invalidEndpoint, 5, 14, "port 0"),
        BrokenFile("an endpoint with large port", Sample.peer("Endpoint = a:65536"), .invalidEndpoint, 5, 14, "65535"),
        BrokenFile("an endpoint with scheme", Sample.peer("Endpoint = https://a:1"), .invalidEndpoint, 5, 12),
        BrokenFile("a short public key", Sample.interface() + "[Peer]\nPublicKey = AAAA\n", .invalidKey, 4, 13, "44"),
        BrokenFile("a public key of zeros", Sample.interface() + "[Peer]\nPublicKey = \(zeros)\n", .zeroKey, 4, 13),
        BrokenFile("a private key of zeros", "[Interface]\nPrivateKey = \(zeros)\n", .zeroKey, 2, 14, "wg genkey"),
        BrokenFile(
            "a hexadecimal key", "[Interface]\nPrivateKey = \(Sample.hex(1))\n", .invalidKey, 2, 14, "hexadecimal"),
        BrokenFile(
            "a key with a bad character", "[Interface]\nPrivateKey = !\(Sample.privateText.dropFirst())\n", .invalidKey,
            2, 14),
        BrokenFile(
            "a key without its =", "[Interface]\nPrivateKey = \(Sample.privateText.dropLast())\n", .invalidKey, 2, 14,
            "="),
        BrokenFile(
            "loose tail bits", "[Interface]\nPrivateKey = \(String(repeating: "A", count: 42))B=\n", .invalidKey, 2, 14),
    ]

    @Test("Each broken file gives one error at its place", arguments: structure + values)
    func oneError(file: BrokenFile) {
        let found = errors(file.text)
        #expect(found.count == 1, "\(found.map(\.description))")
        #expect(found.first?.code == file.code)
        #expect(found.first?.line == file.line)
        #expect(found.first?.column == file.column)
        #expect(found.first?.reason.isEmpty == false)
        #expect(found.first?.fix.isEmpty == false)
        let advice = "\(found.first?.reason ?? "") \(found.first?.fix ?? "")"
        #expect(file.mentions.isEmpty || advice.contains(file.mentions))
    }

    @Test(
        "A misspelt key is suggested",
        arguments: [
            ("PrivatKey", "PrivateKey"), ("Adress", "Address"), ("Addresses", "Address"), ("DNSServers", "DNS"),
            ("Listen-Port", "ListenPort"),
            ("Post Up", "PostUp"), ("Save_Config", "SaveConfig"), ("allowedip", "AllowedIPs"),
            ("AllowedIPS4", "AllowedIPs"),
            ("EndPoint:", "Endpoint"), ("PersistentKeepAlives", "PersistentKeepalive"),
            ("Keepalive", "PersistentKeepalive"),
            ("PreSharedKeys", "PresharedKey"), ("PSK", "PresharedKey"), ("Nameserver", "DNS"), ("FwMrk", "FwMark"),
        ])
    func suggestions(key: String, meant: String) {
        let found = errors(Sample.interface("\(key) = 1"))
        #expect(found.map(\.code) == [.unknownKey])
        #expect(found.first?.fix == "did you mean \(meant)?")
        #expect(found.first?.offendingText == key)
    }

    @Test("A key like no other gets the list of keys of its section")
    func noSuggestion() {
        #expect(errors(Sample.interface("Colour = blue")).first?.fix.contains("PostDown, SaveConfig") == true)
        #expect(errors(Sample.peer("Colour = blue")).first?.fix.contains("AllowedIPs") == true)
    }

    @Test("All errors of a file are reported together, in line order")
    func allErrors() {
        let text = """
            Address = 10.0.0.1
            [Interface]
            Adress = 10.0.0.1
            MTU = 1
            DNS = 8.8, 9.9.9.9, 1.1.1
            [Peer]
            [Peer]
            PublicKey = x
            AllowedIPs = 10.0.0.0/99, , 300.0.0.0/8
            """
        let found = errors(text)
        #expect(found.map(\.line) == [1, 2, 3, 4, 5, 5, 6, 8, 9, 9, 9])
        #expect(
            found.map(\.code) == [
                .keyBeforeSection, .missingPrivateKey, .unknownKey, .invalidNumber, .invalidDNS, .invalidDNS,
                .missingPublicKey,
                .invalidKey, .emptyListItem, .invalidAllowedIP, .invalidAllowedIP,
            ])
        let thrown = #expect(throws: ConfigurationErrors.self) { try TunnelConfiguration.parse(text, name: "wg0.conf") }
        #expect(thrown?.errors == found)
        #expect(thrown?.description.split(separator: "\n").filter { $0.hasPrefix("wg0.conf:") }.count == 11)
    }

    @Test("An error prints like a compiler's: place, offending text, fix")
    func format() {
        let text = errors(Sample.interface("Address = 10.0.0.1, 10.0.0.2/33")).first?.description
        #expect(
            text == """
                wg0.conf:3:30: error: the prefix length of an IPv4 address is at most 32
                    10.0.0.2/33
                    fix: write an address such as 10.0.0.2/32 or fd00::2/128
                """)
    }

    @Test("Bytes that are not UTF-8 are one error with their line")
    func notUTF8() {
        for bad: [UInt8] in [
            [0xff], [0xc3], [0xe2, 0x82], [0xed, 0xa0, 0x80], [0xc0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0x80],
        ] {
            let bytes = Array("[Interface]\n# x".utf8) + bad + Array("\nMTU = 1420\n".utf8)
            let found = TunnelConfiguration.check(bytes).errors
            #expect(found.map(\.code) == [.notUTF8])
            #expect(found.first?.line == 2)
            #expect(found.first?.column == 4)
            #expect(found.first?.offendingText.hasPrefix("\\x") == true)
        }
    }

    @Test("A file in UTF-16 gives one error, not one for each line")
    func utf16() {
        var bytes: [UInt8] = [0xff, 0xfe]
        for unit in Sample.wholeFile.utf16 {
            bytes += [UInt8(truncatingIfNeeded: unit), UInt8(truncatingIfNeeded: unit >> 8)]
        }
        let found = TunnelConfiguration.check(bytes).errors
        #expect(found.map(\.code) == [.notUTF8])
        #expect(found.first?.reason.contains("UTF-16") == true)
    }
}

@Suite("Quirks of WireGuardKit's parser that are errors here")
struct WireGuardKitQuirkTests {
    static let quirks: [BrokenFile] = [
        BrokenFile(
            "a bare [Peer] as the last line is not dropped", Sample.interface() + "[Peer]", .missingPublicKey, 3, 1),
        BrokenFile("a lone [Interface] is not 'no interface'", "[Interface]", .missingPrivateKey, 1, 1),
        BrokenFile(
            "a key before the first section is not ignored", "ListenPort = 1\n" + Sample.interface(), .keyBeforeSection,
            1, 1),
        BrokenFile(
            "an IPv4 prefix length is not clamped", Sample.peer("AllowedIPs = 10.0.0.0/200"), .invalidAllowedIP, 5, 23),
        BrokenFile(
            "an IPv6 prefix length is not clamped", Sample.peer("AllowedIPs = ::/129"), .invalidAllowedIP, 5, 17),
        BrokenFile("a prefix length has no sign", Sample.peer("AllowedIPs = 10.0.0.0/+8"), .invalidAllowedIP, 5, 23),
        BrokenFile("DNS 8.8 is not a search domain", Sample.interface("DNS = 8.8"), .invalidDNS, 3, 10),
        BrokenFile("DNS 8.8.8.8.8 is not a search domain", Sample.interface("DNS = 8.8.8.8.8"), .invalidDNS, 3, 14),
        BrokenFile("DNS 8.8.8.256 is not a search domain", Sample.interface("DNS = 8.8.8.256"), .invalidDNS, 3, 13),
        BrokenFile(
            "a mistyped IPv6 server is not a search domain", Sample.interface("DNS = fd00:::1"), .invalidDNS, 3, 13),
        BrokenFile("DNS is not any text", Sample.interface("DNS = not/a/name"), .invalidDNS, 3, 10),
        BrokenFile(
            "an item of white space is not an empty search domain", Sample.interface("DNS = 1.1.1.1, ,a"),
            .emptyListItem, 3, 16),
        BrokenFile("an empty item is not skipped", Sample.peer("AllowedIPs = ::/0,,0.0.0.0/0"), .emptyListItem, 5, 19),
        BrokenFile("IPv4 has no short forms", Sample.interface("Address = 10.1/16"), .invalidAddress, 3, 15),
        BrokenFile("an MTU of 1 is not accepted", Sample.interface("MTU = 1"), .invalidNumber, 3, 7),
        BrokenFile("a number has no sign", Sample.interface("ListenPort = +51820"), .invalidNumber, 3, 14),
        BrokenFile("an endpoint needs a host", Sample.peer("Endpoint = :5"), .invalidEndpoint, 5, 12),
        BrokenFile("brackets hold no host name", Sample.peer("Endpoint = [a.example]:5"), .invalidEndpoint, 5, 13),
        BrokenFile(
            "an endpoint in brackets needs a port (a crash in one copy)", Sample.peer("Endpoint = [::1]"),
            .invalidEndpoint, 5, 17),
        BrokenFile(
            "the errors of a second interface do not hide that it is the second", Sample.interface() + "[Interface]\n",
            .repeatedInterface, 3, 1),
        BrokenFile(
            "a peer twice is an error, not a trap", Sample.peer() + "[Peer]\nPublicKey=\(Sample.peerText)",
            .repeatedPeer, 6, 11),
        BrokenFile(
            "a key with a bad character is an error (a trap in one copy)",
            Sample.interface() + "[Peer]\nPublicKey = \u{7f51}\(String(repeating: "A", count: 40))=\n", .invalidKey, 4,
            13),
        BrokenFile(
            "tail bits of a key count",
            Sample.interface() + "[Peer]\nPublicKey = \(String(repeating: "A", count: 42))F=\n", .invalidKey, 4, 13),
    ]

    @Test("Each quirk is an error at its place", arguments: quirks)
    func quirk(file: BrokenFile) {
        let found = errors(file.text)
        #expect(found.map(\.code) == [file.code], "\(found.map(\.description))")
        #expect(found.first?.line == file.line)
        #expect(found.first?.column == file.column)
    }

    @Test("Keys that WireGuardKit refuses are read")
    func moreKeys() throws {
        _ = try TunnelConfiguration.parse(
            Sample.interface(
                "FwMark = 1", "Table = off", "PreUp = a", "PostUp = a", "PreDown = a", "PostDown = a",
                "SaveConfig = false"))
        #expect(
            try TunnelConfiguration.parse(Sample.peer("PersistentKeepalive = off")).peers.first?.persistentKeepalive
                == 0)
        #expect(
            try TunnelConfiguration.parse(Sample.peer("Endpoint = [fe80::1%en0]:1")).peers.first?.endpoint?.host
                == "fe80::1%en0")
    }
}

@Suite("Keys never appear in errors or descriptions")
struct ConfigurationSecrecyTests {
    private static let secret = Sample.privateText

    @Test(
        "A secret is not in the error, wherever it was put",
        arguments: [
            "[Interface]\nPrivateKey = \(secret)x\n",
            "[Interface]\nPrivateKey = \(secret.dropLast(5))\n",
            "[Interface]\nPrivateKey = \(secret.prefix(20)) \(secret.dropFirst(20))\n",
            "[Interface]\nPrivatKey = \(secret)\n",
            "[Interface]\nPrivateKey \(secret)\n",
            "[Interface]\nPrivateKey: \(secret)\n",
            "[Interface]\nPrivateKey \(secret.prefix(22))\n",
            "[Interface]\n\(secret)\n",
            "\(secret)\n",
            "[Interface]\nFoo = \(secret)\n",
            "[Interface]\nAddress = \(secret)\n",
            "[Interface]\nDNS = \(secret)\n",
            "[Interface]\nMTU = \(secret)\n",
            "[Interface]\nTable = \(secret)\n",
            "[\(secret)]\n",
            "[Interface\(secret)\n",
            "[InterfacePrivateKey = \(secret.prefix(22)),\(secret.dropFirst(22))\n",
            "[Interface]\nPrivateKey = \(secret.prefix(22))\n\(secret.dropFirst(22))\n",
            "[Interface]\nPrivateKey = \(secret.prefix(15))\n\(secret.dropFirst(15).prefix(15))\n\(secret.dropFirst(30))\n",
            "[Peer]\nPublicKey = \(secret)\nEndpoint = \(secret)\nAllowedIPs = \(secret)\n",
            "[Peer]\nPresharedKey = \(secret)A\nPSK = \(secret)\n",
            "[Peer]\nPrivateKey = \(secret)\n",
            "[Peer]\nPublicKey = \(secret)\n[Peer]\nPublicKey = \(secret)\n",
            "[Interface]\nPrivateKey = \(secret)\nPrivateKey = \(secret)\n",
            "[Interface]\nPrivateKey = \(secret)\u{a0}\n",
            "[Interface]\nPrivateKey = \u{1}\(secret)\n",
            "[Interface]\nSaveConfig = \(Sample.hex(1))\n",
        ])
    func redaction(text: String) {
        let report = TunnelConfiguration.check(Array(text.utf8))
        #expect(!report.errors.isEmpty)
        for error in report.errors {
            // No ten characters in a row of the key, in either notation.
            for key in [Sample.privateText, Sample.hex(1)] {
                for start in 0..<(key.count - 10) {
                    let part = key.dropFirst(start).prefix(10)
                    #expect(!error.description.contains(part), "\(error)")
                }
            }
        }
    }

    @Test("Descriptions and dumps of a configuration contain neither keys nor commands")
    func descriptions() throws {
        let configuration = try TunnelConfiguration.parse(Sample.wholeFile)
        var dumped = ""
        dump(configuration, to: &dumped)
        for text in [
            configuration.description, String(reflecting: configuration), "\(configuration.interface)",
            "\(configuration.peers)", dumped,
        ] {
            #expect(!text.contains(Sample.privateText))
            #expect(!text.contains(Sample.presharedText))
            #expect(!text.contains("iptables"))
        }
        #expect(configuration.description.contains("10.0.0.2/24"))
        var update = ""
        dump(try configuration.deviceUpdate { _ in Endpoint(address: .v4(1), port: 1) }, to: &update)
        #expect(!update.contains(Sample.hex(1)))
        #expect(!update.contains(Sample.privateText))
    }

    @Test("An offending text is short and without control characters")
    func shortText() {
        let found = errors(Sample.interface("Table = " + String(repeating: "a.", count: 5000)))
        #expect(found.count == 1)
        #expect((found.first?.offendingText.utf8.count ?? .max) < 200)
    }
}
