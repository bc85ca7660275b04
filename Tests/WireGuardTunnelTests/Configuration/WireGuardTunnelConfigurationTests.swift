// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnel
import Testing
import WireGuardCore

@testable import WireGuardTunnel

@Suite("The WireGuard tunnel's configuration")
struct WireGuardTunnelConfigurationTests {
    private static let key = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="

    static let file = """
        [Interface]
        PrivateKey = yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=
        ListenPort = 51821
        FwMark = 0x20
        Address = 10.192.122.1/24, fd00::2/64
        DNS = 10.192.122.53, corp.example
        MTU = 1380
        PostUp = echo hello

        [Peer]
        PublicKey = xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=
        PresharedKey = AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=
        Endpoint = vpn.example.com:51820
        AllowedIPs = 0.0.0.0/0, ::/0
        PersistentKeepalive = 25

        [Peer]
        PublicKey = TrMvSoP4jYQlY6RIzBgbssQqY3vxI2Pi+y71lOWWXX0=
        AllowedIPs = 192.168.4.0/24
        """

    @Test("A wg-quick file is split into a configuration and its secrets")
    func split() throws {
        let result = try WireGuardTunnelConfiguration.split(wgQuick: Self.file)
        let configuration = result.configuration
        #expect(configuration.addresses.map(\.description) == ["10.192.122.1/24", "fd00::2/64"])
        #expect(configuration.listenPort == 51_821)
        #expect(configuration.fwMark == 0x20)
        #expect(configuration.mtu == 1380)
        #expect(configuration.dns?.servers == [.v4(10, 192, 122, 53)])
        #expect(configuration.dns?.searchDomains == ["corp.example"])
        #expect(configuration.peers.count == 2)
        #expect(configuration.peers[0].endpoint?.description == "vpn.example.com:51820")
        #expect(configuration.peers[0].persistentKeepalive == 25)
        #expect(configuration.presharedKeyNames == [configuration.peers[0].publicKey: "preshared-key-1"])
        #expect(
            configuration.tunnel.interface.privateKey == nil
                && configuration.peers.allSatisfy { $0.presharedKey == nil })
        #expect(result.ignoredKeys == ["PostUp"])
        #expect(Set(result.secrets.keys) == ["private-key", "preshared-key-1"])
        #expect(
            result.secrets["private-key"]?.bytes
                == Array(try #require(Data(base64Encoded: "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="))))
        #expect(configuration.validate().isEmpty)
    }

    @Test("No secret is in the configuration or its JSON")
    func noSecrets() throws {
        let configuration = try WireGuardTunnelConfiguration.split(wgQuick: Self.file).configuration
        let json = String(decoding: try JSONEncoder().encode(configuration), as: UTF8.self)
        for secret in ["yAnz5TF", "AQEBAQEB"] {
            #expect(!json.contains(secret))
            #expect(!"\(configuration)".contains(secret))
        }
        let decoded = try JSONDecoder().decode(WireGuardTunnelConfiguration.self, from: Data(json.utf8))
        #expect(decoded == configuration)
    }

    @Test("A routing table is kept by its number; the kernel's local table is refused")
    func routingTable() throws {
        let text = Self.file.replacing("[Interface]\n", with: "[Interface]\nTable = 1234\n", maxReplacements: 1)
        var result = try WireGuardTunnelConfiguration.split(wgQuick: text)
        #expect(result.configuration.routeTable == 1234 && result.configuration.makesRoutes)
        #expect(!result.ignoredKeys.contains("Table"))
        let json = try JSONEncoder().encode(result.configuration)
        #expect(try JSONDecoder().decode(WireGuardTunnelConfiguration.self, from: json).routeTable == 1234)
        #expect(result.configuration.validate().isEmpty)
        for table: UInt32 in [0, 255] {
            result.configuration.routeTable = table
            #expect(result.configuration.validate().map(\.field) == ["routeTable"])
        }
        let named = try WireGuardTunnelConfiguration.split(wgQuick: text.replacing("1234", with: "office"))
        #expect(named.configuration.routeTable == nil && named.ignoredKeys.contains("Table"))
    }

