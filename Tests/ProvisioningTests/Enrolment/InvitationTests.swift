// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import PacketTunnel
import PacketTunnelTesting
import Testing

@testable import Provisioning

@Suite("Invitations")
struct InvitationTests {
    private let token: BearerSecret
    private let pins: [ServerKeyPin]

    init() throws {
        var random = SeededGenerator(seed: 9)
        token = BearerSecret(.invitation, using: &random)
        pins = try (1...2).map { try #require(ServerKeyPin(bytes: [UInt8](repeating: $0, count: 32))) }
    }

    private func invitation(
        host: String = "vpn.example.com", pins: [ServerKeyPin]? = nil, token: BearerSecret? = nil
    ) throws(ContractError) -> Invitation {
        try Invitation(
            host: host, token: token ?? self.token, expires: Date(timeIntervalSince1970: 1_790_000_000),
            pins: pins ?? self.pins, gateway: "Example")
    }

    /// An invitation in which one member has another value.
    private func text(_ name: String, _ value: JSONValue?) throws -> String {
        let line = try invitation().exportedText.dropFirst(Invitation.prefix.count)
        let json = try #require(Base64URL.decode(line.utf8))
        let changed = try changing(json, [name], to: value)
        return Invitation.prefix + String(decoding: Base64URL.encode(changed), as: UTF8.self)
    }

    @Test(
        "An invitation is one line, and is unchanged by coding, in a file with comments too", arguments: ["\n", "\r\n"])
    func lines(_ end: String) throws {
        for host in ["vpn.example.com", "192.0.2.1", "2001:db8::1"] {
            let invitation = try invitation(host: host)
            let line = invitation.exportedText
            #expect(!line.contains(where: \.isWhitespace) && line.hasPrefix("culvert-invitation:1:"))
            #expect(try Invitation(line) == invitation)
            let file = ["\u{feff}# from anna", "", "  \(line)\t", "# keep it secret", ""].joined(separator: end)
            #expect(try Invitation(file) == invitation)
        }
        #expect(try invitation().port == 8443)
    }

    @Test("A truncated or damaged invitation is an error without a trap")
    func damaged() throws {
        let line = try invitation().exportedText
        for length in 0..<line.count { #expect(throws: ContractError.self) { try Invitation(line.prefix(length)) } }
        var random = SeededGenerator(seed: 10)
        for _ in 0..<2000 {
            var bytes = Array(line.utf8)
            bytes[Int.random(in: bytes.indices, using: &random)] = UInt8.random(in: 0...127, using: &random)
            if let other = try? Invitation(String(decoding: bytes, as: UTF8.self)) { #expect(other.pins.count >= 2) }
        }
        for text in ["", "# nothing", "ci_x", "\(line)\n\(line)", "culvert-invitation:2:abc", line + "="] {
            #expect(throws: ContractError.self) { try Invitation(text) }
        }
        #expect(throws: ContractError.self) { try Invitation(String(repeating: "A", count: 100_000)) }
    }

    @Test(
        "An invalid field is reported with its name, and the token is never repeated",
        arguments: [
            ("host", nil), ("host", .string("")), ("host", .string("a b")), ("host", .string("vpn.example.com:1")),
            ("host", .string("https://vpn.example.com")), ("port", .integer(0)), ("port", .integer(65_536)),
            ("port", .string("8443")), ("token", nil), ("token", .string("cd_" + String(repeating: "A", count: 43))),
            ("token", .string("short")), ("expires", .integer(0)), ("expires", .string("2026-01-01T00:00:00Z")),
            ("pins", .array([])), ("pins", nil), ("pins[0]", nil), ("gateway", .string("a\u{7}")),
        ] as [(String, JSONValue?)])
    func wrong(_ field: String, _ value: JSONValue?) throws {
        let text =
            try field == "pins[0]" ? text("pins", .array([.string("sha256/x"), .string("y")])) : text(field, value)
        let error = #expect(throws: ContractError.self) { try Invitation(text) }
        #expect(error?.field == field)
        #expect(error?.description.contains("AAAA") == false)
    }

    @Test("An invitation needs two different pins: nothing is trusted on first use")
    func pinning() throws {
        #expect(throws: ContractError.self) { try invitation(pins: [pins[0]]) }
        #expect(throws: ContractError.self) { try invitation(pins: [pins[0], pins[0]]) }
        #expect(ServerKeyPin(bytes: [UInt8](repeating: 0, count: 32)) == nil)
        #expect(ServerKeyPin(pins[0].description.dropFirst(7)) == nil)
        #expect(try JSONDecoder().decode([ServerKeyPin].self, from: try JSONEncoder().encode(pins)) == pins)
    }

    @Test("The description of an invitation contains no token")
    func description() throws {
        let invitation = try invitation()
        var dumped = ""
        dump(invitation, to: &dumped)
        for text in ["\(invitation)", String(reflecting: invitation), dumped] {
            #expect(!text.contains(token.exportedText.dropFirst(3)))
        }
        var random = SeededGenerator(seed: 11)
        #expect(throws: ContractError.self) { try self.invitation(token: BearerSecret(.device, using: &random)) }
        #expect(throws: Never.self) { try self.invitation(token: BearerSecret(.token, using: &random)) }
    }
}
