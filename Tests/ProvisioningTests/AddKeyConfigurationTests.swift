// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnel
import Testing
import WireGuardTunnel

@testable import Provisioning

@Suite("A configuration with PIA's keys")
struct AddKeyConfigurationTests {
    private let full: [String: JSONValue] = [
        "token": .string("secret-token"), "use_ip": .bool(true), "customDNSServers": .array([.string("9.9.9.9")]),
        "ping": .string("10.0.0.1"), "cn": .string("server401"), "packetSize": .integer(1420), "serial": .string("x"),
    ]

    @Test("The keys are read, and the token is returned separately")
    func whole() throws {
        let (configuration, token) = try AddKeyConfiguration.fromProviderConfiguration(
            full, serverAddress: "198.51.100.1")
        #expect(token.bytes == Array("secret-token".utf8))
        #expect(configuration.servers == [.init(name: "server401", address: .v4(198, 51, 100, 1), port: 1337)])
        #expect(configuration.customDNSServers == [.v4(9, 9, 9, 9)])
        #expect(configuration.connectivity.pingAddress == "10.0.0.1")
        #expect(configuration.packetSize == 1420 && configuration.keepalive == 25)
        #expect(configuration.routes == [.allIPv4, .allIPv6])
        let json = try JSONEncoder().encode(configuration)
        #expect(!String(decoding: json, as: UTF8.self).contains("secret-token"))
        #expect(try JSONDecoder().decode(AddKeyConfiguration.self, from: json) == configuration)
    }

    @Test("A dictionary as Apple's platforms return it is read like JSON, and dates are refused")
    func anyValues() throws {
        let values: [String: Any] = [
            "token": "secret-token", "use_ip": true, "customDNSServers": ["9.9.9.9"], "ping": "10.0.0.1",
            "cn": "server401", "packetSize": 1420, "serial": "x",
        ]
        let address = "198.51.100.1"
        let (configuration, token) = try AddKeyConfiguration.fromProviderConfiguration(values, serverAddress: address)
        let expected = try AddKeyConfiguration.fromProviderConfiguration(full, serverAddress: address)
        #expect(configuration == expected.configuration && token.bytes == expected.token.bytes)
        for (key, value) in [("token", Date()), ("use_ip", "yes"), ("customDNSServers", ["nine"]), ("cn", 1)]
            as [(String, Any)]
        {
            var values = values
            values[key] = value
            let error = #expect(throws: TunnelError.self) {
                try AddKeyConfiguration.fromProviderConfiguration(values, serverAddress: address)
            }
            #expect(error?.problems.map(\.field).contains(key) == true)
            #expect(error.map { !"\($0) \($0.problems)".contains("secret-token") } == true)
        }
    }

    @Test("Omitted members have PIA's values")
    func defaults() throws {
        let (configuration, _) = try AddKeyConfiguration.fromProviderConfiguration(
            ["token": .string("t")], serverAddress: "vpn.example")
        #expect(configuration.servers == [.init(name: "vpn.example", port: 1337)])
        #expect(configuration.packetSize == 1280 && configuration.customDNSServers.isEmpty)
    }

    @Test(
        "An invalid key is reported with its name",
        arguments: [
            ("token", JSONValue.null, "198.51.100.1"), ("token", .integer(1), "198.51.100.1"),
            ("cn", .null, "198.51.100.1"), ("serverAddress", .null, "vpn.example"),
            ("customDNSServers", .string("9.9.9.9"), "198.51.100.1"),
            ("customDNSServers", .array([.string("nine")]), "198.51.100.1"),
            ("packetSize", .string("1420"), "198.51.100.1"), ("use_ip", .string("yes"), "vpn.example"),
        ])
    func wrong(_ key: String, _ value: JSONValue, _ address: String) {
        var values = full
        if key != "serverAddress" { values[key] = value }
        let error = #expect(throws: TunnelError.self) {
            try AddKeyConfiguration.fromProviderConfiguration(values, serverAddress: address)
        }
        #expect(error?.problems.map(\.field).contains(key) == true)
        #expect(error.map { !"\($0) \($0.problems)".contains("secret-token") } == true)
    }
}
