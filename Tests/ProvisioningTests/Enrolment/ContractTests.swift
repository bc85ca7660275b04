// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Testing
import WireGuardCore

@testable import Provisioning

/// Changes a nested member.
func changing(_ body: [UInt8], _ path: [String], to value: JSONValue?) throws -> [UInt8] {
    func change(_ json: JSONValue, _ path: ArraySlice<String>) -> JSONValue? {
        guard let first = path.first else { return value }
        switch json {
        case .object(var members):
            members[first] = change(members[first] ?? .null, path.dropFirst())
            return .object(members)
        case .array(var items):
            guard let index = Int(first), items.indices.contains(index) else { return json }
            items[index] = change(items[index], path.dropFirst()) ?? .null
            return .array(items)
        default: return path.count == 1 ? value : json
        }
    }
    let json = try JSONDecoder().decode(JSONValue.self, from: Data(body))
    return try #require(change(json, path[...])).text()
}

@Suite("The messages of the enrolment API")
struct ContractTests {
    private let fixtures: ContractFixtures

    init() throws { fixtures = try ContractFixtures() }

    private func roundTrip<Message: ContractMessage>(_ message: Message) throws {
        #expect(try Message(body: message.body) == message)
        #expect(try JSONDecoder().decode(Message.self, from: try JSONEncoder().encode(message)) == message)
        #expect(!message.body.contains(UInt8(ascii: "\n")))
        // A truncated message is an error without a trap.
        for length in message.body.indices {
            #expect(throws: ContractError.self) { try Message(body: Array(message.body[..<length])) }
        }
    }

    @Test("Each message is read with the values that were written, and no part of it is a message")
    func roundTrips() throws {
        let grant = fixtures.grant
        try roundTrip(grant)
        var least = grant
        least.device.expiresInSeconds = nil
        least.servers[0].notAfterSeconds = nil
        (least.dns, least.searchDomains, least.routes, least.presharedKey) = ([], [], [], nil)
        try roundTrip(least)
        #expect(!String(decoding: least.body, as: UTF8.self).contains("null"))
        let request = EnrolmentRequest(
            publicKey: grant.device.publicKey, credential: fixtures.credential, name: "a", platform: "linux")
        try roundTrip(request)
        try roundTrip(EnrolmentRequest(publicKey: grant.device.publicKey, credential: fixtures.credential))
        let bytes = [UInt8](0..<32)
        try roundTrip(RotationNonce(nonce: bytes, serverKey: grant.servers[0].publicKey, lifetimeSeconds: 60))
        try roundTrip(RotationRequest(publicKey: grant.device.publicKey, nonce: bytes, proof: bytes.reversed()))
        let entry = DeviceListEntry(
            id: grant.device.id, name: "", publicKey: grant.device.publicKey, createdAt: grant.device.createdAt,
            isCurrent: true)
        try roundTrip(DeviceList(devices: [entry, entry]))
        try roundTrip(ProblemDetails(title: "Forbidden", status: 403, detail: "no", code: .invitationUsed))
    }

    @Test(
        "An invalid field of a grant is reported with its path",
        arguments: [
            ("device", .integer(1)), ("device.id", .string("abc")), ("device.name", .string("a\nb")),
            ("device.name", .string(String(repeating: "x", count: 65))), ("device.user", nil),
            ("device.publicKey", .string("AAAA")), ("device.createdAt", .string("yesterday")),
            ("device.createdAt", .string("2026-02-30T00:00:00Z")), ("device.expiresInSeconds", .integer(-1)),
            ("device.expiresInSeconds", .integer(.max)), ("device.expiresInSeconds", .number(1.5)),
            ("addresses", nil), ("addresses", .array([])), ("addresses", .string("10.0.0.1")),
            ("addresses.0", .string("10.66.0.2/24")), ("addresses.0", .string("0.0.0.0")),
            ("addresses.1", .string("ff02::1")), ("addresses.1", .integer(1)), ("servers", .array([])),
            ("servers.0.publicKey", .string(String(repeating: "A", count: 43) + "=")),
            ("servers.0.endpoints", .array([])), ("servers.0.endpoints.1", .string("vpn.example.com")),
            ("servers.0.endpoints.0", .string("vpn.example.com:0")), ("servers.0.notAfterSeconds", .string("1")),
            ("dns", .null), ("dns.0", .string("dns.example")), ("searchDomains.0", .string("-a")),
            ("routes.0", .string("10.0.0.0/33")), ("mtu", .integer(1279)), ("mtu", .integer(65_536)), ("mtu", nil),
            ("keepaliveSeconds", .integer(65_536)), ("presharedKey", .string("x")),
            ("renewAfterSeconds", .integer(0)), ("serverTime", .string("2026-01-01T00:00:00+01:00")),
        ] as [(String, JSONValue?)])
    func wrong(_ path: String, _ value: JSONValue?) throws {
        let parts = path.split(separator: ".").map(String.init)
        let body = try changing(fixtures.grant.body, parts, to: value)
        let error = #expect(throws: ContractError.self) { try EnrolmentGrant(body: body) }
        let field = parts.reduce("") { text, part in
            Int(part) == nil ? (text.isEmpty ? part : "\(text).\(part)") : "\(text)[\(part)]"
        }
        #expect(error?.field == field)
    }

