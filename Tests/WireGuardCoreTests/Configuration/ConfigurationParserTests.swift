// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing
import WireGuardCore

@Suite("Reading wg-quick files")
struct ConfigurationParserTests {
    @Test("Every key of a whole file is read")
    func wholeFile() throws {
        let configuration = try TunnelConfiguration.parse(Sample.wholeFile)
        let interface = configuration.interface
        #expect(interface.privateKey == Sample.privateKey(1))
        #expect(interface.listenPort == 51820)
        #expect(interface.fwMark == 0xca6c)
        #expect(interface.addresses.map(\.description) == ["10.0.0.2/24", "fd00::2/64"])
        #expect(interface.dnsServers.map(\.description) == ["10.0.0.1", "fd00::1"])
        #expect(interface.dnsSearchDomains == ["corp.example"])
        #expect(interface.mtu == 1420)
        #expect(interface.table == .number(1234))
        #expect(interface.preUp == ["echo pre up"])
        #expect(interface.postUp == ["iptables -A FORWARD -i %i -j ACCEPT; echo \"up\""])
        #expect(interface.preDown == ["echo pre down"])
        #expect(interface.postDown == ["echo post down"])
        #expect(interface.saveConfig)
        try #require(configuration.peers.count == 2)
        let first = configuration.peers[0]
        #expect(first.publicKey == Sample.publicKey(3))
        #expect(first.presharedKey == Sample.presharedKey(2))
        #expect(first.allowedIPs.map(\.description) == ["10.0.0.0/24", "fd00::/64"])
        #expect(first.endpoint?.host == "vpn.example.com")
        #expect(first.endpoint?.port == 51820)
        #expect(first.persistentKeepalive == 25)
        let second = configuration.peers[1]
        #expect(
            second.allowedIPsRule
                == .changes([.add(try IPPrefix("10.1.0.0/16")), .remove(try IPPrefix("10.1.2.0/24"))]))
        #expect(second.endpoint?.endpoint == (try Endpoint("[2001:db8::1]:51821")))
        #expect(second.persistentKeepalive == 0)
    }

    @Test(
        "Forms that wg and wg-quick take are taken, and mean the same",
        arguments: [
            // Case, space and line ends.
            "[INTERFACE]\nprivatekey=KEY\naddress=10.0.0.2/32",
            "  [Interface]  \n\t PrivateKey\t=\tKEY \n Address = 10.0.0.2/32\n",
            "[ Interface ]\nPrivate Key = KEY\nAddress = 10.0.0.2",
            "[Interface]\r\nPrivateKey = KEY\r\nAddress = 10.0.0.2/32\r\n",
            "\n\n[Interface]\n\nPrivateKey = KEY\n\n\nAddress = 10.0.0.2/32\n\n",
            // Comments.
            "# one\n[Interface] # two\nPrivateKey = KEY # three\nAddress = 10.0.0.2/32#four\n#five",
            "# caf\u{e9} \u{a0}\n[Interface]\nPrivateKey = KEY\nAddress = 10.0.0.2/32",
            // Empty lists are nothing.
            "[Interface]\nPrivateKey = KEY\nAddress =\nDNS = \nAddress = 10.0.0.2/32",
        ])
    func lenientForms(text: String) throws {
        let configuration = try TunnelConfiguration.parse(text.replacing("KEY", with: Sample.privateText))
        var interface = InterfaceConfiguration(privateKey: Sample.privateKey(1))
        interface.addresses = [try InterfaceAddress("10.0.0.2/32")]
        #expect(configuration == TunnelConfiguration(interface: interface))
    }

    @Test("Lists are parted by commas, and those of wg-quick by spaces too; several lines add up")
    func lists() throws {
        let interface = try TunnelConfiguration.parse(
            Sample.interface(
                "Address = 10.0.0.2/32 fd00::2/128,10.0.0.3", "Address=10.0.0.4", "DNS=1.1.1.1 a.example,\tb.example",
                "DNS=::1")
        ).interface
        #expect(interface.addresses.map(\.description) == ["10.0.0.2/32", "fd00::2/128", "10.0.0.3/32", "10.0.0.4/32"])
        #expect(interface.dnsServers.map(\.description) == ["1.1.1.1", "::1"])
        #expect(interface.dnsSearchDomains == ["a.example", "b.example"])
        let peer = try TunnelConfiguration.parse(
            Sample.peer("AllowedIPs = 10.0.0.0 / 8 ,fd00::/8", "AllowedIPs =", "AllowedIPs = 192.0.2.1")
        ).peers.first
        #expect(peer?.allowedIPs.map(\.description) == ["10.0.0.0/8", "fd00::/8", "192.0.2.1/32"])
    }

    @Test("As in wg-quick a # ends a command, even inside quotes")
    func hookComment() throws {
        let interface = try TunnelConfiguration.parse(
            Sample.interface("PostUp = echo \"a # b\"", "PostUp = x=y; echo [z] = 1", "postup = echo é")
        ).interface
        #expect(interface.postUp == ["echo \"a", "x=y; echo [z] = 1", "echo é"])
    }

    @Test(
        "Marks are decimal, hexadecimal or off",
        arguments: [
            ("0", 0), ("off", 0), ("OFF", 0), ("51820", 51820), ("0xffffffff", 0xffff_ffff), ("0x10", 16), ("010", 10),
        ]
            as [(String, UInt32)])
    func marks(text: String, mark: UInt32) throws {
        #expect(try TunnelConfiguration.parse(Sample.interface("FwMark = \(text)")).interface.fwMark == mark)
    }

    @Test(
        "Tables are auto, off, a number or a name",
        arguments: [
            ("auto", .automatic), ("Off", .off), ("0", .number(0)), ("4294967295", .number(.max)),
            ("vpn.main-1", .named("vpn.main-1")),
        ]
            as [(String, RouteTable)])
    func tables(text: String, table: RouteTable) throws {
        #expect(try TunnelConfiguration.parse(Sample.interface("Table = \(text)")).interface.table == table)
    }

    @Test(
        "Limits of numbers are included",
        arguments: ["MTU = 576", "MTU = 65535", "ListenPort = 0", "ListenPort = 65535"])
    func numberLimits(line: String) throws {
        _ = try TunnelConfiguration.parse(Sample.interface(line))
    }

    @Test("Sections come in any order, and peers are not required")
    func sectionOrder() throws {
        let text = "[Peer]\nPublicKey = \(Sample.peerText)\n" + Sample.interface()
        #expect(try TunnelConfiguration.parse(text).peers.count == 1)
        #expect(try TunnelConfiguration.parse(Sample.interface()).peers.isEmpty)
    }

    @Test("A file for wg setconf may leave out the private key, or remove it with zeros")
    func withoutPrivateKey() throws {
        let zeros = String(repeating: "A", count: 43) + "="
        for text in ["[Interface]\nListenPort = 1\n", "[Interface]\nListenPort = 1\nPrivateKey = \(zeros)\n"] {
            let configuration = try TunnelConfiguration.parse(text, requiresPrivateKey: false)
            #expect(configuration.interface.privateKey == nil)
            #expect(throws: ConfigurationErrors.self) { try TunnelConfiguration.parse(text) }
        }
    }

    @Test("A file may leave its private key to PostUp, wherever that stands, and without PostUp it must have one")
    func privateKeyFromPostUp() {
        let zeros = "PrivateKey = \(String(repeating: "A", count: 43))=\n"
        func errors(_ text: String) -> [ConfigurationError.Code] {
            let report = TunnelConfiguration.check(
                Array("[Interface]\n\(text)".utf8), name: "f", privateKey: .requiredWithoutPostUp)
            #expect((report.configuration == nil) == !report.errors.isEmpty)
            return report.errors.map(\.code)
        }
        let hook = "PostUp = wg set %i private-key /k\n"
        for text in [hook, hook + zeros, zeros + hook] { #expect(errors(text).isEmpty, "\(text)") }
        #expect(errors("MTU = 1400\n") == [.missingPrivateKey])
        #expect(errors(zeros) == [.zeroKey])
        #expect(errors("PostDown = true\n") == [.missingPrivateKey])
        #expect(errors(hook + "PrivateKey = short\n").count == 1)
    }

    @Test("A private key of zeros is reported together with an unreadable line")
    func zeroPrivateKeyAndUnreadableLine() {
        let zeros = String(repeating: "A", count: 43) + "="
        let text = "[Interface]\nPrivateKey = \(zeros)\nPostUp = a\u{1}b\n"
        let report = TunnelConfiguration.check(Array(text.utf8))
        #expect(report.errors.map(\.code) == [.zeroKey, .controlCharacter])
    }

    @Test("A pre-shared key of zeros means no key")
    func zeroPresharedKey() throws {
        let zeros = String(repeating: "A", count: 43) + "="
        #expect(try TunnelConfiguration.parse(Sample.peer("PresharedKey = \(zeros)")).peers.first?.presharedKey == nil)
    }

    @Test("Host bits and networks of two peers are warnings, not errors")
    func warnings() {
        let text =
            Sample.peer("AllowedIPs = 10.0.0.5/24")
            + "[Peer]\nPublicKey=\(Sample.otherPeerText)\nAllowedIPs = 1.1.1.1, 10.0.0.0/24\n"
        let report = TunnelConfiguration.check(Array(text.utf8), name: "wg0.conf")
        #expect(report.errors.isEmpty)
        #expect(report.configuration?.peers.first?.allowedIPs.map(\.description) == ["10.0.0.0/24"])
        #expect(report.warnings.map(\.code) == [.hostBits, .sharedAllowedIP])
        #expect(report.warnings.map(\.line) == [5, 8])
        #expect(report.warnings.map(\.column) == [14, 23])
        #expect(report.warnings.first?.description.hasPrefix("wg0.conf:5:14: warning: ") == true)
    }
}
