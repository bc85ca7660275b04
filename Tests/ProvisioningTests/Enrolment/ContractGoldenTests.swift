// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CompatibilityFixtures
import Foundation
import PacketTunnel
import Testing

@testable import Provisioning

/// Bodies that the first gateways and devices wrote. Each is decoded, and encoded with the same bytes.
@Suite("Recorded messages of the enrolment API") struct ContractGoldenTests {
    private static let key = "hiNWEZEsScmTt0zY1uyzQg3Y2TRUNyzNty6CXykJ+A4="
    private static let serverKey = "DlHUPDxADIpCzhxUVC+t8SAoSyFZ5g+zzGvT+xHKZwE="
    private static let secretKey = "kAPlrcqE3kJE2BZyWpMebhtTlFtT3HszhXKA/2r7Qm0="
    private static let id = "yqyiw7lfdk5t42y32z2ls4fwia"
    private static let credential = "cd_ODHeXtKdUEJhz-bBSjehMMlhUk4j_rS0i2UhTfNVWFU"
    private static let token = "ci_ODHeXtKdUEJhz-bBSjehMMlhUk4j_rS0i2UhTfNVWFU"
    private static let pins =
        #"["sha256/8uCj6imjHbArFkeKM0K+J1/bOspHkTl7O0T9iNTLQCU=","sha256/tlgkRit+r4y8LjFUMCWdVmOUOWQ+W9rmZoyNBW5/Cy4="]"#

