// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import Crypto
import Foundation
import PacketTunnel
import Testing

/// Single messages through public API only.
@Suite("A sealed message")
struct SealedMessageTests {
    private static let (one, other) = ([UInt8](repeating: 1, count: 32), [UInt8](repeating: 2, count: 32))

    private static func keys(
        sending: [UInt8], receiving: [UInt8], localIndex: UInt32 = 7, remoteIndex: UInt32 = 9
    ) throws -> MessageKeys {
        try #require(
            MessageKeys(
                sending: SecretBytes(sending), receiving: SecretBytes(receiving), localIndex: localIndex,
                remoteIndex: remoteIndex))
    }

    private let client: MessageKeys
    private let server: MessageKeys

    init() throws {
        client = try Self.keys(sending: Self.one, receiving: Self.other)
        server = try Self.keys(sending: Self.other, receiving: Self.one, localIndex: 9, remoteIndex: 7)
    }

    @Test("The peer opens a login, and its header has code, index and counter")
    func login() throws {
        let login = Body.ClientAuthRequest(login: "kean", password: "123456")
        let datagram = try MessageEncoder.seal(
            .clientAuthRequest, MessageEncoder.encode(login), counter: 3, keys: client)
        let (header, body) = try MessageDecoder.open(datagram, keys: server)
        #expect(header == Header(code: .clientAuthRequest, index: 9, counter: 3))
        #expect(try MessageDecoder.clientAuthRequest(body) == login)
        #expect(datagram.count == body.count + 32)
    }

    @Test("The datagram is ChaCha20-Poly1305 with the counter as nonce and the header as associated data")
    func format() throws {
        let packet: [UInt8] = [0x45, 1, 2, 3]
        let datagram = try MessageEncoder.seal(.data, packet, counter: 0x0102, keys: client)
        let nonce = try ChaChaPoly.Nonce(data: [0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0])
        let box = try ChaChaPoly.SealedBox(
            nonce: nonce, ciphertext: datagram[16..<20], tag: datagram[20...])
        let opened = try ChaChaPoly.open(
            box, using: SymmetricKey(data: Self.one), authenticating: Array(datagram[..<16]))
        #expect(Array(opened) == packet)
    }

    @Test("A changed byte, other keys, a reflection and another session's index are not authentic")
    func forgeries() throws {
        let datagram = try MessageEncoder.seal(.data, [1, 2, 3], counter: 0, keys: client)
        for position in 4..<datagram.count {
            var changed = datagram
            changed[position] ^= 1
            #expect(throws: PacketParsingError.notAuthentic) { try MessageDecoder.open(changed, keys: server) }
        }
        var receivers = [client]
        receivers.append(try Self.keys(sending: Self.one, receiving: Self.other, localIndex: 9, remoteIndex: 7))
        receivers.append(try Self.keys(sending: Self.other, receiving: Self.one, localIndex: 8, remoteIndex: 7))
        for receiver in receivers {
            #expect(throws: PacketParsingError.notAuthentic) { try MessageDecoder.open(datagram, keys: receiver) }
        }
        // A login cannot be passed off as data.
        let login = try MessageEncoder.seal(.clientAuthRequest, Array("{}".utf8), counter: 1, keys: client)
        var swapped = login
        swapped[0] = PacketCode.data.rawValue
        #expect(throws: PacketParsingError.notAuthentic) { try MessageDecoder.open(swapped, keys: server) }
    }

    @Test("Codes without a seal, wrong lengths and unusable keys are refused")
    func refusals() {
        #expect(throws: PacketParsingError.notSealed(.clientHello)) {
            try MessageEncoder.seal(.clientHello, [], counter: 0, keys: client)
        }
        #expect(throws: PacketParsingError.notSealed(.error)) {
            try MessageDecoder.open(
                Header(code: .error, index: 7).bytes + [UInt8](repeating: 0, count: 8), keys: client)
        }
        #expect(throws: PacketParsingError.wrongLength(.data, byteCount: 70_032)) {
            try MessageEncoder.seal(.data, [UInt8](repeating: 0, count: 70_000), counter: 0, keys: client)
        }
        #expect(throws: PacketParsingError.truncated(byteCount: 0)) { try MessageDecoder.open([], keys: client) }
        let (short, same) = (SecretBytes([1]), SecretBytes(Self.one))
        #expect(MessageKeys(sending: same, receiving: short, localIndex: 0, remoteIndex: 0) == nil)
        #expect(MessageKeys(sending: same, receiving: same, localIndex: 0, remoteIndex: 0) == nil)
    }

    @Test("A description and a dump contain no key")
    func description() {
        var text = ""
        dump(client, to: &text)
        #expect("\(client)" == "keys of session 7, 9 at the peer")
        #expect(!text.contains("sealing") && !text.contains("opening"))
    }
}
