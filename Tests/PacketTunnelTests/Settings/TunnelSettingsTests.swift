// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import HostConformance
import NetworkAddresses
import PacketTunnel
import Testing

@Suite("Tunnel settings")
struct TunnelSettingsTests {
    @Test("Tunnel settings that are right have no problem")
    func valid() throws {
        var settings = TunnelSettings.sample
        #expect(settings.validate().isEmpty)
        settings.addresses = [try InterfaceAddress("10.0.0.2/24"), try InterfaceAddress("fd00::2/64")]
        settings.includedRoutes = [.allIPv4, .allIPv6, try IPPrefix("224.0.0.0/3")]
        settings.excludedRoutes = [try IPPrefix("192.168.0.0/16")]
        settings.mtu = 1280
        settings.leakPolicy = .enforcedRoutes
        settings.dns = DNSSettings(
            servers: [.v4(10, 0, 0, 1), .v6(0xfd00 << 48, 1)], searchDomains: ["corp.example", "_tcp.example."],
            matchDomains: ["corp.example"])
        settings.proxy = ProxySettings(
            http: .init(host: "proxy.example", port: 3128), https: .init(host: "10.0.0.9", port: 3128),
            autoConfigurationURL: "https://proxy.example/wpad.pac", exceptions: ["*.example", "10.0.0.0/8", "printer"])
        #expect(settings.validate() == [])
    }

    @Test("Tunnel settings report all invalid fields together")
    func everyProblem() throws {
        var settings = TunnelSettings(
            remoteAddress: "",
            addresses: [
                try InterfaceAddress("0.0.0.0/8"), try InterfaceAddress("127.0.0.1"),
                try InterfaceAddress("fd00::2/64"),
                try InterfaceAddress("fd00::2/64"), try InterfaceAddress("10.0.0.2/0"),
                try InterfaceAddress("10.0.0.2 peer 10.0.0.1"),
            ],
            includedRoutes: [.allIPv4, try IPPrefix("224.0.0.0/4")],
            excludedRoutes: [.allIPv4, try IPPrefix("127.0.0.0/8")], mtu: 1279, leakPolicy: .everything)
        settings.dns = DNSSettings(
            servers: [.v4(0), .v4(1, 1, 1, 1), .v4(1, 1, 1, 1)], searchDomains: ["8.8.8", "-a.example", "a..b"],
            matchDomains: [String(repeating: "a", count: 64), "10.0.0.1"])
        settings.proxy = ProxySettings(
            http: .init(host: "http://proxy", port: 0), autoConfigurationURL: "ftp://proxy/x.pac", exceptions: ["a b"])
        #expect(
            settings.validate().map(\.field) == [
                "remoteAddress", "addresses[0]", "addresses[1]", "addresses[4]", "addresses[5]", "addresses[3]",
                "includedRoutes[1]", "excludedRoutes[1]", "excludedRoutes[0]", "excludedRoutes", "mtu",
                "dns.servers[0]",
                "dns.servers[2]", "dns.searchDomains[0]", "dns.searchDomains[1]", "dns.searchDomains[2]",
                "dns.matchDomains[0]", "dns.matchDomains[1]", "proxy.http.host", "proxy.http.port",
                "proxy.autoConfigurationURL", "proxy.exceptions[0]",
            ])
        let problem = try #require(settings.validate().first { $0.field == "addresses[4]" })
        #expect(problem.value == "10.0.0.2/0")
        #expect(problem.fix == "use /32, and routes for networks")
        for problem in settings.validate() { #expect(!problem.problem.isEmpty && !problem.fix.isEmpty) }
    }

