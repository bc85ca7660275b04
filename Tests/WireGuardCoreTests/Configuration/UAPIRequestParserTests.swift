// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing
import WireGuardCore

/// All results of feeding `text` in pieces of `size` bytes, the connection's end included.
func uapiResults(
    _ text: [UInt8], size: Int = .max, parser: UAPIRequestParser = UAPIRequestParser()
) -> [Result<UAPIOperation, UAPIError>] {
    var parser = parser
    var results: [Result<UAPIOperation, UAPIError>] = []
    var start = 0
    while start < text.count {
        let end = size < text.count - start ? start + size : text.count
        parser.feed(Array(text[start..<end]))
        while let result = parser.next() { results.append(result) }
        start = end
    }
    parser.finish()
    while let result = parser.next() { results.append(result) }
    return results
}

private func results(_ text: String) -> [Result<UAPIOperation, UAPIError>] { uapiResults(Array(text.utf8)) }

extension Result where Success == UAPIOperation, Failure == UAPIError {
    fileprivate var update: UAPIDeviceUpdate? { if case .success(.set(let update)) = self { update } else { nil } }
    fileprivate var error: UAPIError? { if case .failure(let error) = self { error } else { nil } }
    fileprivate var isGet: Bool { self == .success(.get) }
}

@Suite("Reading UAPI requests")
struct UAPIRequestParserTests {
    @Test("Every key of a set request is read")
    func wholeSet() throws {
        let found = results(Sample.setRequest)
        try #require(found.count == 1)
        let update = try #require(found[0].update)
        #expect(update.privateKey == .set(Sample.privateKey(1)))
        #expect(update.listenPort == 51820)
        #expect(update.fwMark == 51820)
        #expect(update.replacePeers)
        try #require(update.peers.count == 2)
        var first = UAPIPeerUpdate(publicKey: Sample.publicKey(3))
        first.updateOnly = true
        first.presharedKey = .set(Sample.presharedKey(2))
        first.endpoint = try Endpoint("[fe80::1%7]:51820")
        first.persistentKeepalive = 25
        first.replaceAllowedIPs = true
        first.allowedIPs = [
            .add(try IPPrefix("10.0.0.0/8")), .remove(try IPPrefix("10.1.0.0/16")), .add(try IPPrefix("::/0")),
        ]
        #expect(update.peers[0] == first)
        var second = UAPIPeerUpdate(publicKey: Sample.publicKey(4))
        second.remove = true
        #expect(update.peers[1] == second)
    }

    @Test("An empty set and a get are requests")
    func small() {
        #expect(results("set=1\n\n") == [.success(.set(UAPIDeviceUpdate()))])
        #expect(results("get=1\n\n") == [.success(.get)])
        #expect(results("").isEmpty)
        #expect(results("\n\n\n").isEmpty)
    }

    @Test("Keys of zeros mean removal, and one that is not named stays")
    func zeroKeys() {
        let zeros = String(repeating: "0", count: 64)
        let update = results("set=1\nprivate_key=\(zeros)\npublic_key=\(Sample.hex(3))\npreshared_key=\(zeros)\n\n")
            .first?.update
        #expect(update?.privateKey == .clear)
        #expect(update?.peers.first?.presharedKey == .clear)
        let other = results("set=1\npublic_key=\(Sample.hex(3))\n\n").first?.update
        #expect(other?.privateKey == .unchanged)
        #expect(other?.peers.first?.presharedKey == .unchanged)
    }

    @Test("Capital hexadecimal digits are read")
    func capitals() {
        let update = results(
            "set=1\nprivate_key=\(Sample.hex(1).uppercased())\npublic_key=\(Sample.hex(3).uppercased())\n\n"
        ).first?.update
        #expect(update?.privateKey == .set(Sample.privateKey(1)))
        #expect(update?.peers.first?.publicKey == Sample.publicKey(3))
    }

