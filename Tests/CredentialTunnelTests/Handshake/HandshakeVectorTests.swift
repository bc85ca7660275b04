// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing
import WireGuardCore

@testable import CredentialTunnel

/// A login, packets and a rekey with fixed inputs, compared byte by byte with ``Reference``, and with bytes that Python
/// produced with `hashlib` and the `cryptography` package (OpenSSL) from the same specifications.
@Suite("Vectors of the login tunnel")
struct HandshakeVectorTests {
    static let packet: [UInt8] = [
        0x45, 0, 0, 0x14, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8,
    ]

    private func world() -> World {
        World(
            clientRandom: ScriptedGenerator([
                .index(FixedKeys.clientIndex), .key(FixedKeys.clientEphemeral), .index(FixedKeys.clientRekeyIndex),
                .key(FixedKeys.clientRekeyEphemeral),
            ]),
            serverRandom: ScriptedGenerator([
                .index(FixedKeys.serverIndex), .key(FixedKeys.serverEphemeral), .index(FixedKeys.serverRekeyIndex),
                .key(FixedKeys.serverRekeyEphemeral),
            ]))
    }

    private func reference() throws -> (hello: [UInt8], serverHello: [UInt8], keys: Reference.Handshake) {
        let header = Reference.header(4, FixedKeys.clientIndex)
        let keys = try Reference.handshake(
            prologue: Array("Culvert credential tunnel: hello".utf8) + header, serverStatic: FixedKeys.server,
            clientEphemeral: FixedKeys.clientEphemeral, serverEphemeral: FixedKeys.serverEphemeral,
            presharedKey: FixedKeys.presharedKey, firstPayload: [UInt8](repeating: 0, count: 40),
            secondPayload: Reference.littleEndian(FixedKeys.serverIndex))
        let mac1Key = Reference.blake2s(
            Array("CTmac1--".utf8) + (try Reference.publicKey(FixedKeys.server)) + FixedKeys.presharedKey)
        let hello = header + keys.first
        let mac1 = Reference.blake2s(hello, key: mac1Key, byteCount: 16)
        return (
            hello + mac1 + [UInt8](repeating: 0, count: 16), Reference.header(5, FixedKeys.clientIndex) + keys.second,
            keys
        )
    }

    @Test("The reference's hash matches RFC 7693's example")
    func referenceHash() {
        #expect(
            hex(Reference.blake2s(Array("abc".utf8)))
                == "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982")
    }

    @Test("Hellos, login, packets and rekey equal the reference byte by byte")
    func againstReference() throws {
        let world = world()
        world.start()
        world.run()
        let (hello, serverHello, keys) = try reference()
        // A client requests a ticket with an empty one.
        let login = Array(#"{"login":"kean","password":"123456","ticket":""}"#.utf8)
        let body = login + [UInt8](repeating: 0x20, count: 300 - login.count)
        #expect(world.clientSent.map(\.bytes).first == hello)
        #expect(world.serverSent.map(\.bytes).first == serverHello)
        #expect(
            world.clientSent.map(\.bytes).last
                == (try Reference.sealed(1, FixedKeys.serverIndex, 0, key: keys.toServer, body)))
        #expect(world.clientSaid == [.established(World.assignment)])
        #expect(
            world.clientSeals(Self.packet)
                == (try Reference.sealed(3, FixedKeys.serverIndex, 1, key: keys.toServer, Self.packet)))
        // The response to the login had counter 0.
        #expect(
            world.serverSeals(Self.packet)
                == (try Reference.sealed(3, FixedKeys.clientIndex, 1, key: keys.toClient, Self.packet)))

        world.run(for: .seconds(120))
        let rekey = try Reference.handshake(
            prologue: Array("Culvert credential tunnel: rekey".utf8)
                + Reference.littleEndian(FixedKeys.clientRekeyIndex), serverStatic: FixedKeys.server,
            clientEphemeral: FixedKeys.clientRekeyEphemeral, serverEphemeral: FixedKeys.serverRekeyEphemeral,
            presharedKey: Reference.hkdf(keys.chain, FixedKeys.presharedKey, 1)[0], firstPayload: [],
            secondPayload: Reference.littleEndian(FixedKeys.serverRekeyIndex))
        // Empty packets precede it, since the session was silent.
        let request = try #require(world.clientSent.map(\.bytes).first { $0[0] == 7 })
        #expect(
            request
                == (try Reference.sealed(
                    7, FixedKeys.serverIndex, Self.counter(request), key: keys.toServer,
                    Reference.littleEndian(FixedKeys.clientRekeyIndex) + rekey.first)))
        let response = try #require(world.serverSent.map(\.bytes).first { $0[0] == 8 })
        #expect(
            response
                == (try Reference.sealed(
                    8, FixedKeys.clientIndex, Self.counter(response), key: keys.toClient, rekey.second)))
        #expect(
            world.clientSent.map(\.bytes).last
                == (try Reference.sealed(3, FixedKeys.serverRekeyIndex, 0, key: rekey.toServer, [])))
        #expect(
            world.serverSeals(Self.packet)
                == (try Reference.sealed(3, FixedKeys.clientRekeyIndex, 1, key: rekey.toClient, Self.packet)))
    }

    /// The counter of a sealed datagram.
    private static func counter(_ datagram: [UInt8]) -> UInt64 {
        datagram[8..<16].reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }

    @Test("Hellos, keys and packets equal Python's")
    func againstPython() throws {
        let (hello, serverHello, keys) = try reference()
        #expect(
            hex(hello)
                == "040100004433221164b101b1d0be5a8704bd078f9895001fc03e8e9f9522f188dd128d9846d4846695ce1eac7aa831be"
                + "2d0454bd2ef0cf23558b88fa6c2e0e7d6af14f7a9b5d66861f148e720d4d998d318d2585038c471e6184314a3d2a78e4"
                + "7bc34618283a6a274b88bd15055c441700000000000000000000000000000000")
        #expect(
            hex(serverHello)
                == "0501000044332211244fe3b963e899dd295baffce248d3530f3a9a7479ba063002680ebfe7adad49d10bfa09fd8a37f6"
                + "8d37b049d5cf9a5d9a2d7e9d")
        #expect(hex(keys.toServer) == "b68902fcb1ebc57ea371fdf70f8bef4bd3fca1893d7467782684161a2c6ddf0a")
        #expect(hex(keys.toClient) == "98d6c8d7ea5ab0fe645cbb47c0c2c1b911af18da31ae25a39880784fb6becccc")
        #expect(hex(keys.chain) == "0bf4ba9aa68c78325b21ad31b310fa10fbde3dd6ec24c6e6e3bb59796ed0ce94")
        #expect(
            hex(try Reference.sealed(3, FixedKeys.serverIndex, 1, key: keys.toServer, Self.packet))
                == "03010000d4c3b2a1010000000000000008ebd37d5106d7aed01363ecf686dcae75191acbb3b97319fc49d1c25b0eeb54"
                + "b5e2be62")
        #expect(
            hex(try Reference.sealed(3, FixedKeys.clientIndex, 0, key: keys.toClient, Self.packet))
                == "030100004433221100000000000000005be16abe8cdfa10f96244bdb8cedaeedda232abdc745b4813a8bf6da0a631df2"
                + "634f30f0")
    }
}
