// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Logging
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Testing
import WireGuardCore

@testable import Provisioning

@Suite("Addresses and names in a grant that a device must not use")
struct GrantAddressTests {
    private let fixtures: ContractFixtures
    private let token: BearerSecret

    init() throws {
        fixtures = try ContractFixtures()
        var random = SeededGenerator(seed: 71)
        token = BearerSecret(.invitation, using: &random)
    }

    private func client(
        _ names: [String], _ answer: @escaping @Sendable (ProvisioningRequest) -> [UInt8]
    ) -> EnrolmentClient {
        let transport = ScriptedTransport { (request) throws(ProvisioningTransportError) in
            ProvisioningReply(status: 200, body: answer(request))
        }
        return EnrolmentClient(
            servers: names.map { ProvisioningServer(name: $0, port: 8443) }, transport: transport,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }

    private func enrol(_ client: EnrolmentClient) async throws -> EnrolmentGrant {
        try await client.enrol(
            EnrolmentRequest(publicKey: fixtures.key.publicKey, credential: fixtures.credential), with: token)
    }

    /// Whether a device refuses a grant of one server and accepts the grant of the next one.
    private func isRefused(_ bad: [UInt8]) async throws -> Bool {
        var good = fixtures.grant
        good.device.name = "good"
        let body = good.body
        let grant = try await enrol(
            client(["one.example", "two.example"]) { $0.server.name == "one.example" ? bad : body })
        return grant.device.name == "good"
    }

    @Test(
        "A loopback, multicast, unspecified or metadata address is refused as an endpoint, a name server or a route",
        arguments: [
            ("servers.0.endpoints.0", "127.0.0.1:51820"), ("servers.0.endpoints.1", "[::1]:51820"),
            ("servers.0.endpoints.0", "[::ffff:127.0.0.1]:1"), ("servers.0.endpoints.0", "localhost:51820"),
            ("servers.0.endpoints.0", "a.localhost:51820"), ("servers.0.endpoints.0", "224.0.0.1:51820"),
            ("servers.0.endpoints.0", "[ff02::1%1]:51820"), ("servers.0.endpoints.0", "0.0.0.0:51820"),
            ("servers.0.endpoints.0", "[::]:51820"), ("servers.0.endpoints.0", "169.254.169.254:80"),
            ("servers.0.endpoints.0", "[fd00:ec2::254]:80"), ("servers.0.endpoints.0", "255.255.255.255:1"),
            ("addresses.0", "169.254.169.254"), ("dns.0", "127.0.0.53"), ("dns.0", "::1"), ("dns.0", "239.1.2.3"),
            ("dns.0", "0.0.0.0"), ("dns.0", "169.254.169.254"), ("dns.0", "fd00:ec2::254"),
            ("dns.0", "::ffff:169.254.169.254"), ("routes.0", "127.0.0.0/8"), ("routes.0", "127.1.0.0/16"),
            ("routes.1", "::1/128"), ("routes.0", "224.0.0.0/4"), ("routes.1", "ff05::/16"), ("routes.0", "0.0.0.0/32"),
            ("routes.1", "::/128"), ("routes.0", "169.254.169.254/32"), ("routes.0", "169.254.0.0/16"),
            ("routes.1", "fd00:ec2::254/128"), ("routes.1", "fd00:ec2::/64"),
        ])
    func refused(path: String, value: String) async throws {
        let body = try changing(
            fixtures.grant.body, path.split(separator: ".").map(String.init), to: .string(value))
        // The message is still valid, so that the gateway's administrator can read it.
        let grant = try EnrolmentGrant(body: body)
        let error = #expect(throws: ContractError.self) { try grant.checkAddresses(allowsLoopback: false) }
        let field = path.split(separator: ".").reduce("") { text, part in
            Int(part) == nil ? (text.isEmpty ? "\(part)" : "\(text).\(part)") : "\(text)[\(part)]"
        }
        #expect(error?.field == field)
        #expect(try await isRefused(body))
    }

    @Test(
        "Larger networks that contain such addresses are accepted as routes",
        arguments: [
            "0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "224.0.0.0/3", "169.254.0.0/17", "10.0.0.0/8", "::/0", "::/1",
            "fd00::/8", "2000::/3",
        ])
    func accepted(route: String) throws {
        var grant = fixtures.grant
        grant.routes = [try IPPrefix(route)]
        #expect(throws: Never.self) { try grant.checkAddresses(allowsLoopback: false) }
    }

    @Test(
        "A gateway on this machine may have its WireGuard server there", arguments: ["127.0.0.1", "::1", "localhost"])
    func local(host: String) async throws {
        var grant = fixtures.grant
        grant.servers[0].endpoints = [try EndpointAddress("127.0.0.1:51820")]
        let body = grant.body
        #expect(try await enrol(client([host]) { _ in body }).servers == grant.servers)
        grant.dns = [.v4(127, 0, 0, 1)]
        let error = #expect(throws: ContractError.self) { try grant.checkAddresses(allowsLoopback: true) }
        #expect(error?.field == "dns[0]")
    }

    @Test("A stored grant with such an address is not used without the gateway")
    func stored() throws {
        var random = SeededGenerator(seed: 72)
        var enrolment = DeviceEnrolment(token: token, using: &random)
        let now = Date(timeIntervalSince1970: 1_780_000_000)
        enrolment.adopt(fixtures.grant, at: now)
        #expect(enrolment.hasUsableGrant(at: now))
        enrolment.grant?.dns = [.v4(169, 254, 169, 254)]
        #expect(!enrolment.hasUsableGrant(at: now))
        #expect(try DeviceEnrolment(enrolment.secret) == enrolment)
    }

    @Test("An object with two members of one name is refused, even if one is written with an escape")
    func repeatedMembers() async throws {
        let text = String(decoding: fixtures.grant.body, as: UTF8.self)
        for (before, after, name) in [
            (#""mtu":1420"#, #""mtu":1420,"mtu":1280"#, "mtu"), (#""mtu":1420"#, #""mtu":1280,"\u006dtu":1420"#, "mtu"),
            (#""user":"anna""#, #""user":"ben","user":"anna""#, "user"),
            (#""notAfterSeconds":3600"#, #""notAfterSeconds":1, "notAfterSeconds" : 3600"#, "notAfterSeconds"),
            (#""mtu":1420"#, #""mtu":1420,"new":[{"a":1},{"b":[],"b":{}}]"#, "b"),
        ] {
            let body = Array(text.replacing(before, with: after).utf8)
            #expect(body != fixtures.grant.body, "\(before)")
            let error = #expect(throws: ContractError.self) { try EnrolmentGrant(body: body) }
            #expect(error?.field == name)
            #expect(try await isRefused(body))
        }
        // One name in several objects, and a text that looks like a name.
        let more = #""mtu":1420,"a":{"b":1,"c":"b\":,{","d":[{"b":1},{"b":2}]},"e":{"b":[1,"b","b"]}"#
        #expect(try EnrolmentGrant(body: Array(text.replacing(#""mtu":1420"#, with: more).utf8)) == fixtures.grant)
    }

    @Test("JSON in UTF-16 is refused: names are compared in UTF-8")
    func encoding() throws {
        let text = String(decoding: fixtures.grant.body, as: UTF8.self)
        let body = [UInt8](try #require(text.data(using: .utf16LittleEndian)))
        #expect(throws: ContractError(field: "body", problem: "must be JSON in UTF-8")) {
            try EnrolmentGrant(body: body)
        }
    }

    @Test("An invitation whose JSON has a member twice is refused")
    func invitation() throws {
        let pins = (1...2).compactMap { ServerKeyPin(bytes: [UInt8](repeating: $0, count: 32)) }
        let invitation = try Invitation(
            host: "vpn.example.com", token: token, expires: Date(timeIntervalSince1970: 1_790_000_000), pins: pins)
        let line = invitation.exportedText
        let bytes = try #require(Base64URL.decode(line.utf8.dropFirst(Invitation.prefix.utf8.count)))
        let json = String(decoding: bytes, as: UTF8.self)
        let twice = json.replacing(#""host":"#, with: #""host":"other.example","host":"#)
        #expect(twice != json)
        let again = Invitation.prefix + String(decoding: Base64URL.encode(Array(twice.utf8)), as: UTF8.self)
        let error = #expect(throws: ContractError.self) { try Invitation(again) }
        #expect(error?.field == "host")
    }
}
