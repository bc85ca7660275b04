// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing

@testable import CredentialTunnel

@Suite("Messages of the login tunnel")
struct MessageTests {
    private static func datagram(_ code: UInt8, count: Int) -> [UInt8] {
        Array(
            ([code, 1, 0, 0, 0x44, 0x33, 0x22, 0x11, 9, 0, 0, 0, 0, 0, 0, 0] + [UInt8](repeating: 0, count: count))
                .prefix(count))
    }

    @Test("The article's codes are 1, 2 and 3, and further codes follow")
    func codes() {
        #expect(PacketCode.clientAuthRequest.rawValue == 1)
        #expect(PacketCode.serverAuthResponse.rawValue == 2)
        #expect(PacketCode.data.rawValue == 3)
        #expect(PacketCode.allCases.map(\.rawValue) == Array(1...10))
    }

    @Test("A datagram of each code and each length is read if and only if it has a length of its code")
    func everyLength() {
        let fixed: [PacketCode: ClosedRange<Int>] = [
            .clientHello: 128...128, .serverHello: 60...60, .cookie: 64...64, .error: 16...16, .rekeyRequest: 84...84,
            .rekeyResponse: 84...84, .disconnect: 33...33, .clientAuthRequest: 34...1232,
            .serverAuthResponse: 34...1232,
            .data: 32...65_507,
        ]
        for value in UInt8.min...UInt8.max {
            let code = PacketCode(rawValue: value)
            for count in 0...1300 {
                let header = try? MessageDecoder.header(of: Self.datagram(value, count: count))
                let lengths = code.flatMap { fixed[$0] }
                #expect((header != nil) == (lengths?.contains(count) ?? false), "\(value), \(count) bytes")
                guard let header else { continue }
                #expect(
                    header.index == 0x1122_3344 && header.code == code
                        && header.counter == (header.code.isSealed ? 9 : 0))
            }
        }
        #expect(throws: PacketParsingError.wrongLength(.data, byteCount: 65_508)) {
            try MessageDecoder.header(of: Self.datagram(3, count: 65_508))
        }
    }

    @Test("The error of a header names its problem")
    func headerErrors() {
        #expect(throws: PacketParsingError.truncated(byteCount: 7)) {
            try MessageDecoder.header(of: Self.datagram(3, count: 7))
        }
        #expect(throws: PacketParsingError.unknownCode(11)) {
            try MessageDecoder.header(of: Self.datagram(11, count: 64))
        }
        for (index, error) in [(1, PacketParsingError.unknownVersion(9)), (2, .reservedBytes), (3, .reservedBytes)] {
            var datagram = Self.datagram(3, count: 32)
            datagram[index] = 9
            #expect(throws: error) { try MessageDecoder.header(of: datagram) }
        }
    }

    @Test("A header survives encoding and decoding", arguments: PacketCode.allCases)
    func headers(code: PacketCode) throws {
        let header = Header(code: code, index: 0x1122_3344, counter: 0x0102_0304_0506_0708)
        #expect(header.bytes.count == (code.isSealed ? 16 : 8))
        let datagram = header.bytes + [UInt8](repeating: 0, count: code.lengths.lowerBound - header.bytes.count)
        #expect(try MessageDecoder.header(of: datagram) == header)
    }

    @Test("Random bytes are decoded or refused without a trap, and encoded again without a change")
    func randomBytes() throws {
        var generator = SeededGenerator(seed: 15)
        for _ in 0..<20_000 {
            var bytes = generator.bytes(generator.int(in: 0..<140))
            if bytes.count > 3, generator.chance(0.8) {
                bytes.replaceSubrange(0..<4, with: [UInt8(generator.int(in: 0...12)), 1, 0, 0])
            }
            guard let header = try? MessageDecoder.header(of: bytes) else { continue }
            #expect(bytes.starts(with: header.bytes))
        }
    }

    // MARK: - Bodies

    @Test("A login is sorted JSON, padded with spaces")
    func login() throws {
        let body = try MessageEncoder.encode(Body.ClientAuthRequest(login: "kean", password: "pass/word\""))
        #expect(body.count == 300)
        #expect(
            String(decoding: body, as: UTF8.self).trimmingSpaces == #"{"login":"kean","password":"pass/word\""}"#)
        #expect(
            try MessageDecoder.clientAuthRequest(body) == Body.ClientAuthRequest(login: "kean", password: "pass/word\"")
        )
    }

    @Test("Logins of any usual length have the same size")
    func loginLength() throws {
        let lengths = try (0...200).map { count in
            try MessageEncoder.encode(
                Body.ClientAuthRequest(login: "kean", password: String(repeating: "x", count: count))
            ).count
        }
        #expect(Set(lengths) == [300])
    }

    @Test("A login that is too long or empty is refused")
    func loginBounds() {
        func error(_ login: String, _ password: String) -> PacketParsingError? {
            do throws(PacketParsingError) {
                _ = try MessageEncoder.encode(Body.ClientAuthRequest(login: login, password: password))
                return nil
            } catch { return error }
        }
        func field(_ error: PacketParsingError?) -> String? {
            if case .outOfBounds(let field, _)? = error { field } else { nil }
        }
        #expect(error(String(repeating: "x", count: 128), String(repeating: "y", count: 512)) == nil)
        #expect(field(error("", "x")) == "login")
        #expect(field(error(String(repeating: "x", count: 129), "x")) == "login")
        #expect(field(error("a\nb", "x")) == "login")
        #expect(field(error("x", String(repeating: "x", count: 513))) == "password")
        // Each of these bytes needs six bytes in JSON.
        #expect(
            error("x", String(repeating: "\u{1}", count: 512)).map { if case .bodyTooLong = $0 { true } else { false } }
                == true)
    }

    @Test("An accepted login contains addresses, routes, name servers, MTU and keepalive")
    func accepted() throws {
        let answer = Body.ServerAuthResponse.accepted(
            Body.Assignment(
                addresses: [try InterfaceAddress("10.7.0.2/24"), try InterfaceAddress("fd00::2/64")],
                routes: [.allIPv4, .allIPv6], dns: [.v4(10, 7, 0, 1)], mtu: 1420, keepalive: 25))
        let body = try MessageEncoder.encode(answer)
        #expect(
            String(decoding: body, as: UTF8.self).trimmingSpaces
                == #"{"addresses":["10.7.0.2/24","fd00::2/64"],"dns":["10.7.0.1"],"isOK":true,"keepalive":25,"#
                + #""mtu":1420,"routes":["0.0.0.0/0","::/0"]}"#)
        #expect(try MessageDecoder.serverAuthResponse(body) == answer)
    }

    @Test("A refusal contains its reason, even an unknown one")
    func refused() throws {
        let body = Array(#"{"isOK":false,"reason":"paid-up","message":"See your bill","more":[1]}"#.utf8)
        let answer = try MessageDecoder.serverAuthResponse(body)
        #expect(answer == .refused(Body.Refusal(.init(rawValue: "paid-up"), message: "See your bill")))
        #expect(!answer.isOK)
        #expect(try MessageDecoder.serverAuthResponse(MessageEncoder.encode(answer)) == answer)
    }

    @Test(
        "A response outside of its bounds is refused",
        arguments: [
            #""addresses":[]"#, #""addresses":["10.0.0.1","10.0.0.2"]"#,
            #""addresses":["10.0.0.1","fd00::1","fd00::2"]"#,
            #""addresses":["10.0.0.1 peer 10.0.0.2"]"#, #""addresses":["0.0.0.0"]"#, #""addresses":["127.0.0.1"]"#,
            #""addresses":["224.0.0.1"]"#, #""addresses":["10.0.0.1/33"]"#, #""addresses":"10.0.0.1""#,
            #""addresses":null"#,
            #""routes":["10.0.0.0"# + String(repeating: #"","10.0.0.0"#, count: 16) + #""]"#, #""routes":[1]"#,
            #""dns":["1.1.1.1","1.1.1.1","1.1.1.1","1.1.1.1","1.1.1.1"]"#, #""dns":["0.0.0.0"]"#, #""dns":["ff02::1"]"#,
            #""mtu":575"#, #""mtu":65536"#, #""mtu":1e99"#, #""mtu":99999999999999999999"#, #""mtu":"1420""#,
            #""keepalive":-1"#, #""keepalive":3601"#, #""isOK":1"#, #""isOK":"true""#,
        ])
    func answerBounds(field: String) {
        let name = field.dropFirst().prefix { $0 != "\"" }
        let fields = [
            #""isOK":true"#, #""addresses":["10.0.0.1"]"#, #""routes":[]"#, #""dns":[]"#, #""mtu":1420"#,
            #""keepalive":0"#,
        ]
        #expect(throws: Never.self) { try answer(fields) }
        #expect(throws: PacketParsingError.self) {
            try answer(fields.map { $0.hasPrefix("\"\(name)\"") ? field : $0 })
        }
        #expect(throws: PacketParsingError.self) { try answer(fields.filter { !$0.hasPrefix("\"\(name)\"") }) }
    }

    private func answer(_ fields: [String]) throws -> Body.ServerAuthResponse {
        try MessageDecoder.serverAuthResponse(Array("{\(fields.joined(separator: ","))}".utf8))
    }

    @Test("An MTU below 1280 is valid with IPv4 only")
    func smallMTU() throws {
        var assignment = World.assignment
        assignment.mtu = 576
        #expect(throws: Never.self) { try MessageEncoder.encode(.accepted(assignment)) }
        assignment.addresses.append(try InterfaceAddress("fd00::2"))
        #expect(throws: PacketParsingError.self) { try MessageEncoder.encode(.accepted(assignment)) }
    }

    @Test("The largest valid response fits in one datagram, or is refused as too long")
    func largestAnswer() throws {
        let route = try IPPrefix("fd11:2222:3333:4444:5555:6666:7777:8888")
        let assignment = Body.Assignment(
            addresses: World.assignment.addresses, routes: Array(repeating: route, count: 16),
            dns: Array(repeating: route.address, count: 4), mtu: 65_535, keepalive: 3600)
        #expect(try MessageEncoder.encode(.accepted(assignment)).count == 1200)
    }

    @Test("Each prefix of a body, and a body that is not UTF-8, is refused")
    func prefixes() throws {
        let login = Array(#"{"login":"kean","password":"123456"}"#.utf8)
        for count in 0..<login.count {
            #expect(throws: PacketParsingError.self) {
                try MessageDecoder.clientAuthRequest(Array(login.prefix(count)))
            }
        }
        var broken = login
        broken[11] = 0xff
        #expect(throws: PacketParsingError.self) { try MessageDecoder.clientAuthRequest(broken) }
        #expect(throws: PacketParsingError.bodyTooLong(byteCount: 1201)) {
            try MessageDecoder.clientAuthRequest(login + [UInt8](repeating: 0x20, count: 1201 - login.count))
        }
        #expect(throws: PacketParsingError.self) {
            try MessageDecoder.clientAuthRequest([UInt8](repeating: UInt8(ascii: "["), count: 1200))
        }
    }

    @Test("A body in which an object has two members of one name is refused")
    func repeatedMembers() throws {
        let twice = PacketParsingError.notJSON("a member occurs twice")
        #expect(throws: twice) {
            try MessageDecoder.clientAuthRequest(
                Array(#"{"login":"kean","password":"123456","l\u006fgin":"anna"}"#.utf8))
        }
        #expect(throws: twice) {
            try MessageDecoder.serverAuthResponse(
                Array(#"{"isOK":false,"reason":"full","message":"later","isOK":true}"#.utf8))
        }
    }

    @Test("Randomly changed bodies are decoded or refused without a trap")
    func mutations() throws {
        var generator = SeededGenerator(seed: 16)
        let bodies = [
            #"{"login":"kean","password":"123456"}"#,
            #"{"addresses":["10.7.0.2/24","fd00::2/64"],"dns":["10.7.0.1"],"isOK":true,"keepalive":25,"mtu":1420,"routes":["::/0"]}"#,
            #"{"isOK":false,"reason":"full","message":"later"}"#,
        ].map { Array($0.utf8) }
        for round in 0..<6000 {
            var body = bodies[round % bodies.count]
            for _ in 0...generator.int(in: 0...3) {
                let place = generator.int(in: 0..<body.count)
                switch generator.int(in: 0...2) {
                case 0: body[place] = UInt8(generator.int(in: 0...255))
                case 1: body.remove(at: place)
                default: body.insert(body[generator.int(in: 0..<body.count)], at: place)
                }
            }
            if let login = try? MessageDecoder.clientAuthRequest(body) {
                #expect(login.login.utf8.count <= 128 && login.password.utf8.count <= 512)
            }
            if let answer = try? MessageDecoder.serverAuthResponse(body) {
                #expect(throws: Never.self) { try MessageEncoder.encode(answer) }
            }
        }
    }

    @Test("Descriptions, dumps and errors contain no password")
    func noPasswordShown() {
        let login = Body.ClientAuthRequest(login: "kean", password: "hunter2")
        var text = "\(login) \(String(reflecting: login))"
        dump(login, to: &text)
        #expect(!text.contains("hunter2"))
        let broken = Array(#"{"login":"kean","password":["hunter2"]}"#.utf8)
        do throws(PacketParsingError) {
            _ = try MessageDecoder.clientAuthRequest(broken)
        } catch { text = error.description }
        #expect(text.contains("password") && !text.contains("hunter2"))
    }
}

extension String {
    fileprivate var trimmingSpaces: String {
        String(prefix(1 + (lastIndex { $0 != " " }.map { distance(from: startIndex, to: $0) } ?? -1)))
    }
}
