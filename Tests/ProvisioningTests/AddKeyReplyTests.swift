// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Testing
import WireGuardCore

@testable import Provisioning

@Suite("The reply to addKey")
struct AddKeyReplyTests {
    private let key: PublicKey
    private let server: PublicKey

    init() {
        var random = SeededGenerator(seed: 3)
        key = Identity(PrivateKey(using: &random)).publicKey
        server = Identity(PrivateKey(using: &random)).publicKey
    }

    private func body(_ change: (inout [String: JSONValue]) -> Void = { _ in }) -> [UInt8] {
        var fields: [String: JSONValue] = [
            "status": .string("OK"), "server_key": .string(server.base64), "server_port": .integer(1337),
            "server_ip": .string("198.51.100.1"), "server_vip": .string("10.9.0.1"),
            "peer_ip": .string("10.9.3.7/16"), "peer_pubkey": .string(key.base64),
            "dns_servers": .array([.string("10.0.0.243"), .string("10.0.0.242")]),
        ]
        change(&fields)
        return Array((try? JSONEncoder().encode(fields)) ?? Data())
    }

    private func read(_ body: [UInt8], _ status: Int = 200) throws(ProvisioningError) -> AddKeyReply {
        try AddKeyReply(ProvisioningReply(status: status, body: body), for: key)
    }

    @Test("A complete reply is read")
    func whole() throws {
        let reply = try read(body())
        #expect(reply.serverKey == server)
        #expect(reply.endpoint.description == "198.51.100.1:1337")
        #expect(reply.address.description == "10.9.3.7/16")
        #expect(reply.nameServers == [.v4(10, 0, 0, 243), .v4(10, 0, 0, 242)])
        #expect(reply.innerAddress == .v4(10, 9, 0, 1))
        // Unknown fields and missing optional fields are allowed.
        #expect(
            try read(
                body {
                    $0["new"] = .integer(1)
                    $0["server_vip"] = nil
                    $0["dns_servers"] = nil
                    $0["peer_ip"] = .string("10.9.3.7")
                    $0["server_ip"] = .string("2001:db8::1")
                }
            ).endpoint.description == "[2001:db8::1]:1337")
    }

    @Test(
        "An invalid field is reported with its name",
        arguments: [
            ("server_key", nil), ("server_key", "AAAA"), ("server_key", String(repeating: "A", count: 43) + "="),
            ("server_key", "!" + String(repeating: "A", count: 42) + "="), ("peer_pubkey", nil), ("peer_pubkey", "x"),
            ("server_ip", nil), ("server_ip", ""), ("server_ip", "vpn.example"), ("server_ip", "0.0.0.0"),
            ("server_ip", "224.0.0.1"), ("server_ip", "169.254.169.254"), ("peer_ip", nil), ("peer_ip", "10.9.3.7/33"),
            ("peer_ip", "0.0.0.0/0"),
            ("peer_ip", "127.0.0.1/8"), ("peer_ip", "255.255.255.255/32"), ("peer_ip", "169.254.169.254/32"),
            ("server_ip", "127.0.0.1"), ("server_ip", "::1"), ("server_vip", "x"), ("server_vip", "127.0.0.1"),
            ("server_vip", "169.254.169.254"), ("server_vip", "255.255.255.255"),
        ] as [(String, String?)])
    func wrong(_ field: String, _ value: String?) {
        let body = body { $0[field] = value.map(JSONValue.string) }
        let error = #expect(throws: ProvisioningError.self) { try read(body) }
        guard case .reply(let named, _) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(named == field)
    }

    @Test(
        "A loopback, multicast, unspecified or metadata address is refused as a name server",
        arguments: ["127.0.0.1", "ff02::1", "0.0.0.0", "169.254.169.254", "fd00:ec2::254"])
    func nameServers(_ server: String) throws {
        let body = body { $0["dns_servers"] = .array([.string("10.0.0.243"), .string(server)]) }
        let error = #expect(throws: ProvisioningError.self) { try read(body) }
        guard case .reply("dns_servers", _) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test("Only a server on this machine may have a loopback address")
    func loopback() throws {
        let reply = ProvisioningReply(status: 200, body: body { $0["server_ip"] = .string("127.0.0.1") })
        #expect(try AddKeyReply(reply, for: key, allowsLoopback: true).endpoint.description == "127.0.0.1:1337")
        let other = ProvisioningReply(status: 200, body: body { $0["server_ip"] = .string("224.0.0.1") })
        #expect(throws: ProvisioningError.self) { try AddKeyReply(other, for: key, allowsLoopback: true) }
    }

    @Test("A reply with two members of one name is refused")
    func repeatedMember() throws {
        let text = String(decoding: body(), as: UTF8.self)
        let twice = text.replacing(#""server_port":1337"#, with: #""server_port":1,"server_port":1337"#)
        #expect(twice != text)
        let error = #expect(throws: ProvisioningError.self) { try read(Array(twice.utf8)) }
        guard case .reply("server_port", _) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test("An invalid port is named", arguments: [0, -1, 65_536, Int.max])
    func port(_ port: Int) {
        #expect(throws: ProvisioningError.reply(field: "server_port", problem: "\(port) is not in 1...65535")) {
            try read(body { $0["server_port"] = .integer(Int64(port)) })
        }
    }

    @Test("The reply must have the client's key, and another key for the server")
    func keys() {
        #expect(throws: ProvisioningError.self) { try read(body { $0["peer_pubkey"] = .string(server.base64) }) }
        #expect(throws: ProvisioningError.self) { try read(body { $0["server_key"] = .string(key.base64) }) }
    }

    @Test("The status in HTTP and in the body decides")
    func status() {
        for (status, word, isRefusal) in [
            (200, "ERROR", true), (401, "OK", true), (403, "OK", true), (404, "OK", true), (500, "OK", false),
            (503, "OK", false), (429, "OK", false),
        ] {
            let error = #expect(throws: ProvisioningError.self) {
                try read(body { $0["status"] = .string(word) }, status)
            }
            let isRefused = if case .refused = error { true } else { false }
            #expect(isRefused == isRefusal, "\(status)")
            #expect(error?.concernsServerOnly == !isRefusal)
        }
        let error = #expect(throws: ProvisioningError.self) {
            try read(Array(#"{"status":"ERROR","message":"Login failed!\nand more"}"#.utf8), 401)
        }
        #expect(error?.tunnelError.code == .authenticationFailed)
        #expect(error?.tunnelError.message.contains("Login failed!and more") == true)
    }

    @Test("A truncated body, or one that is not JSON, is an error without a trap")
    func cut() {
        let whole = body()
        for length in whole.indices { #expect(throws: ProvisioningError.self) { try read(Array(whole[..<length])) } }
        for text in ["", "{}", "[]", "null", "\u{feff}{}", "{\"status\":1}"] {
            #expect(throws: ProvisioningError.self) { try read(Array(text.utf8)) }
        }
        var random = SeededGenerator(seed: 11)
        for _ in 0..<2000 {
            var damaged = whole
            for _ in 0..<3 {
                damaged[Int.random(in: damaged.indices, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            // The reply may still be complete if a field without a meaning was damaged.
            if let reply = try? read(damaged) { #expect(reply.serverKey == server || reply.endpoint.port != 0) }
        }
    }

    @Test("Each value of the query is encoded once")
    func query() {
        #expect(QueryText.encode("aZ09-._~".utf8) == "aZ09-._~")
        #expect(QueryText.encode("a+b/c=d e&f%\u{e9}\n".utf8) == "a%2Bb%2Fc%3Dd%20e%26f%25%C3%A9%0A")
    }
}