    @Test("A file without PrivateKey is accepted only if its PostUp runs, which may set the key")
    func privateKeyLater() throws {
        let lines = Self.file.split(separator: "\n", omittingEmptySubsequences: false)
        let text = lines.filter { !$0.hasPrefix("PrivateKey") && !$0.hasPrefix("PostUp") }.joined(separator: "\n")
        let hook = text.replacing(
            "[Interface]\n", with: "[Interface]\nPostUp = wg set %i private-key /k\n", maxReplacements: 1)
        for (text, runsHooks) in [(text, false), (text, true), (hook, false)] {
            #expect(throws: ConfigurationErrors.self) {
                try WireGuardTunnelConfiguration.split(
                    wgQuick: Array(text.utf8), name: "wg0.conf", runsHooks: runsHooks)
            }
        }
        let result = try WireGuardTunnelConfiguration.split(
            wgQuick: Array(hook.utf8), name: "wg0.conf", runsHooks: true)
        #expect(result.configuration.privateKeyComesLater && result.secrets["private-key"] == nil)
        #expect(result.configuration.validate().isEmpty)
        let json = try JSONEncoder().encode(result.configuration)
        #expect(try JSONDecoder().decode(WireGuardTunnelConfiguration.self, from: json) == result.configuration)
        let (former, next) = (result.configuration.tunnel, result.configuration.tunnel)
        #expect(next.deviceChange(from: former, endpoints: [:]).privateKey == .unchanged)
        let whole = try WireGuardTunnelConfiguration.split(
            wgQuick: Array(Self.file.utf8), name: "wg0.conf", runsHooks: true)
        #expect(!whole.configuration.privateKeyComesLater)
    }

    @Test("Members missing from JSON have their defaults")
    func defaults() throws {
        let json = #"{"addresses":["10.0.0.2/32"],"peers":[{"publicKey":"\#(Self.key)"}]}"#
        let decoded = try JSONDecoder().decode(WireGuardTunnelConfiguration.self, from: Data(json.utf8))
        #expect(decoded.privateKeyName == "private-key")
        #expect(decoded.connectivity == ConnectivityOptions())
        #expect(decoded.makesRoutes && decoded.routeTable == nil)
        #expect(decoded.peers[0].persistentKeepalive == 0 && decoded.peers[0].allowedIPs.isEmpty)
        #expect(decoded.dns == nil && decoded.mtu == nil && decoded.presharedKeyNames.isEmpty)
    }

    @Test("JSON of an earlier version is decoded, and is encoded again with the same members and values")
    func sameJSON() throws {
        let text = """
            {"addresses":["10.66.0.3/32","fd66::3/128"],"allowedNetworks":["192.168.99.0/24"],"allowsLocalNetwork":true,\
            "connectivity":{"connectivityInterval":5,"endWhenDead":"afterHealing","healingInterval":10,"isEnabled":true,\
            "maxConnectionAttempts":4,"pingAddress":"10.66.0.1","pingInterval":1},\
            "dns":{"matchDomains":["corp.example"],"searchDomains":[],"searchesMatchDomains":true,\
            "servers":["203.0.113.53"]},"excludedRoutes":["10.9.0.0/16"],"fwMark":32,"handshakeTimeout":30,\
            "leakPolicy":"enforcedRoutes","listenPort":51821,"makesRoutes":true,"mtu":1420,\
            "peers":[{"allowedIPs":["0.0.0.0/0","::/0"],"endpoint":"192.0.2.2:51820","persistentKeepalive":25,\
            "presharedKeyName":"my-key","publicKey":"\(Self.key)"},\
            {"allowedIPs":[],"persistentKeepalive":0,"publicKey":"TrMvSoP4jYQlY6RIzBgbssQqY3vxI2Pi+y71lOWWXX0="}],\
            "privateKeyComesLater":false,"privateKeyName":"my-private-key","resolutionTimeout":10,"routeTable":77,\
            "waitsForHandshake":true}
            """
        let decoded = try JSONDecoder().decode(WireGuardTunnelConfiguration.self, from: Data(text.utf8))
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        #expect(String(decoding: try encoder.encode(decoded), as: UTF8.self) == text)
        #expect(decoded.validate().isEmpty)
        let off = text.replacing("\"makesRoutes\":true", with: "\"makesRoutes\":false").replacing(
            "\"routeTable\":77,", with: "")
        let without = try JSONDecoder().decode(WireGuardTunnelConfiguration.self, from: Data(off.utf8))
        #expect(!without.makesRoutes && without.tunnel.interface.table == .off)
        #expect(String(decoding: try encoder.encode(without), as: UTF8.self) == off)
    }

    @Test("A malformed key or endpoint in JSON is reported by its field, with the other problems and without the key")
    func malformedJSON() throws {
        let text =
            #"{"addresses":["10.0.0.2/32"],"mtu":70000,"peers":[{"publicKey":"c2VjcmV0","endpoint":"vpn"},"#
            + #"{"publicKey":"\#(Self.key)","endpoint":"1.2.3:5"}]}"#
        let fields = ["peers[0].publicKey", "peers[0].endpoint", "peers[1].endpoint", "mtu"]
        let value = try JSONDecoder().decode(JSONValue.self, from: Data(text.utf8))
        let error = #expect(throws: TunnelError.self) {
            let _: WireGuardTunnelConfiguration = try value.decode()
        }
        #expect(error?.code == .configurationInvalid && error?.problems.map(\.field) == fields)
        #expect(error?.problems.contains { $0.description.contains("c2Vj") } == false)
        #expect(error?.problems.last?.value == "70000")
    }

    @Test(
        "DNS settings without a server, and an MTU out of range, stay in the configuration and are reported",
        arguments: [-1, 70_000])
    func unusableValues(_ mtu: Int) throws {
        let text =
            #"{"addresses":["10.0.0.2/32"],"mtu":\#(mtu),"dns":{"servers":[]},"#
            + #""peers":[{"publicKey":"\#(Self.key)"}]}"#
        var configuration = try JSONDecoder().decode(WireGuardTunnelConfiguration.self, from: Data(text.utf8))
        #expect(configuration.mtu == mtu && configuration.dns == DNSSettings(servers: []))
        let problems = configuration.validate()
        #expect(problems.contains { $0.field == "mtu" && $0.value == "\(mtu)" })
        #expect(problems.contains { $0.field == "dns.servers" })
        let json = try JSONEncoder().encode(configuration)
        #expect(try JSONDecoder().decode(WireGuardTunnelConfiguration.self, from: json) == configuration)
        (configuration.mtu, configuration.dns) = (1420, nil)
        #expect(configuration.mtu == 1420 && configuration.dns == nil)
    }

    @Test("A peer is made from texts, and both malformed texts are reported")
    func peerFromTexts() throws {
        let peer = try PeerConfiguration(publicKey: Self.key, endpoint: "[2001:db8::1]:51820", allowedIPs: [.allIPv4])
        #expect(peer.publicKey.base64 == Self.key && peer.endpoint?.description == "[2001:db8::1]:51820")
        let error = #expect(throws: TunnelError.self) { try PeerConfiguration(publicKey: "k", endpoint: "vpn") }
        #expect(error?.problems.map(\.field) == ["publicKey", "endpoint"])
    }

    @Test("Settings have the allowed IPs as routes, once each, with host bits cleared")
    func settings() throws {
        var configuration = try WireGuardTunnelConfiguration.split(wgQuick: Self.file).configuration
        configuration.peers[1].allowedIPs.append(try IPPrefix("192.168.4.9/24"))
        configuration.leakPolicy = .enforcedRoutes
        let settings = configuration.settings(leakPolicy: .routeBased)
        #expect(settings.includedRoutes.map(\.description) == ["0.0.0.0/0", "::/0", "192.168.4.0/24"])
        #expect(settings.addresses == configuration.addresses)
        #expect(settings.dns == configuration.dns)
        #expect(settings.mtu == 1380)
        #expect(settings.leakPolicy == .enforcedRoutes)
        #expect(settings.remoteAddress == "vpn.example.com")
        #expect(configuration.settings(leakPolicy: .everything).leakPolicy == .everything)
        configuration.makesRoutes = false
        #expect(configuration.settings().includedRoutes.isEmpty)
    }

    @Test("Allowed networks are kept in JSON, become settings, and are validated under their own name")
    func allowedNetworks() throws {
        var configuration = try WireGuardTunnelConfiguration.split(wgQuick: Self.file).configuration
        configuration.allowedNetworks = [try IPPrefix("172.16.0.0/12")]
        #expect(configuration.validate().isEmpty)
        #expect(configuration.settings().allowedNetworks == configuration.allowedNetworks)
        let json = try JSONEncoder().encode(configuration)
        #expect(try JSONDecoder().decode(WireGuardTunnelConfiguration.self, from: json) == configuration)
        configuration.allowedNetworks = [.allIPv4, try IPPrefix("192.168.0.0/16")]
        #expect(configuration.validate().map(\.field) == ["allowedNetworks[0]", "allowedNetworks[1]"])
    }

    @Test("The handling of a dead tunnel is kept in JSON, and defaults to further attempts")
    func endWhenDead() throws {
        #expect(try JSONDecoder().decode(ConnectivityOptions.self, from: Data("{}".utf8)).endWhenDead == .never)
        for value in ConnectivityOptions.EndWhenDead.allCases {
            let options = ConnectivityOptions(endWhenDead: value)
            let json = try JSONEncoder().encode(options)
            #expect(try JSONDecoder().decode(ConnectivityOptions.self, from: json) == options)
        }
    }

    @Test("The device's update has port, mark, keys and endpoints, and removes missing peers")
    func deviceUpdate() throws {
        var configuration = try WireGuardTunnelConfiguration.split(wgQuick: Self.file).configuration
        var random = SystemRandomNumberGenerator()
        let (first, second) = (configuration.peers[0].publicKey, configuration.peers[1].publicKey)
        configuration.tunnel.interface.privateKey = PrivateKey(using: &random)
        configuration.tunnel.peers[0].presharedKey = PresharedKey(using: &random)
        let endpoint = try Endpoint("198.51.100.1:51820")
        let former = configuration.tunnel
        var update = former.deviceUpdate(endpoints: [first: endpoint])
        #expect(update.listenPort == 51_821)
        #expect(update.fwMark == 0x20)
        #expect(update.replacePeers)
        #expect(update.peers.map(\.publicKey) == [first, second])
        #expect(update.peers[0].endpoint == endpoint && update.peers[1].endpoint == nil)
        #expect(update.peers[0].persistentKeepalive == 25)
        #expect(update.peers[0].allowedIPs.count == 2)
        configuration.tunnel.peers[0].presharedKey = nil
        configuration.tunnel.peers[0].persistentKeepalive = nil
        update = configuration.tunnel.deviceChange(from: former, endpoints: [:])
        #expect(update.peers.map(\.publicKey) == [first] && update.listenPort == nil && update.privateKey == .unchanged)
        #expect(update.peers[0].presharedKey == .clear && update.peers[0].persistentKeepalive == 0)
        configuration.peers = []
        configuration.listenPort = nil
        update = configuration.tunnel.deviceChange(from: former, endpoints: [:])
        #expect(update.fwMark == 0x20)
        #expect(update.listenPort == 0, "f2.6: a port that is taken out is given up")
        #expect(update.peers.map(\.remove) == [true, true], "f2.6: no peers means that those there are go")
        #expect(!update.replacePeers)
    }

    /// Comparing each peer with every other took more than half a minute in a debug build.
    @Test("The change between two configurations of 20,000 peers is found in linear time")
    func manyPeers() throws {
        var configuration = try WireGuardTunnelConfiguration.split(wgQuick: Self.file).configuration
        configuration.peers = (0..<20_000).compactMap { number in
            var key = [UInt8](repeating: 9, count: 32)
            (key[0], key[1]) = (UInt8(number >> 8), UInt8(number & 0xff))
            return PublicKey(bytes: key).map { PeerConfiguration(publicKey: $0) }
        }
        var next = configuration
        next.peers.removeFirst()
        let began = ContinuousClock.now
        let change = next.tunnel.deviceChange(from: configuration.tunnel, endpoints: [:])
        #expect(ContinuousClock.now - began < .seconds(15))
        #expect(change.peers.map(\.remove) == [true])
    }

    @Test("Validation reports all problems together, and no key")
    func validation() throws {
        let zero = PublicKey(Bytes32.zero)
        let configuration = WireGuardTunnelConfiguration(
            privateKeyName: "", addresses: [], mtu: 12, peers: [.init(publicKey: zero), .init(publicKey: zero)],
            presharedKeyNames: [zero: ""],
            connectivity: ConnectivityOptions(
                connectivityInterval: -1, maxConnectionAttempts: 0, pingAddress: "1.2.3"), handshakeTimeout: .nan)
        let problems = configuration.validate()
        let fields = Set(problems.map(\.field))
        #expect(
            fields.isSuperset(of: [
                "privateKeyName", "addresses", "mtu", "peers[0].publicKey", "peers[0].presharedKeyName",
                "peers[1].publicKey", "peers[1].presharedKeyName", "connectivity.connectivityInterval",
                "connectivity.maxConnectionAttempts", "connectivity.pingAddress", "handshakeTimeout",
            ]))
    }

    @Test("A malformed file causes an error with its lines")
    func wrongFile() {
        #expect(throws: ConfigurationErrors.self) {
            try WireGuardTunnelConfiguration.split(wgQuick: "[Interface]\nAddress = 10.0.0.300\n")
        }
    }
}