    private static let grants: [String] = [
        #"""
        {"addresses":["10.66.0.2"],"device":{"createdAt":"2026-11-24T10:26:48Z","id":"\#(id)","name":"",\#
        "publicKey":"\#(key)","user":"anna"},"dns":[],"keepaliveSeconds":0,"mtu":576,"renewAfterSeconds":1,\#
        "routes":[],"searchDomains":[],"serverTime":"2026-11-24T10:26:51Z",\#
        "servers":[{"endpoints":["vpn.example.com:51820"],"publicKey":"\#(serverKey)"}]}
        """#,
        #"""
        {"addresses":["10.66.0.2","fd66::2"],"device":{"createdAt":"2026-11-24T10:26:48Z","expiresInSeconds":0,\#
        "id":"\#(id)","name":"a \"b\" \\ c/d é 🦆","publicKey":"\#(key)","user":"anna"},\#
        "dns":["203.0.113.53","2001:db8::53"],"keepaliveSeconds":65535,"mtu":65535,\#
        "presharedKey":"NwkuWB9j7dW7nepwDL1+sG5FN7xvF0tmxBbSecdYvEs=","renewAfterSeconds":4000000000,\#
        "routes":["0.0.0.0/0","::/0"],"searchDomains":["corp.example"],"serverTime":"2026-11-24T10:26:51Z",\#
        "servers":[{"endpoints":["192.0.2.2:51820","[2001:db8::1]:51820"],"notAfterSeconds":3600,\#
        "publicKey":"\#(serverKey)"}]}
        """#,
    ]

    private func check<Message: ContractMessage>(_: Message.Type, _ text: String) throws {
        let message = try Message(body: Array(text.utf8))
        #expect(String(decoding: message.body, as: UTF8.self) == text)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let encoded = try encoder.encode(message)
        #expect(String(decoding: encoded, as: UTF8.self) == text)
        #expect(try JSONDecoder().decode(Message.self, from: encoded) == message)
    }

    @Test("A grant is read and written with the same bytes", arguments: grants)
    func grant(_ text: String) throws { try check(EnrolmentGrant.self, text) }

    @Test("Each other message is read and written with the same bytes")
    func messages() throws {
        let (key, serverKey, id) = (Self.key, Self.serverKey, Self.id)
        try check(EnrolmentRequest.self, #"{"credential":"\#(Self.credential)","publicKey":"\#(key)"}"#)
        try check(
            EnrolmentRequest.self,
            #"{"credential":"\#(Self.credential)","name":"phone","platform":"linux","publicKey":"\#(key)"}"#)
        try check(RotationNonce.self, #"{"lifetimeSeconds":60,"nonce":"\#(key)","serverKey":"\#(serverKey)"}"#)
        try check(
            RotationRequest.self, #"{"nonce":"\#(serverKey)","proof":"\#(Self.secretKey)","publicKey":"\#(key)"}"#)
        try check(DeviceList.self, #"{"devices":[]}"#)
        try check(
            DeviceList.self,
            #"""
            {"devices":[{"createdAt":"2026-11-24T10:26:48Z","expiresInSeconds":3600,"id":"\#(id)","isCurrent":true,\#
            "lastSeenSecondsAgo":5,"name":"phone","platform":"ios","publicKey":"\#(key)"},\#
            {"createdAt":"2026-11-24T10:26:48Z","id":"\#(id)","isCurrent":false,"name":"",\#
            "publicKey":"\#(serverKey)"}]}
            """#)
        try check(ProblemDetails.self, #"{"status":500,"title":"","type":"about:blank"}"#)
        try check(
            ProblemDetails.self,
            #"{"code":"invitationUsed","detail":"it was used","status":403,"title":"Refused","type":"about:blank"}"#)
    }

    @Test("Members that later versions may add to replies are ignored at each place, and requests refuse them")
    func unknownMembers() throws {
        let text = Self.grants[1]
        let more = text.replacing(#"{"addresses""#, with: #"{"a":{"b":[null]},"addresses""#)
            .replacing(#""id":"#, with: #""colour":"red","id":"#).replacing(
                #"{"endpoints""#, with: #"{"a":1.5,"endpoints""#)
        #expect(more != text)
        #expect(try EnrolmentGrant(body: Array(more.utf8)) == EnrolmentGrant(body: Array(text.utf8)))
        let problem = try ProblemDetails(body: Array(#"{"status":409,"instance":"/x","title":null}"#.utf8))
        #expect(problem == ProblemDetails(title: "", status: 409))
        // An optional member can be null.
        let members = #""credential":"\#(Self.credential)","publicKey":"\#(Self.key)""#
        let request = try EnrolmentRequest(body: Array("{\(members),\"name\":null,\"platform\":null}".utf8))
        #expect(request.name == nil && request.platform == nil)
        let error = #expect(throws: ContractError.self) {
            try EnrolmentRequest(body: Array("{\(members),\"admin\":true}".utf8))
        }
        #expect(error?.field == "admin")
    }

    @Test("The stored enrolment of an earlier version is read and written with the same bytes")
    func enrolment() throws {
        let stored = try Fixtures.line("clients/secrets/f29546a4132d4f3839430dc160b78ee3/enrolment")
        let whole = #"""
            {"credential":"\#(Self.credential)","grant":\#(Self.grants[0]),"grantedAt":"2026-11-24T10:26:51Z",\#
            "name":"phone","nextKey":"\#(Self.secretKey)","nextKeyWait":{"deviceTime":"2026-11-24T10:26:51Z",\#
            "gatewayTime":"2026-11-24T10:26:50Z","lifetimeSeconds":60},"platform":"linux",\#
            "privateKey":"\#(Self.secretKey)","token":"\#(Self.token)"}
            """#
        let least = #"{"credential":"\#(Self.credential)","privateKey":"\#(Self.secretKey)"}"#
        for text in [stored, whole, least] {
            let enrolment = try DeviceEnrolment(SecretBytes(Array(text.utf8)))
            #expect(String(decoding: enrolment.secret.bytes, as: UTF8.self) == text)
        }
        let damaged = whole.replacing(#""mtu":576"#, with: #""mtu":575"#)
        let error = #expect(throws: ContractError.self) { try DeviceEnrolment(SecretBytes(Array(damaged.utf8))) }
        #expect(error?.field == "grant.mtu")
    }

    @Test("A recorded invitation is read and written with the same bytes")
    func invitation() throws {
        for gateway in [#""gateway":"Example","#, ""] {
            let json = #"""
                {"expires":1790000000,\#(gateway)"host":"vpn.example.com","pins":\#(Self.pins),"port":8443,\#
                "token":"\#(Self.token)"}
                """#
            let line = Invitation.prefix + String(decoding: Base64URL.encode(json.utf8), as: UTF8.self)
            let invitation = try Invitation(line)
            #expect(invitation.exportedText == line)
            #expect(invitation.expires == Date(timeIntervalSince1970: 1_790_000_000))
        }
    }

    @Test("Each form of trust is read and written with the same bytes")
    func trust() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        for text in [
            #"{"system":true}"#, #"{"pins":\#(Self.pins)}"#, #"{"authorities":"-----BEGIN\nA\n-----END"}"#,
            #"{"acceptsCommonName":true,"authorities":""}"#,
        ] {
            let trust = try JSONDecoder().decode(ServerTrust.self, from: Data(text.utf8))
            #expect(String(decoding: try encoder.encode(trust), as: UTF8.self) == text)
        }
        for (text, field) in [
            (#"{"system":true,"pin":1}"#, "trust.pin"), (#"{"pins":["x","y"]}"#, "trust.pins[0]"),
            (#"{"system":true,"acceptsCommonName":true}"#, "trust"), ("{}", "trust"), ("[]", "trust"),
        ] {
            let error = #expect(throws: ContractError.self, "\(text)") {
                try JSONDecoder().decode(ServerTrust.self, from: Data(text.utf8))
            }
            #expect(error?.field == field)
        }
    }
}