    @Test("The same public key may come more than once in one request")
    func repeatedPeer() {
        let update = results(
            "set=1\npublic_key=\(Sample.hex(3))\nremove=true\npublic_key=\(Sample.hex(3))\nallowed_ip=::/0\n\n"
        ).first?.update
        #expect(update?.peers.map(\.publicKey) == [Sample.publicKey(3), Sample.publicKey(3)])
        #expect(update?.peers.map(\.remove) == [true, false])
    }

    @Test("replace_allowed_ips undoes the lines before it")
    func replaceOrder() throws {
        let update = results(
            "set=1\npublic_key=\(Sample.hex(3))\nallowed_ip=::/0\nreplace_allowed_ips=true\nallowed_ip=10.0.0.0/8\n\n"
        ).first?.update
        #expect(update?.peers.first?.allowedIPs == [.add(try IPPrefix("10.0.0.0/8"))])
    }

    @Test("The zone of an endpoint may be the name of an interface")
    func zoneName() throws {
        let text = Array("set=1\npublic_key=\(Sample.hex(3))\nendpoint=[fe80::1%eth0]:51820\n\n".utf8)
        let parser = UAPIRequestParser { $0 == "eth0" ? 9 : nil }
        #expect(
            uapiResults(text, parser: parser).first?.update?.peers.first?.endpoint
                == (try Endpoint("[fe80::1%9]:51820")))
        #expect(uapiResults(text).first?.error?.errno == .invalid)
    }

    @Test(
        "A malformed line is an error with its number, and of the kind that wireguard-go gives",
        arguments: [
            ("private_key=00", .invalid), ("private_key=\(String(repeating: "g", count: 64))", .invalid),
            ("private_key=", .invalid),
            ("private_key=\(Sample.hex(1))0", .invalid), ("listen_port=65536", .invalid), ("listen_port=", .invalid),
            ("listen_port=-1", .invalid), ("listen_port=+1", .invalid), ("listen_port=1 ", .invalid),
            ("listen_port=0x1", .invalid),
            ("fwmark=4294967296", .invalid), ("fwmark=off", .invalid), ("replace_peers=false", .invalid),
            ("replace_peers=1", .invalid),
            ("replace_peers=TRUE", .invalid), ("nonsense=1", .invalid), ("=1", .invalid), ("Private_Key=1", .invalid),
            (" listen_port=1", .invalid), ("nonsense", .protocolError), ("set=1", .invalid), ("get=1", .invalid),
            ("allowed_ip=::/0", .invalid),
            ("preshared_key=\(Sample.hex(1))", .invalid), ("public_key=00", .invalid), ("listen_port=1\r", .invalid),
            ("protocol_version=1", .invalid), ("errno=0", .invalid),
        ] as [(String, UAPIErrno)])
    func deviceErrors(line: String, errno: UAPIErrno) {
        let found = results("set=1\nfwmark=1\n\(line)\n\nget=1\n\n")
        #expect(found.count == 2)
        #expect(found.first?.error?.errno == errno)
        #expect(found.first?.error?.operation == .set)
        #expect(found.first?.error?.line == 3)
        #expect(found.first?.error?.fix.isEmpty == false)
        #expect(found.last?.isGet == true)
    }

    @Test(
        "A malformed line of a peer is an error with its number",
        arguments: [
            ("preshared_key=zz", .invalid), ("endpoint=a.example:1", .invalid), ("endpoint=::1:1", .invalid),
            ("endpoint=1.2.3.4", .invalid),
            ("endpoint=", .invalid), ("persistent_keepalive_interval=65536", .invalid),
            ("persistent_keepalive_interval=off", .invalid),
            ("replace_allowed_ips=false", .invalid), ("update_only=1", .invalid), ("remove=yes", .invalid),
            ("protocol_version=2", .invalid),
            ("protocol_version=01", .invalid), ("allowed_ip=10.0.0.0/33", .invalid),
            ("allowed_ip=+10.0.0.0/8", .invalid),
            ("allowed_ip=10.0.0.0", .invalid), ("allowed_ip=", .invalid), ("allowed_ip=-", .invalid),
            ("allowed_ip=--::/0", .invalid),
            ("allowed_ip=fe80::1%1/64", .invalid), ("listen_port=1", .invalid),
            ("private_key=\(Sample.hex(1))", .invalid),
            ("replace_peers=true", .invalid), ("fwmark=1", .invalid),
            ("public_key=\(Sample.hex(1).dropLast())", .invalid),
            ("allowed_ip", .protocolError), ("last_handshake_time_sec=1", .invalid),
        ] as [(String, UAPIErrno)])
    func peerErrors(line: String, errno: UAPIErrno) {
        let found = results("set=1\npublic_key=\(Sample.hex(3))\n\(line)\nallowed_ip=::/0\n\nget=1\n\n")
        #expect(found.count == 2)
        #expect(found.first?.error?.errno == errno)
        #expect(found.first?.error?.line == 3)
        #expect(found.last?.isGet == true)
    }

    @Test("After an error the rest of the request is skipped, also what looks like another request")
    func drain() {
        let found = results("set=1\nbad\nset=1\nget=1\nlisten_port=1\n\nset=1\nlisten_port=2\n\n")
        #expect(found.count == 2)
        #expect(found.first?.error?.line == 2)
        #expect(found.last?.update?.listenPort == 2)
    }

    @Test("An error is available before the request has ended, so that it can be answered")
    func earlyError() {
        var parser = UAPIRequestParser()
        parser.feed(Array("set=1\nbad\n".utf8))
        #expect(parser.next()?.error?.errno == .protocolError)
        #expect(parser.next() == nil)
    }

    @Test(
        "An unknown request is an error, and the next one is read",
        arguments: ["foo=1\n\n", "get=2\nx=y\n\n", "GET=1\n\n", "get=1\r\n\n", "set\n\n"])
    func unknownRequest(text: String) {
        let found = results(text + "get=1\n\n")
        #expect(found.count == 2)
        #expect(found.first?.error?.operation == .unknown)
        #expect(found.first?.error?.errno == .protocolError)
        #expect(found.last?.isGet == true)
    }

    @Test("A get with more lines is an error of a get")
    func getWithLines() {
        let found = results("get=1\nlisten_port=1\n\nget=1\n\n")
        #expect(found.map { $0.error?.operation } == [.get, nil])
        #expect(found.first?.error?.line == 2)
    }

    @Test("Requests in one write come out one by one")
    func pipelined() {
        let found = results("get=1\n\nset=1\nlisten_port=1\n\nget=1\n\nset=1\nlisten_port=2\n\n")
        #expect(found.map(\.isGet) == [true, false, true, false])
        #expect(found.map { $0.update?.listenPort } == [nil, 1, nil, 2])
    }

    @Test("The end of the connection takes the place of the blank line, but not of a line's end")
    func end() {
        #expect(results("get=1\n").map(\.isGet) == [true])
        #expect(results("set=1\nlisten_port=1\n").first?.update?.listenPort == 1)
        #expect(
            results("set=1\npublic_key=\(Sample.hex(3))\nallowed_ip=10.0.0.0/1").first?.error?.errno == .protocolError)
        #expect(results("set=1\nbad\nmore").count == 1)
        #expect(results("get=1").first?.error?.errno == .protocolError)
    }

    @Test("A parser can be used for another connection after the end of one")
    func reuse() {
        var parser = UAPIRequestParser()
        parser.feed(Array("set=1\nbad\nmo".utf8))
        parser.finish()
        _ = parser.next()
        parser.feed(Array("get=1\n\n".utf8))
        #expect(parser.next()?.isGet == true)
    }

    @Test(
        "Single bytes, and pieces of any size, have the same result as the whole",
        arguments: [1, 2, 3, 5, 7, 16, 61, 64, 1000])
    func pieces(size: Int) {
        let text = Array(
            (Sample.setRequest + "get=1\n\nset=1\nbad\nx\n\nset=1\nlisten_port=7\n\n\nfoo\n\n" + Sample.setRequest).utf8
        )
        let whole = uapiResults(text)
        #expect(whole.count == 6)
        #expect(uapiResults(text, size: size) == whole)
    }

    @Test(
        "A line over the limit is an error, in any pieces, and the next request is parsed",
        arguments: [1, 7, 100, .max])
    func longLine(size: Int) {
        let text = Array("set=1\nlisten_port=\(String(repeating: "0", count: 5000))1\nfwmark=1\n\nget=1\n\n".utf8)
        let found = uapiResults(text, size: size, parser: UAPIRequestParser(maximumLineLength: 1000))
        #expect(found.count == 2)
        #expect(found.first?.error?.errno == .protocolError)
        #expect(found.first?.error?.line == 2)
        #expect(found.last?.isGet == true)
        // Longer than other implementations read, but within the limit.
        #expect(uapiResults(text, size: size).first?.update?.listenPort == 1)
    }

    @Test("Lines of 100 KiB are accepted with the default limit")
    func lineOver64KiB() {
        let text = Array("set=1\nlisten_port=\(String(repeating: "0", count: 100 << 10))1\n\n".utf8)
        #expect(uapiResults(text, size: 4096).first?.update?.listenPort == 1)
    }

    @Test("A request over the limit is an error, and the next one is read")
    func longRequest() {
        let lines = String(repeating: "listen_port=1\n", count: 100)
        let found = uapiResults(
            Array("set=1\n\(lines)\nget=1\n\n".utf8), parser: UAPIRequestParser(maximumRequestLength: 1000))
        #expect(found.first?.error?.errno == .protocolError)
        #expect(found.last?.isGet == true)
        #expect(found.count == 2)
    }

    @Test(
        "Keys do not appear in errors",
        arguments: [
            "private_key=\(Sample.hex(1))0", "private_key=x\(Sample.hex(1).prefix(20))", "privat_key=\(Sample.hex(1))",
            "\(Sample.hex(1))", "listen_port=\(Sample.hex(1))", "private_key=\(Sample.privateText)",
        ])
    func secrecy(line: String) {
        let error = results("set=1\n\(line)\n\n").first?.error
        #expect(error != nil)
        #expect(error?.description.contains(Sample.hex(1).prefix(12)) == false)
        #expect(error?.description.contains(Sample.privateText.prefix(12)) == false)
    }

    @Test("The sign of errno is what wg expects: positive after get, negative after set")
    func replies() {
        #expect(UAPIReply.status(nil, answering: .get) == Array("errno=0\n\n".utf8))
        #expect(UAPIReply.status(nil, answering: .set) == Array("errno=0\n\n".utf8))
        #expect(UAPIReply.status(.invalid, answering: .get) == Array("errno=22\n\n".utf8))
        #expect(UAPIReply.status(.invalid, answering: .set) == Array("errno=-22\n\n".utf8))
        for errno in UAPIErrno.allCases { #expect(errno.number > 0) }
        #expect(Set(UAPIErrno.allCases.map(\.number)).count == UAPIErrno.allCases.count)
        #expect(UAPIReply.errno(in: Array("errno=-98\n\n".utf8)) == 98)
        #expect(UAPIReply.errno(in: Array("a=b\nerrno=0\n\n".utf8)) == 0)
        for text in ["", "\n\n", "errno=0\n", "errno=\n\n", "errno=x\n\n", "xerrno=0\n\n", "errno=99999999999\n\n"] {
            #expect(UAPIReply.errno(in: Array(text.utf8)) == nil)
        }
    }

    @Test("24,000 peers and 130,560 allowed IPs in one request are all read")
    func large() {
        var update = UAPIDeviceUpdate()
        for index in 0..<24_000 as Range<UInt64> {
            var peer = UAPIPeerUpdate(publicKey: PublicKey(Bytes32(w0: index, w1: 1, w2: 2, w3: 3)))
            if index == 0 {
                peer.allowedIPs = (0..<130_560).compactMap { IPPrefix(.v4($0), length: 32).map { .add($0) } }
            }
            update.peers.append(peer)
        }
        var text: [UInt8] = []
        update.appendRequest(to: &text)
        #expect(uapiResults(text, size: 65536) == [.success(.set(update))])
    }
}
