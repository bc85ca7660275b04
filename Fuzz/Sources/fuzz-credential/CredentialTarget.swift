// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import NetworkAddresses
import PacketTunnelTesting
import WireGuardCore

/// The login tunnel's messages. The first byte says which: a datagram, of any sender, to both state machines; the JSON of a
/// login or of an answer; or either of these, sealed by the other side.
func fuzzCredential(_ bytes: [UInt8]) {
    var input = ByteReader(bytes)
    switch input.choice(of: 4) {
    case 0: checkHeader(input.rest())
    case 1: checkBodies(input.rest())
    case 2: checkStrangers(&input)
    default: checkPeers(&input)
    }
}

/// A header that is read can be written, and is then the same bytes.
private func checkHeader(_ datagram: [UInt8]) {
    guard let header = try? MessageDecoder.header(of: datagram) else { return }
    require(header.code.lengths.contains(datagram.count), "\(header.code) with \(datagram.count) bytes was read")
    require(header.bytes == Array(datagram.prefix(header.byteCount)), "write and read changes \(header)")
}

/// A body that is read is within bounds: it can be written, and is then read as the same.
private func checkBodies(_ json: [UInt8]) {
    if let login = try? MessageDecoder.clientAuthRequest(json), let written = try? MessageEncoder.encode(login) {
        require((try? MessageDecoder.clientAuthRequest(written)) == login, "write and read changes a login")
        require(written.count <= Body.maximumByteCount, "a login of \(written.count) bytes")
    }
    if let answer = try? MessageDecoder.serverAuthResponse(json), let written = try? MessageEncoder.encode(answer) {
        require((try? MessageDecoder.serverAuthResponse(written)) == answer, "write and read changes an answer")
        require(written.count <= Body.maximumByteCount, "an answer of \(written.count) bytes")
    }
}

private let secret = PrivateKey(bytes: [UInt8](1...32))
private let presharedKey = PresharedKey(bytes: [UInt8](33...64))
private let now = Instant(nanoseconds: 1_000_000_000)
private let source = Endpoint(address: .v4(192, 0, 2, 1), port: 4000)

private func makeServer() -> CredentialServer {
    guard let secret, let presharedKey else { finding("32 bytes are no key") }
    return CredentialServer(privateKey: secret, presharedKey: presharedKey, random: SeededGenerator(seed: 1))
}

private func makeClient() -> CredentialClient {
    guard let secret, let presharedKey else { finding("32 bytes are no key") }
    let keys = SharedKeys(server: secret.publicKey, presharedKey: presharedKey)
    return CredentialClient(
        CredentialClient.Configuration(keys: keys, login: Body.ClientAuthRequest(login: "kean", password: "123456")),
        random: SeededGenerator(seed: 2))
}

/// Datagrams of strangers open nothing, and no answer is longer than its request.
private func checkStrangers(_ input: inout ByteReader) {
    var server = makeServer()
    var client = makeClient()
    _ = client.start(at: now)
    while !input.isAtEnd {
        var datagram = input.take(input.short() % 400)
        let count = datagram.count
        unsafe datagram.withUnsafeMutableBytes { raw in
            for action in unsafe server.received(raw, from: source, at: now) {
                guard case .send(let reply, _) = action else { finding("a stranger's datagram made \(action)") }
                require(reply.count <= count, "\(reply.count) bytes answer \(count)")
            }
        }
        let actions = unsafe datagram.withUnsafeMutableBytes { unsafe client.received($0, at: now) }
        require(actions.isEmpty, "a stranger's datagram made \(actions)")
    }
    require(server.tableCounts == (0, 0), "a stranger has a place in the table")
}

/// A server accepts anything that a client with the keys seals.
private func checkPeers(_ input: inout ByteReader) {
    var server = makeServer()
    var client = makeClient()
    guard case .send(var hello)? = client.start(at: now).first else { finding("the client sends nothing") }
    let index = (try? MessageDecoder.header(of: hello))?.index ?? 0
    let replies = unsafe hello.withUnsafeMutableBytes { unsafe server.received($0, from: source, at: now) }
    guard case .send(var reply, _)? = replies.first else { finding("the server answers no hello") }
    _ = unsafe reply.withUnsafeMutableBytes { unsafe client.received($0, at: now) }
    guard let session = client.session(receiving: index) else {
        finding("no session came of a handshake without loss")
    }
    while !input.isAtEnd {
        let codes: [PacketCode] = [.clientAuthRequest, .data, .rekeyRequest, .disconnect]
        let code = codes[input.choice(of: codes.count)]
        let counter = session.reserve(1).first
        var datagram = MessageEncoder.seal(
            Header(code: code, index: 0, counter: counter), input.take(input.short() % 1300), keys: session.keys)
        let actions = unsafe datagram.withUnsafeMutableBytes { unsafe server.received($0, from: source, at: now) }
        for case .verify(let id, let login, _) in actions {
            let isGood = login.password.utf8.count % 2 == 0
            _ = server.answer(
                id,
                isGood
                    ? .accepted(Body.Assignment(addresses: [InterfaceAddress(host: .v4(10, 0, 0, 2))]))
                    : .refused(Body.Refusal(.credentials)), at: now)
        }
    }
    require(server.tableCounts.clients <= 1, "one client has several places")
}