    @Test("The two addresses must not be of the same family")
    func families() throws {
        let body = try changing(fixtures.grant.body, ["addresses", "1"], to: .string("10.66.0.3"))
        #expect(throws: ContractError(field: "addresses", problem: "must not both be of one family")) {
            try EnrolmentGrant(body: body)
        }
    }

    @Test("Members with other names are refused in requests, and ignored in replies")
    func unknown() throws {
        let request = EnrolmentRequest(publicKey: fixtures.grant.device.publicKey, credential: fixtures.credential)
        let error = #expect(throws: ContractError.self) {
            try EnrolmentRequest(body: try changing(request.body, ["admin"], to: .bool(true)))
        }
        #expect(error?.field == "admin")
        let rotation = RotationRequest(publicKey: request.publicKey, nonce: [UInt8](0..<32), proof: [UInt8](0..<32))
        #expect(throws: ContractError.self) {
            try RotationRequest(body: try changing(rotation.body, ["\u{1b}[2J"], to: .null))
        }
        let grant = fixtures.grant
        #expect(try EnrolmentGrant(body: try changing(grant.body, ["device", "colour"], to: .string("red"))) == grant)
    }

    @Test(
        "An invalid field of a request is reported with its name and without secrets",
        arguments: [
            ("publicKey", nil), ("publicKey", .string("")), ("credential", nil), ("credential", .string("cd_")),
            ("credential", .string("ci_" + String(repeating: "A", count: 43))),
            ("credential", .string("cd_" + String(repeating: "A", count: 42) + "B")), ("name", .string("")),
            ("name", .string("\u{202e}evil")), ("platform", .string(String(repeating: "p", count: 33))),
        ] as [(String, JSONValue?)])
    func wrongRequest(_ field: String, _ value: JSONValue?) throws {
        let request = EnrolmentRequest(
            publicKey: fixtures.grant.device.publicKey, credential: fixtures.credential, name: "a", platform: "b")
        let body = try changing(request.body, [field], to: value)
        let error = #expect(throws: ContractError.self) { try EnrolmentRequest(body: body) }
        #expect(error?.field == field)
        #expect(error?.description.contains("AAAA") == false)
    }

    @Test("Damaged messages are errors without traps")
    func damaged() {
        var random = SeededGenerator(seed: 23)
        let whole = fixtures.grant.body
        for _ in 0..<3000 {
            var bytes = whole
            for _ in 0..<2 {
                bytes[Int.random(in: bytes.indices, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            if let grant = try? EnrolmentGrant(body: bytes) {
                #expect((try? EnrolmentGrant(body: grant.body)) == grant)
            }
        }
    }

    @Test("Problems are read with their members")
    func problems() throws {
        let least = try ProblemDetails(body: Array("{}".utf8))
        #expect(least.status == 500 && least.code == nil && least.type == "about:blank")
        #expect(throws: ContractError.self) { try ProblemDetails(body: Array(#"{"detail":"a\nb"}"#.utf8)) }
    }
}

@Suite("IDs and secrets of the API")
struct ContractValueTests {
    @Test("An ID has 26 characters, and is unchanged by coding")
    func ids() throws {
        var random = SeededGenerator(seed: 1)
        var seen: Set<RandomID> = []
        for _ in 0..<500 {
            let id = RandomID(using: &random)
            #expect(id.description.count == 26)
            #expect(RandomID(id.description) == id)
            #expect(try JSONDecoder().decode([RandomID].self, from: try JSONEncoder().encode([id])) == [id])
            seen.insert(id)
        }
        #expect(seen.count == 500)
        // RFC 4648 section 6: sixteen bytes of zeros, and of ones.
        #expect(RandomID(String(repeating: "a", count: 26))?.description == String(repeating: "a", count: 26))
        let ones = String(repeating: "7", count: 25) + "4"
        #expect(RandomID(ones)?.description == ones)
        for text in ["", String(repeating: "a", count: 25), String(repeating: "a", count: 27)] {
            #expect(RandomID(text) == nil)
        }
        #expect(RandomID(String(repeating: "7", count: 26)) == nil, "bits behind the end")
        #expect(RandomID(String(repeating: "A", count: 26)) == nil)
        #expect(RandomID(String(repeating: "1", count: 26)) == nil)
    }

    @Test("A secret has its kind and 43 characters, and its description hides it")
    func secrets() throws {
        var random = SeededGenerator(seed: 2)
        for kind in BearerSecret.Kind.allCases {
            let secret = BearerSecret(kind, using: &random)
            let text = secret.exportedText
            #expect(text.hasPrefix(kind.rawValue) && text.count == 46)
            #expect(BearerSecret(text) == secret)
            #expect(!"\(secret)".contains(text.dropFirst(3).prefix(6)))
            var dumped = ""
            dump(secret, to: &dumped)
            #expect(!dumped.contains(text.dropFirst(3).prefix(6)))
            for length in text.indices { #expect(BearerSecret(text[..<length]) == nil) }
            #expect(BearerSecret(text + "A") == nil)
            #expect(BearerSecret("cx_" + text.dropFirst(3)) == nil)
            #expect(BearerSecret(kind, using: &random) != secret)
        }
    }

    @Test("Bytes of each length have exactly one form in base64url")
    func base64URL() {
        var random = SeededGenerator(seed: 3)
        for length in 0..<100 {
            let bytes = (0..<length).map { _ in UInt8.random(in: 0...255, using: &random) }
            let text = Base64URL.encode(bytes)
            #expect(Base64URL.decode(text) == bytes)
            let standard = Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
                .replacing("=", with: "")
            #expect(String(decoding: text, as: UTF8.self) == standard)
        }
        for text in ["A", "AB", "AAB", "A=", "AA==", "+A", "A A", "AAAAA"] {
            #expect(Base64URL.decode(Array(text.utf8)) == nil, "\(text)")
        }
        #expect(Base64URL.decode(Array("AA".utf8)) == [0])
    }

    @Test("Only the two sides can compute the proof of a rotation")
    func rotation() throws {
        var random = SeededGenerator(seed: 4)
        let (old, new, server) = (
            PrivateKey(using: &random), PrivateKey(using: &random), PrivateKey(using: &random)
        )
        let nonce = RotationNonce(
            nonce: (0..<32).map { _ in UInt8.random(in: 0...255, using: &random) }, serverKey: server.publicKey,
            lifetimeSeconds: 60)
        let request = try #require(RotationRequest(from: old, to: new.publicKey, answering: nonce))
        #expect(request.isProven(by: old.publicKey, to: server))
        #expect(!request.isProven(by: new.publicKey, to: server))
        #expect(!request.isProven(by: old.publicKey, to: new))
        for change in [
            { (request: inout RotationRequest) in request.nonce[0] ^= 1 },
            { $0.publicKey = old.publicKey }, { $0.proof[31] ^= 1 }, { $0.proof = [] },
        ] as [(inout RotationRequest) -> Void] {
            var other = request
            change(&other)
            #expect(!other.isProven(by: old.publicKey, to: server))
        }
        // A point of low order gives every key the same secret (RFC 7748 section 6.1).
        let low = try #require(PublicKey(bytes: [1] + [UInt8](repeating: 0, count: 31)))
        #expect(RotationRequest.proof(own: old, other: low, nonce: nonce.nonce, newKey: new.publicKey) == nil)
        #expect(!request.isProven(by: low, to: server))
    }
}