    @Test("Allowed networks are some, not all; none is this machine, there twice, or holds a route of the tunnel")
    func allowedNetworks() throws {
        var settings = TunnelSettings.sample
        settings.includedRoutes = [.allIPv4, try IPPrefix("10.1.2.0/24")]
        settings.allowedNetworks = [
            .allIPv4, .allIPv6, try IPPrefix("128.0.0.0/1"), try IPPrefix("127.0.0.0/8"), try IPPrefix("10.1.0.0/16"),
            try IPPrefix("192.168.0.0/16"), try IPPrefix("192.168.0.0/16"),
        ]
        let problems = settings.validate()
        #expect(
            problems.map(\.field) == [0, 1, 2, 3, 4, 6].map { "allowedNetworks[\($0)]" })
        #expect(problems[0].fix.contains("192.168.0.0/16") && problems[1].fix.contains("fd00::/8"))
        #expect(problems[4].description.contains("10.1.2.0/24"))
        // Routes do not matter there; an excluded route contradicts the policy, and an allowed network does not.
        settings.leakPolicy = .everything
        settings.allowedNetworks = [try IPPrefix("10.1.0.0/16"), try IPPrefix("239.0.0.0/8")]
        #expect(settings.validate().isEmpty)
        settings.excludedRoutes = [try IPPrefix("10.9.0.0/16")]
        #expect(try #require(settings.validate().first).fix.contains("allowed networks"))
    }

    @Test("Settings without an address, a server or a proxy, where one is needed, are refused")
    func empties() {
        var settings = TunnelSettings(remoteAddress: "a\u{7}b", addresses: [], overhead: 600)
        settings.dns = DNSSettings(servers: [], matchDomains: ["corp.example"])
        settings.proxy = ProxySettings()
        #expect(settings.validate().map(\.field) == ["remoteAddress", "addresses", "overhead", "dns.servers", "proxy"])
    }

    @Test("Tunnel settings survive coding, and have defaults for omitted members")
    func coding() throws {
        var settings = TunnelSettings.sample
        settings.dns = DNSSettings(servers: [.v4(1, 1, 1, 1)], searchDomains: ["a"], searchesMatchDomains: true)
        settings.proxy = ProxySettings(https: .init(host: "p", port: 1), excludesSimpleHostnames: true)
        settings.leakPolicy = .everything
        settings.allowedNetworks = [try IPPrefix("10.0.0.0/8")]
        let bytes = try JSONEncoder().encode(settings)
        #expect(try JSONDecoder().decode(TunnelSettings.self, from: bytes) == settings)

        let short = #"{"remoteAddress":"s","addresses":["10.0.0.2/32"],"dns":{},"proxy":{}}"#
        let decoded = try JSONDecoder().decode(TunnelSettings.self, from: Data(short.utf8))
        #expect(decoded.leakPolicy == .routeBased)
        #expect(decoded.overhead == 80)
        #expect(decoded.includedRoutes.isEmpty && !decoded.allowsLocalNetwork && decoded.allowedNetworks.isEmpty)
        #expect(decoded.dns == DNSSettings(servers: []) && decoded.proxy == ProxySettings())
    }

    @Test("A route in JSON with bits behind its prefix is refused, since it can be read in two ways")
    func hostBits() throws {
        for key in ["includedRoutes", "excludedRoutes", "allowedNetworks"] {
            let text = #"{"remoteAddress":"s","addresses":["10.0.0.2/32"],"\#(key)":["10.0.0.1/8"]}"#
            let error = try #require(throws: DecodingError.self) {
                try JSONDecoder().decode(TunnelSettings.self, from: Data(text.utf8))
            }
            #expect("\(error)".contains("10.0.0.1/8") && "\(error)".contains("write 10.0.0.0/8 or 10.0.0.1/32"))
        }
    }

    @Test("An automatic MTU is the path's less the overhead, and never below what IP demands")
    func mtu() throws {
        var settings = TunnelSettings.sample
        #expect(settings.effectiveMTU() == 1420)
        #expect(settings.effectiveMTU(pathMTU: 600) == 576)
        settings.addresses.append(try InterfaceAddress("fd00::2"))
        #expect(settings.effectiveMTU(pathMTU: 1300) == 1280)
        settings.mtu = 9000
        #expect(settings.effectiveMTU() == 9000)
    }
}
